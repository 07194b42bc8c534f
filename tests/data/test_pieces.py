"""Folders of pieces: one collection, or LETOR's five folds; and the forms in which published files come."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.core.records import Collection
from foltr_audit.data.letor import read_letor
from foltr_audit.data.sources import folds_of, locate
from foltr_audit.errors import UsageError
from tests.data.test_sources import lay, queries, rows
from tests.fixtures.command import SHARED, answer, run
from tests.fixtures.data_cache import load_data

DATA = SHARED / "data"
FIVE = {f"S{number}.txt": rows(f"{number}a", f"{number}b") for number in range(1, 6)}
OTHERS = {
    "README": "see S1.txt", "README.txt": "no data", "._S1.txt": "\0", "S1.query": "3",
    "S1.txt~": "old", "S6.csv": "a,b", "old/S7.txt": "x", "notes2024.txt": "x",
}  # fmt: skip


def test_pieces_are_one_collection_split_by_query(tmp_path: Path) -> None:
    source = lay(tmp_path, FIVE | OTHERS)
    data = load_data(source, normalise="none")
    found = queries(data)
    assert [len(found[name]) for name in Collection.PARTS] == [6, 2, 2]
    assert sorted(sum(found.values(), ())) == [f"{number}{one}" for number in range(1, 6) for one in "ab"]
    assert data.fold == 0
    assert [path.name for path in locate(source).files] == sorted(FIVE)
    # The same rows in one file are the same data.
    whole = lay(tmp_path / "whole", {"all.txt": "".join(FIVE.values())}) + "/all.txt"
    assert load_data(whole, normalise="none").fingerprint == data.fingerprint


@pytest.mark.parametrize("fold", range(1, 6))
def test_five_pieces_have_the_folds_of_letor(tmp_path: Path, fold: int) -> None:
    source = lay(tmp_path, FIVE | OTHERS)
    assert folds_of(source) == (1, 2, 3, 4, 5)
    data = load_data(source, fold=fold)
    names = [f"{(fold - 1 + place) % 5 + 1}" for place in range(5)]
    wanted = {"train": names[:3], "vali": names[3:4], "test": names[4:]}
    assert queries(data) == {
        part: tuple(f"{name}{one}" for name in sorted(each) for one in "ab") for part, each in wanted.items()
    }
    laid = {
        f"Fold{fold}/{part}.txt": "".join(FIVE[f"S{name}.txt"] for name in each)
        for part, each in wanted.items()
    }
    same = load_data(lay(tmp_path / "folds", laid), fold=fold)
    assert (data.fold, data.fingerprint) == (fold, same.fingerprint)
    np.testing.assert_array_equal(data.test.features, same.test.features)


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["part3.txt", "part1.txt", "part2.txt"], ["part1.txt", "part2.txt", "part3.txt"]),
        (["part-00001.txt", "part-00000.txt"], ["part-00000.txt", "part-00001.txt"]),
        ([f"x{number}.txt.gz" for number in range(11)], [f"x{number}.txt.gz" for number in range(11)]),
        (["1.txt", "2.txt.gz"], ["1.txt", "2.txt.gz"]),
    ],
)
def test_pieces_are_in_the_order_of_their_numbers(tmp_path: Path, names: list[str], order: list[str]) -> None:
    source = lay(tmp_path, {name: rows(f"{name}/1", f"{name}/2") for name in names})
    assert [path.name for path in locate(source).files] == order
    assert folds_of(source) == ()
    with pytest.raises(UsageError, match=r"--fold 1: .* has no folds"):
        locate(source, 1)


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("#docid = GX008-86-4444840 inc = 1 prob = 0.086622", "GX008-86-4444840"),
        ("#docid =  X  ", "X"),
        ("#DocID: X inc = 1", "X"),
        ("# inc = 1 doc_id = X", "X"),
        ("#X", "X"),
        ("# http://x.org/a=b?c", "http://x.org/a=b?c"),
        ("# https://x.org/?docid=7", "https://x.org/?docid=7"),
        ("# https://x.org/a#b", "https://x.org/a#b"),
        ("# https://x.org/a#docid=7", "https://x.org/a#docid=7"),
        ("#docid = https://x.org/?docid=7&a=b inc = 1", "https://x.org/?docid=7&a=b"),
        ("# https://x.org/?docid=7 Title", ""),
        ("# doi:10.1145/3746252.3761651", "doi:10.1145/3746252.3761651"),
        ("# a=b", "a=b"),
        ("# a:", "a:"),
        ("## X", "X"),
        ("## docid = X", "X"),
        ("# 7555 Some title", ""),
        ("# docid=", ""),
        ("# DOC-ID:", ""),
        ("# 1A\t", "1A"),
        ("#", ""),
        ("#docid = = inc = 1", "="),
        ("#docid = :x inc = 1", ":x"),
        ("# two words", ""),
        ("# mydocid = X", ""),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", " \r\n", ""])
def test_spellings_of_document_ids(tmp_path: Path, comment: str, name: str, end: str) -> None:
    (tmp_path / "data.txt").write_bytes(f"1 qid:a-b/c 1:2 {comment}{end}".encode())
    part = read_letor(tmp_path / "data.txt").dataset
    assert (tuple(part.document_ids), part.query_ids, part.features.tolist()) == ((name,), ("a-b/c",), [[2]])


# --- commands -------------------------------------------------------------------------------------


def test_facts_of_all_folds_are_those_of_each(tmp_path: Path) -> None:
    source = lay(tmp_path, FIVE)
    facts = answer("data info", source)
    assert (facts["files"], facts["split_off"]) == (sorted(FIVE), ["vali", "test"])
    every = answer("data info --fold all", source)["folds"]
    assert [fold["fold"] for fold in every] == [1, 2, 3, 4, 5]
    third = answer("data info --fold 3", source)
    assert every[2] == {name: value for name, value in third.items() if name != "schema"}
    assert third["split_off"] == []


def judged(tmp_path: Path) -> tuple[str, Path]:
    """Ten queries of 12 documents each; of eight queries ten documents are judged."""
    letor = "".join(
        f"{row % 2} qid:{query} 1:{query * row % 7} 2:{row} # docid = D{query}-{row}\r\n"
        for query in range(1, 11)
        for row in range(12)
    )
    lines = letor.splitlines(keepends=True)
    source = lay(tmp_path / "data", {"p1.txt": "".join(lines[:60]), "p2.txt": "".join(lines[60:])})
    qrels = "".join(
        f"{query} I D{query}-{row} {(row + query) % 2}\n" for query in range(1, 9) for row in range(10)
    )
    lay(tmp_path / "qrels", {f"{intent}.txt": qrels.replace("I", str(intent)) for intent in (1, 2)})
    return source, tmp_path / "qrels"


def test_a_line_says_how_many_rows_joined(tmp_path: Path) -> None:
    source, qrels = judged(tmp_path)
    facts = answer("data info", source, "--intents", qrels)
    assert [facts[name] for name in ("rows_read", "rows_joined")] == [120, 80]
    assert [facts[name] for name in ("queries_read", "queries_joined")] == [10, 8]
    shown = " ".join(run("data info", source, "--intents", qrels).out.split())
    assert "80 of 120 rows and 8 of 10 queries joined with" in shown
    small = "--clients 4 --rounds 1 --data"
    for command in ("train --no-trace", "attack --method olsr --repeats 2"):
        asked = (f"{command} {small}", source, "--intents", qrels)
        assert "80 of 120 rows joined with" in run(*asked).out
        fold = answer(*asked)["dataset"]["folds"][0]
        assert (fold["rows_read"], fold["rows_joined"]) == (120, 80)
    for others in ("", "--intents synthetic:2"):
        done = run(f"train --no-trace {others} {small}", source)
        assert done.code == 0
        assert "joined" not in done.out


# --- the real data --------------------------------------------------------------------------------

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not here")


@needs_data
def test_mq2008_from_its_pieces() -> None:
    every = load_data(str(DATA / "mq2008-parts"), fold=1)
    assert [every.part(name).n_queries for name in Collection.PARTS] == [471, 157, 156]
    assert every.n_documents == 15_211
    small = load_data(str(DATA / "mq2008"))
    assert set(small.train.query_ids) < set(every.test.query_ids)


@needs_data
def test_every_row_of_clueweb09_joins_the_intents_of_trec() -> None:
    data = load_data(str(DATA / "clueweb09"), intents=str(DATA / "trec-web-intents"))
    assert data.read == (15_579, 36) == (data.n_documents, data.n_queries)
    assert (data.n_intents, data.n_features, data.synthetic) == (4, 42, False)


@needs_data
def test_relevant_documents_of_a_query_line_by_line() -> None:
    """Means over the queries of each part, counted in the text of the rows and of the qrels."""
    source, intents = DATA / "clueweb09", DATA / "trec-web-intents"
    rows = [line.split() for path in source.glob("part*.txt") for line in path.read_text().splitlines()]
    found = answer("data info", source, "--intents", intents)["parts"]
    parts = load_data(str(source), intents=str(intents))
    for intent in range(1, 5):
        lines = gzip.decompress((intents / f"{intent}.txt.gz").read_bytes()).decode().splitlines()
        relevant = {(topic, name) for topic, _, name, label in map(str.split, lines) if int(label) > 0}
        for name in ("train", "vali", "test"):
            queries = set(parts.part(name).query_ids)
            own = [(qid[4:], row[-1]) for _, qid, *row in rows if qid[4:] in queries]
            count = sum(each in relevant for each in own)
            assert found[name]["relevant_per_intent"][str(intent)] == count
            mean = found[name]["relevant_per_query_and_intent"][str(intent)]
            assert mean == pytest.approx(count / len(queries))
