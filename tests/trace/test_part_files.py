"""The files of a trace: columns to bytes, header to text, parts committed whole."""

from __future__ import annotations

import io
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder.part_files import PartRange, clean, commit_part, marker_indices, part_files
from foltr_audit.recorder.table_files import smallest, table_pieces
from foltr_audit.recorder.toml_text import toml_text
from hypothesis import given
from hypothesis import strategies as st

PLAIN = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), st.booleans())
NUMBERS = st.floats(allow_nan=False)
COLUMNS = {
    "round": np.array([0, 0, 1]),
    "payload": np.arange(6, dtype=np.float32).reshape(3, 2),
    "name": np.array(["a", "bc", "ü"]),
}


def test_numpy_reads_what_was_written() -> None:
    with np.load(io.BytesIO(b"".join(table_pieces(COLUMNS))), allow_pickle=False) as found:
        assert list(found) == list(COLUMNS)
        for name, values in COLUMNS.items():
            assert found[name].dtype == values.dtype
            assert np.array_equal(found[name], values)


def test_bytes_depend_on_the_values_alone() -> None:
    swapped = {name: values.astype(values.dtype.newbyteorder(">")) for name, values in COLUMNS.items()}
    turned = {name: np.asfortranarray(values) for name, values in COLUMNS.items()}
    other = {**COLUMNS, "round": np.array([0, 1, 1])}
    first, *same, last = (b"".join(table_pieces(each)) for each in (COLUMNS, swapped, turned, other))
    assert first == same[0] == same[1] != last


def test_tables_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        table_pieces({**COLUMNS, "round": np.array([0])})
    with pytest.raises(ValueError, match="column objects holds objects"):
        table_pieces({"objects": np.array([None])})


@given(st.lists(st.integers(-(2**63), 2**64 - 1), max_size=4))
def test_whole_numbers_take_the_smallest_type_that_holds_them(numbers: list[int]) -> None:
    if min(numbers, default=0) < 0 and max(numbers) > 2**63 - 1:
        return
    kind = np.uint64 if max(numbers, default=0) > 2**63 - 1 else np.int64
    found = smallest(np.array(numbers, dtype=kind))
    assert found.tolist() == numbers
    if numbers and found.itemsize > 1:
        smaller = np.iinfo(f"{found.dtype.kind}{found.itemsize // 2}")
        assert min(numbers) < smaller.min or max(numbers) > smaller.max


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.one_of(PLAIN, NUMBERS, st.lists(PLAIN))
    )
)
def test_a_table_as_toml_is_read_back(table: dict[str, object]) -> None:
    layout = [{"name": "weight", "shape": [2, 3]}, {"name": "bias", "shape": []}]
    whole = {"layout": layout, **table, "knowledge": table}
    if "layout" in table or "knowledge" in table:
        return
    assert tomllib.loads(toml_text(whole)) == whole


def test_values_without_a_toml_form_are_refused() -> None:
    for value in (float("nan"), None, object()):
        with pytest.raises(ValueError, match="rate is"):
            toml_text({"rate": value})


def test_a_part_counts_once_its_marker_is_there(tmp_path: Path) -> None:
    (tmp_path / "observed").mkdir()
    files = part_files(PartRange("id", 0, 0, 1), {"observed/rounds": COLUMNS})
    marker = list(files)[-1]
    assert marker == "part-00000.json"
    commit_part(tmp_path, {name: pieces for name, pieces in files.items() if name != marker})
    assert marker_indices(tmp_path) == []
    clean(tmp_path, 0)
    assert not list((tmp_path / "observed").iterdir())
    commit_part(tmp_path, files)
    clean(tmp_path, 1)
    assert marker_indices(tmp_path) == [0]
    name = "observed/rounds-00000.npz"
    stored = json.loads((tmp_path / marker).read_text())["files"][name]
    assert (stored["rows"], stored["size"]) == (3, (tmp_path / name).stat().st_size)
