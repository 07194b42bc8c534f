"""Layouts of files, folders and pieces, the forms in which published files come, and what becomes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.core.records import Collection
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.data.document_order import in_content_order
from foltr_audit.data.letor import read_letor
from foltr_audit.data.sources import describe, folds_of, locate
from foltr_audit.errors import DataError, UsageError
from tests.fixtures.command import SHARED, answer, run
from tests.fixtures.data_cache import load_data

DATA = SHARED / "data"


def rows(*queries: str, width: int = 2, documents: int = 2) -> str:
    """Dense rows; each query's features tell it from the others."""
    lines = []
    for query in queries:
        for row in range(documents):
            pairs = (f"{j}:{hash_of(query) + row}" for j in range(1, width + 1))
            lines.append(f"{row % 2} qid:{query} {' '.join(pairs)}\n")
    return "".join(lines)


def hash_of(query: str) -> int:
    return sum(map(ord, query))


def lay(folder: Path, files: Mapping[str, str | bytes]) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode() if isinstance(text, str) else text
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(folder)


def queries(collection: Collection) -> dict[str, tuple[str, ...]]:
    return {name: collection.part(name).query_ids for name in Collection.PARTS}


THREE = {"train": ("a", "b"), "vali": ("c",), "test": ("d",)}


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "vali.txt", "test.txt"),
        ("train.txt", "valid.txt", "test.txt"),
        ("train.txt.gz", "vali.txt.gz", "test.txt"),
        ("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
        ("set1.train.txt.gz", "set1.valid.txt.gz", "set1.test.txt.gz"),
    ],
)
@pytest.mark.parametrize("fold", [0, 4])
def test_three_files(tmp_path: Path, names: tuple[str, str, str], fold: int) -> None:
    texts = rows("a", "b"), rows("c"), rows("d")
    place = f"Fold{fold}/" if fold else ""
    source = lay(tmp_path, {place + name: text for name, text in zip(names, texts, strict=True)})
    data = load_data(source, fold=fold, normalise="none")
    assert queries(data) == THREE
    assert (data.source, data.synthetic, data.fold, data.normalised) == (source, False, fold, "none")
    parts = [in_content_order(read_letor(tmp_path / place / name).dataset) for name in names]
    assert data.fingerprint == joint_fingerprint(parts)
    scaled = load_data(source, fold=fold)
    assert scaled.normalised == "zscore"
    assert scaled.fingerprint == data.fingerprint
    np.testing.assert_allclose(scaled.train.features.mean(axis=0), 0, atol=1e-6)


def folded(folder: Path, *numbers: int) -> str:
    for number in numbers:
        texts = {"train": rows(f"a{number}"), "vali": rows("c"), "test": rows("d")}
        lay(folder / f"Fold{number}", {f"{name}.txt": text for name, text in texts.items()})
    return str(folder)


def test_folds(tmp_path: Path) -> None:
    source = folded(tmp_path, 10, 2, 1)
    lay(tmp_path, {"Fold0/x": "", "Folder/x": "", "Fold9": "", "README": ""})
    assert folds_of(source) == (1, 2, 10)
    assert load_data(source, fold=10).train.query_ids == ("a10",)
    with pytest.raises(UsageError, match=r"has folds 1, 2, 10; pass --fold K or --fold all"):
        load_data(source)
    for missing in (3, 9):
        with pytest.raises(UsageError, match=rf"data: --fold {missing}: .* has folds 1, 2, 10"):
            load_data(source, fold=missing)


@pytest.mark.parametrize(
    ("file", "lacks"), [("train.txt", "vali"), ("vali.txt", "train"), ("notes", "train")]
)
def test_a_fold_that_lacks_a_part_is_refused_and_not_passed_over(
    tmp_path: Path, file: str, lacks: str
) -> None:
    source = folded(tmp_path, 1, 2)
    lay(tmp_path, {f"Fold3/{file}": rows("a")})
    with pytest.raises(DataError, match=rf"Fold3: no {lacks} part; expected train\.txt, vali\.txt and"):
        folds_of(source)


def test_an_only_fold_needs_no_name(tmp_path: Path) -> None:
    source = folded(tmp_path, 1)
    assert load_data(source).fold == 1
    assert load_data(source).fingerprint == load_data(source, fold=1).fingerprint


def test_data_without_folds(tmp_path: Path) -> None:
    source = lay(tmp_path, {"train.txt": rows("a", "b", "c")})
    assert folds_of(source) == folds_of(f"{source}/train.txt") == ()
    with pytest.raises(UsageError, match=r"--fold 2: .* has no folds"):
        load_data(source, fold=2)
    with pytest.raises(UsageError, match=r"--fold 2: .* is a file, which has no folds"):
        load_data(f"{source}/train.txt", fold=2)


NAMES = [f"q{number}" for number in range(20)]


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"data.txt": NAMES}, (12, 4, 4)),
        ({"data.txt": NAMES[:3]}, (1, 1, 1)),
        ({"data.txt": NAMES[:6]}, (4, 1, 1)),
        ({"train.txt": NAMES}, (12, 4, 4)),
        ({"train.txt": NAMES, "test.txt": ["z"]}, (16, 4, 1)),
        ({"train.txt": NAMES, "vali.txt": ["z"]}, (16, 1, 4)),
        ({"train.txt": NAMES[:2], "test.txt": ["z"]}, (1, 1, 1)),
    ],
)
def test_missing_parts_are_split_off_by_query(
    tmp_path: Path, given: Mapping[str, list[str]], sizes: tuple[int, int, int]
) -> None:
    source = lay(tmp_path, {name: rows(*names) for name, names in given.items()})
    source = f"{source}/data.txt" if "data.txt" in given else source
    data = load_data(source, normalise="none")
    found = queries(data)
    assert tuple(len(found[name]) for name in Collection.PARTS) == sizes
    every = [name for part in found.values() for name in part]
    assert sorted(every) == sorted(name for names in given.values() for name in names)
    for name in Collection.PARTS:
        part = data.part(name)
        assert list(part.query_ids) == sorted(part.query_ids, key=lambda query: (len(query), query))
        starts = [hash_of(query) for query in part.query_ids]
        smallest = np.minimum.reduceat(part.features[:, 0], part.offsets[:-1])
        np.testing.assert_array_equal(smallest, starts)
    assert load_data(source, normalise="none").fingerprint == data.fingerprint


def test_the_seed_says_which_queries_are_split_off(tmp_path: Path) -> None:
    source = lay(tmp_path, {"train.txt": rows(*NAMES)})
    splits = {queries(load_data(source, seed=seed))["test"] for seed in range(5)}
    assert len(splits) > 1


@pytest.mark.parametrize(("count", "files"), [(2, ["train.txt"]), (1, ["train.txt", "test.txt"])])
def test_too_few_queries_to_split(tmp_path: Path, count: int, files: list[str]) -> None:
    source = lay(tmp_path, {name: rows(*NAMES[:count]) for name in files})
    said = f"{count} training queries; expected at least {count + 1} to split off"
    with pytest.raises(DataError, match=said):
        load_data(source)


def test_sparse_parts_take_the_widest(tmp_path: Path) -> None:
    sparse = "1 qid:c 2:1\n0 qid:c 5:2\n"
    source = lay(tmp_path, {"train.txt": rows("a"), "vali.txt": sparse, "test.txt": "1 qid:d 3:1\n"})
    data = load_data(source, normalise="none")
    assert [data.part(name).n_features for name in Collection.PARTS] == [5, 5, 5]
    assert sorted(data.vali.features.tolist()) == [[0, 0, 0, 0, 2], [0, 1, 0, 0, 0]]
    assert data.train.features[:, 2:].tolist() == [[0, 0, 0]] * 2
    assert data.fingerprint == joint_fingerprint([data.train, data.vali, data.test])


def test_dense_parts_must_agree(tmp_path: Path) -> None:
    files = {"train.txt": rows("a"), "vali.txt": "1 qid:c 9:1\n", "test.txt": rows("d", width=3)}
    source = lay(tmp_path, files)
    with pytest.raises(DataError, match=r"dense rows of 2 features in train\.txt, but of 3 in test\.txt"):
        load_data(source)


def test_no_such_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for read in (load_data, folds_of):
        with pytest.raises(DataError, match=r"data: .*none: no such file or folder"):
            read(str(tmp_path / "none"))
        with pytest.raises(DataError, match=r"cannot be read: File name too long"):
            read("x" * 5000)

    def forbidden(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        load_data(str(tmp_path))


def test_describe(tmp_path: Path) -> None:
    train = rows("a", documents=12) + "0 qid:b 1:1 2:2\n" + "".join(f"0 qid:c 1:{i} 2:1\n" for i in range(10))
    test = "4 qid:e 1:1 2:1\n2 qid:e 1:1 2:1\n4 qid:e 1:1 2:1\n"
    source = lay(tmp_path, {"train.txt": train, "vali.txt": rows("d"), "test.txt": test})
    data = load_data(source, normalise="none")
    facts = describe(data)
    assert json.loads(json.dumps(facts)) == facts
    parts = facts.pop("parts")
    assert facts == {
        "source": source, "synthetic": False, "fold": 0, "fingerprint": data.fingerprint, "features": 2,
        "intents": 1, "intents_from": None,
    }  # fmt: skip
    assert isinstance(parts, dict)
    assert parts["train"] == {
        "queries": 3,
        "documents": 23,
        "documents_per_query": {"min": 1, "mean": 23 / 3, "max": 12},
        "labels": {"0": 17, "1": 6},
        "queries_without_relevant": 2,
        "queries_with_one_document": 1,
        "queries_with_10_documents": 2,
        "ndcg_ceiling": 1 / 3,
    }
    assert parts["test"]["labels"] == {"2": 1, "4": 2}
    assert parts["test"]["ndcg_ceiling"] == 1


def test_real_folders() -> None:
    if not (DATA / "mq2008").exists():
        pytest.skip("the real data are not here")
    mq2008 = load_data(str(DATA / "mq2008"))
    assert mq2008.n_features == 46
    for name in ("vali", "test"):
        assert not set(mq2008.train.query_ids) & set(mq2008.part(name).query_ids)
    rank = load_data(str(DATA / "lightgbm-rank"))
    assert rank.train.n_queries + rank.vali.n_queries == 201
    assert (rank.vali.n_queries, rank.test.n_queries) == (40, 50)
    facts = describe(load_data(str(DATA / "lightgbm-rank"), normalise="none"))
    assert isinstance(facts["parts"], dict)
    assert sum(facts["parts"][name]["queries_with_one_document"] for name in ("train", "vali")) == 1


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
