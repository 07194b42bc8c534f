"""Layouts of files and folders, and what becomes of them."""

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
from foltr_audit.data.sources import describe, folds_of
from foltr_audit.errors import DataError, UsageError
from tests.fixtures.data_cache import load_data

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


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
