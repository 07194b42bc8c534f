"""Group files, which stand in for query ids: where they are found, and what must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from foltr_audit.core.records import Collection
from foltr_audit.data.letor import read_letor
from foltr_audit.data.sources import folds_of, locate
from foltr_audit.errors import DataError
from tests.data.test_sources import lay
from tests.fixtures.data_cache import load_data

SIZES = (2, 3, 1, 2)
PARTS = ("train", "vali", "test")
LAYOUTS = {
    "text": [f"{part}.txt" for part in PARTS],
    "valid": [f"{part}.txt" for part in ("train", "valid", "test")],
    "yahoo": [f"set1.{part}.txt" for part in ("train", "valid", "test")],
    "name": [f"web.{part}" for part in ("train", "valid", "test")],
    "fold": [f"Fold1/{part}.txt" for part in PARTS],
    "name in a fold": [f"Fold1/web.{part}" for part in PARTS],
    "pieces": [f"S{number}.txt" for number in range(1, 6)],
    "one file": ["ranking.dat"],
}
# The name of the file with rows, and of its group file.
ENDS = [
    *[("", f"{end}{packed}") for end in (".query", ".group") for packed in ("", ".gz")],
    *[(".gz", f"{end}{packed}") for end in (".query", ".group") for packed in ("", ".gz")],
    *[(".gz", f".gz{end}{packed}") for end in (".query", ".group") for packed in ("", ".gz")],
]


def ungrouped(sizes: Sequence[int]) -> str:
    return "".join(f"{row % 2} 1:{query + 1} 2:{row}\n" for query, n in enumerate(sizes) for row in range(n))


def with_ids(sizes: Sequence[int]) -> str:
    return "".join(f"1 qid:q{query} 1:{row}\n" for query, n in enumerate(sizes) for row in range(n))


def groups(sizes: Sequence[int]) -> str:
    return "".join(f"{size}\r\n\n" for size in sizes)


@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("packed", "end"), ENDS)
def test_a_group_file_is_found_beside_every_file(
    tmp_path: Path, names: list[str], packed: str, end: str
) -> None:
    files = {name + packed: ungrouped(SIZES) for name in names}
    lay(tmp_path, files | {name + end: groups(SIZES) for name in names})
    source = str(tmp_path / next(iter(files)) if len(names) == 1 else tmp_path)
    data = load_data(source, normalise="none")
    parts = [data.part(name) for name in Collection.PARTS]
    found = {
        query: length
        for part in parts
        for query, length in zip(part.query_ids, part.lengths.tolist(), strict=True)
    }
    assert found == {f"{Path(name).name}:{query}": size for name in names for query, size in enumerate(SIZES)}
    if len(names) == 5:
        assert folds_of(source) == (1, 2, 3, 4, 5)
        assert {path.name for path in locate(source, 3).files} >= {name + end for name in names}


@pytest.mark.parametrize("rows", [ungrouped, with_ids])
@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("ends", [(".query", ".group"), (".query", ".query.gz"), (".group.gz", ".query.gz")])
def test_two_group_files_of_one_file_are_refused(
    tmp_path: Path, names: list[str], ends: tuple[str, str], rows: Callable[[Sequence[int]], str]
) -> None:
    lay(tmp_path, {name: rows(SIZES) for name in names} | {names[-1] + end: groups(SIZES) for end in ends})
    source = str(tmp_path / names[0] if len(names) == 1 else tmp_path)
    with pytest.raises(DataError) as caught:
        load_data(source)
    last = Path(names[-1]).name
    assert all(f"{last}{end}" in str(caught.value) for end in ends)


@pytest.mark.parametrize("name", ["train.txt", "web.train.gz"])
def test_rows_without_any_query_name_the_group_files_looked_for(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {name: ungrouped(SIZES)})
    with pytest.raises(DataError) as caught:
        load_data(str(tmp_path))
    names = {name, name.removesuffix(".gz")}
    assert all(f"{each}{end}" in str(caught.value) for each in names for end in (".query", ".group"))


def test_query_ids_of_rows_stay_where_the_groups_are_the_same(tmp_path: Path) -> None:
    lay(tmp_path, {"train.txt": with_ids(SIZES), "train.txt.query": groups(SIZES)})
    part = read_letor(tmp_path / "train.txt", groups=tmp_path / "train.txt.query").dataset
    assert part.query_ids == tuple(f"q{query}" for query in range(len(SIZES)))
    assert tuple(part.lengths.tolist()) == SIZES
    alone = read_letor(tmp_path / "train.txt").dataset
    assert alone.fingerprint == part.fingerprint


@pytest.mark.parametrize(
    "sizes", [(8,), (1, 4, 1, 2), (2, 3, 3), (2, 3, 1, 1, 1), (2, 3, 1), (2, 3, 1, 2, 1)]
)
def test_groups_of_other_queries_are_refused_with_both_names(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    lay(tmp_path, {"train.txt": with_ids(SIZES), "train.txt.group": groups(sizes)})
    with pytest.raises(DataError) as caught:
        load_data(str(tmp_path))
    message = str(caught.value).replace("train.txt.group", "<groups>")
    assert "<groups>" in message
    assert "train.txt" in message


@pytest.mark.parametrize(
    ("text", "line"), [("1 1:1\n0 qid:a 1:2\n", 2), ("1 qid:a 1:1\n0 qid:a 1:2\n\n1 1:1\n", 4)]
)
def test_query_ids_in_some_rows_only_are_refused(tmp_path: Path, text: str, line: int) -> None:
    lay(tmp_path, {"train.txt": text, "train.txt.query": "1\n1\n"})
    with pytest.raises(DataError, match=rf"train\.txt:{line}: query id "):
        load_data(str(tmp_path))


def test_a_folder_named_like_a_group_file_is_passed_over(tmp_path: Path) -> None:
    lay(tmp_path, {"train.txt": with_ids(SIZES), "train.txt.query/notes": "x"})
    assert sum(load_data(str(tmp_path)).part(name).n_queries for name in Collection.PARTS) == len(SIZES)
