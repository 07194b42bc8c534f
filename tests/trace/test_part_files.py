"""The files of a trace: rounds to columns, columns to bytes, header to text, parts committed whole."""

from __future__ import annotations

import io
import json
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder.array_layout import LayoutArray
from foltr_audit.recorder.round_tables import OpenPart, RoundColumns, Tables, TruthColumns, round_tables
from foltr_audit.recorder.trace_files import PartRange, clean, commit_part, marker_indices, part_files
from foltr_audit.recorder.trace_format import Column, DatasetFields, HeaderFields, toml_text
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.one_of(TEXTS, st.integers(), st.booleans())
NUMBERS = st.floats(allow_nan=False)
COLUMNS: dict[str, NDArray[Any]] = {
    "round": np.array([0, 0, 1]),
    "payload": np.arange(6, dtype=np.float32).reshape(3, 2),
    "name": np.array(["a", "bc", "ü"]),
}


def test_numpy_reads_what_was_written_and_no_file_tells_when_that_was() -> None:
    content = part_files(PartRange("id", 0, 0, 1), {"observed/rounds": COLUMNS})["observed/rounds-00000.npz"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        assert list(found) == list(COLUMNS)
        for name, values in COLUMNS.items():
            assert found[name].dtype == values.dtype
            assert np.array_equal(found[name], values)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=4))
def test_whole_numbers_take_the_smallest_type_that_holds_them(numbers: list[int]) -> None:
    found = Column("word").stored(np.array(numbers, dtype=np.uint64))
    assert found.tolist() == numbers
    assert found.dtype.kind == "u"
    assert found.itemsize == 1 or max(numbers) > np.iinfo(f"u{found.itemsize // 2}").max


@given(st.dictionaries(TEXTS, st.one_of(PLAIN, NUMBERS, st.lists(PLAIN))))
def test_a_table_as_toml_is_read_back(table: dict[str, object]) -> None:
    layout = [{"name": "weight", "shape": [2, 3]}, {"name": "bias", "shape": []}]
    whole = {"layout": layout, **table, "knowledge": table}
    if "layout" in table or "knowledge" in table:
        return
    assert tomllib.loads(toml_text(whole)) == whole


def test_a_part_counts_once_its_marker_is_there(tmp_path: Path) -> None:
    (tmp_path / "observed").mkdir()
    files = part_files(PartRange("id", 0, 0, 1), {"observed/rounds": COLUMNS})
    marker = list(files)[-1]
    assert marker == "part-00000.json"
    commit_part(tmp_path, {name: content for name, content in files.items() if name != marker})
    assert marker_indices(tmp_path) == []
    clean(tmp_path, 0)
    assert not list((tmp_path / "observed").iterdir())
    commit_part(tmp_path, files)
    clean(tmp_path, 1)
    assert marker_indices(tmp_path) == [0]
    name = "observed/rounds-00000.npz"
    stored = json.loads((tmp_path / marker).read_text())["files"][name]
    assert (stored["rows"], stored["size"]) == (3, (tmp_path / name).stat().st_size)


# --- rounds to tables and tables to parts ---------------------------------------------------------


WEIGHT = np.arange(12, dtype=np.float16).reshape(2, 3, 2)
BUFFER = np.array([[7], [8]], dtype=np.int32)
ARRAYS: list[NDArray[Any]] = [WEIGHT, BUFFER]
ROUND = RoundColumns(
    round=0,
    parameters=np.zeros(6),
    aggregate=np.full(6, np.nan),
    counts=np.array([2, 1]),
    survivors=np.array([True, False]),
    slot=np.array([0, 0, 1]),
    step=np.array([0, 1, 0]),
    part=np.zeros(3, dtype=np.int64),
    query=np.array([4, 300, 5]),
    shown=np.array([[1, 0], [2, -1], [-1, -1]]),
)
TRUTH = TruthColumns(
    clients=np.array([5, 6]),
    clicks=np.array([[True, False], [False, False], [False, False]]),
    metrics={"ndcg": 0.5, "mrr": 0.25},
)
NOBODY = np.empty(0, dtype=np.int64)


HEADER = HeaderFields(
    kind="update",
    dtype="float32",
    parameters=6,
    k=2,
    dataset=DatasetFields(source="here", parts=("live",)),
    has_truth=True,
    layout=(LayoutArray("weight", (3, 2), "float16"), LayoutArray("seen", (1,), "int32")),
)


def part_of(*rounds: Tables, header: HeaderFields = HEADER) -> Tables:
    part = OpenPart(header)
    for tables in rounds:
        part.take(tables)
    return part.tables()


def test_a_plain_round() -> None:
    found = part_of(round_tables(HEADER, ROUND, ARRAYS, TRUTH))
    assert list(found) == [
        *("observed/rounds", "observed/messages", "observed/interactions"),
        *("truth/rounds", "truth/messages", "truth/clicks"),
    ]
    assert list(found["observed/rounds"]) == ["round", "parameters", "aggregate", "shares"]
    assert np.isnan(found["observed/rounds"]["aggregate"]).all()
    messages = found["observed/messages"]
    assert messages["array-0"].dtype == np.float16
    assert messages["array-0"].shape == (2, 3, 2)
    assert np.array_equal(messages["array-1"], BUFFER)
    assert messages["slot"].tolist() == [0, 1]
    lists = found["observed/interactions"]
    assert lists["shown"].tolist() == [[2, 1], [3, 0], [0, 0]]
    assert lists["shown"].dtype == np.uint8
    assert lists["query"].dtype == np.uint16
    assert found["truth/rounds"]["name"].tolist() == ["ndcg", "mrr"]
    assert found["truth/clicks"]["clicks"].tolist() == [[True, False], [False] * 2, [False] * 2]


def test_sums_of_masked_words() -> None:
    words = [np.ones((2, 7), dtype=np.uint64)]
    header = replace(HEADER, kind="masked", dtype="uint64", knowledge={"masking": "flower-secagg"})
    summed = replace(ROUND, total=np.full(7, 2**63, dtype=np.uint64))
    failed = replace(ROUND, round=1, aborted="too few nodes")
    found = part_of(*(round_tables(header, each, words) for each in (summed, failed)), header=header)
    rounds = found["observed/rounds"]
    assert rounds["has_total"].tolist() == [True, False]
    assert rounds["total"].dtype == np.uint64
    assert rounds["total"][:, 0].tolist() == [2**63, 0]
    assert rounds["aborted"].tolist() == ["", "too few nodes"]


def test_rounds_of_a_part_are_joined_and_what_some_lack_is_filled() -> None:
    large = replace(ROUND, round=300, senders=np.array([2**64 - 1, 0], np.uint64), counts=np.array([0.5, 1]))
    small = replace(ROUND, started=7.0, facts={"pairs": "all"}, sizes=np.array([4, 5]))
    small = replace(small, senders=np.array([1, 2], dtype=np.uint64))
    none = dict.fromkeys(("counts", "survivors", "slot", "step", "part", "query"), NOBODY)
    nobody = replace(ROUND, round=1, shown=np.empty((0, 2), dtype=np.int64), **none)  # type: ignore[arg-type]
    empty = [values[:0] for values in ARRAYS]
    found = part_of(
        round_tables(HEADER, nobody, empty), *(round_tables(HEADER, each, ARRAYS) for each in (small, large))
    )
    messages, rounds = found["observed/messages"], found["observed/rounds"]
    assert messages["sender"].tolist() == [1, 2, 2**64 - 1, 0]
    assert messages["count"].tolist() == [2, 1, 0.5, 1]
    assert messages["bytes"].tolist() == [4, 5, 0, 0]
    assert rounds["round"].tolist() == [1, 0, 300]
    assert rounds["facts"].tolist() == ["", '{"pairs": "all"}', ""]
    np.testing.assert_array_equal(rounds["started"], [np.nan, 7.0, np.nan])


def test_rounds_that_do_not_go_together_are_refused() -> None:
    part = OpenPart(replace(HEADER, kind="es", knowledge={"width": 6}))
    numbers = np.array([1, 2], dtype=np.uint64)
    seen = replace(ROUND, state=np.array([1.0, 2.0]), seeds=numbers)
    part.take(round_tables(part.header, seen, ARRAYS))
    for other, what in (
        (replace(seen, state=np.array([1.0])), "state has other axes"),
        (replace(seen, senders=numbers), "sender is missing"),
    ):
        with pytest.raises(ValueError, match=f"column {what} in some rounds of a part"):
            part.take(round_tables(part.header, other, ARRAYS))
    assert len(part) == 1
