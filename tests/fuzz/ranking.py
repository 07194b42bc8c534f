"""Readers of ranking data: LETOR text, group files, qrels."""

from __future__ import annotations

import gzip
from pathlib import Path

from foltr_audit.data.intents import read_qrels
from foltr_audit.data.letor import read_letor
from tests.fixtures.data_cache import TEXT, load_data
from tests.fuzz.mutations import Random, changed_bytes, changed_text
from tests.fuzz.watch import Feed

SPARSE = "2 qid:1 1:0.5 40:1e3 65536:-2 # docid = a\n0 qid:1 3:1 #docid = b\n1 qid:2 2:.5\n"
GROUPED = "1 1:2 3:4\n0 2:1\n2 1:1\n"
QRELS = {"1.txt": "7 1 a 1\n7 1 b -2\n8 1 a 0\n", "2.txt.gz": "8 2 a 3\n7 2 c 1\n7 2 a 0\n"}


def _bomb(rng: Random) -> bytes:
    """Some megabytes of repetitions, packed."""
    piece = rng.choice([b"\n", b"0", b"1 qid:1 1:1\n", b" ", b"1 qid:1 " + b"1:1 " * 5000])
    return gzip.compress(piece * (30_000_000 // len(piece)), 1)


def _given(rng: Random, text: str) -> bytes:
    if rng.random() < 0.0005:
        return _bomb(rng)
    data = changed_text(rng, text)
    way = rng.randrange(10)
    if way > 1:
        return data
    packed = gzip.compress(data, 1)
    return changed_bytes(rng, packed) if way == 0 else packed


def letor(folder: Path) -> Feed:
    """LETOR and SVM-rank text, group files, and sources of three parts."""
    path, groups = folder / "some.txt", folder / "some.query"
    source = folder / "parts"
    source.mkdir()
    for name in ("train.txt", "vali.txt", "test.txt"):
        (source / name).write_text(TEXT, encoding="utf-8")

    def feed(rng: Random) -> None:
        way = rng.randrange(4)
        if way == 0:
            (source / "train.txt").write_bytes(_given(rng, TEXT))
            load_data(str(source), normalise=rng.choice(["zscore", "query-minmax", "none"]))
        elif way == 1:
            path.write_bytes(_given(rng, GROUPED))
            groups.write_bytes(changed_text(rng, "2\n1\n"))
            read_letor(path, groups=groups)
        else:
            path.write_bytes(_given(rng, rng.choice([TEXT, SPARSE])))
            read_letor(path)

    return feed


def qrels(folder: Path) -> Feed:
    """Qrels per intent, and of all subtopics."""
    names = ("1.txt", "2.txt.gz", "3.txt", "01.txt", "9" * 30 + ".txt", "².txt", "1.txt.gz")

    def feed(rng: Random) -> None:
        for path in folder.iterdir():
            path.unlink()
        for name, text in QRELS.items():
            data = _given(rng, text) if rng.random() < 0.7 else text.encode()
            target = rng.choice(names) if rng.random() < 0.1 else name
            (folder / target).write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        read_qrels(str(folder if rng.random() < 0.5 else folder / "1.txt"))

    return feed
