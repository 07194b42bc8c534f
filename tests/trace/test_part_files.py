"""The files of a trace: rounds to columns, columns to bytes, header to text, parts committed whole."""

from __future__ import annotations

import io
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder import table_files
from foltr_audit.recorder.part_files import PartRange, clean, commit_part, marker_indices, part_files
from foltr_audit.recorder.round_tables import (
    RoundColumns,
    TruthColumns,
    join_tables,
    round_tables,
)
from foltr_audit.recorder.table_files import (
    MOST_LEVELS,
    PackedColumn,
    pack_block,
    pack_columns,
    smallest,
    table_pieces,
    unpack_columns,
)
from foltr_audit.recorder.toml_text import toml_text
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.one_of(TEXTS, st.integers(), st.booleans())
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


@given(st.dictionaries(TEXTS, st.one_of(PLAIN, NUMBERS, st.lists(PLAIN))))
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


# --- packed columns -------------------------------------------------------------------------------


TYPES = ["u1", "u2", "u4", "u8", "i1", "i4", "i8", "f2", "f4", "f8", ">f4", "?"]


def octets(*values: int) -> NDArray[np.uint8]:
    return np.array(values, dtype=np.uint8)


def drawn(kind: str, rows: int, width: int, values: int, rare: float, seed: int) -> NDArray[np.generic]:
    """Numbers of a type that are mostly few, and with probability `rare` any pattern of bits."""
    rng, dtype = np.random.default_rng(seed), np.dtype(kind)
    if kind == "?":
        return rng.random((rows, width)) < rare
    few = rng.integers(0, values, (rows, width)).astype(dtype)
    odd = rng.integers(0, 256, (rows, width * dtype.itemsize), dtype=np.uint8).view(dtype)
    return np.where(rng.random((rows, width)) < rare, odd, few).astype(dtype)


@given(
    kind=st.sampled_from(TYPES),
    rows=st.integers(1, 700),
    width=st.integers(1, 3),
    values=st.sampled_from([1, 2, 6, 40, 100]),
    rare=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_every_number_comes_back_with_its_bits(
    kind: str, rows: int, width: int, values: int, rare: float, seed: int
) -> None:
    column = drawn(kind, rows, width, values, rare, seed)
    whole = {"a.type": column[:0], "a.packed": pack_block(column)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "_BLOCK", 500)
        packed = PackedColumn(column[: rows // 3])
        for begin in range(rows // 3, rows, 100):
            packed.add(column[begin : begin + 100])
        assert packed.rows == rows
        blocks = {name: np.concatenate(pieces) for name, pieces in packed.arrays("a").items()}
    [found] = unpack_columns(whole, rows).values()
    [again] = unpack_columns(blocks, rows).values()
    assert again.tobytes() == found.tobytes()
    assert found.dtype == column.dtype.newbyteorder("=")
    assert found.shape == column.shape
    assert found.tobytes() == column.astype(found.dtype).tobytes()


def test_few_values_take_few_bits_and_random_ones_stay_as_they_are() -> None:
    rng = np.random.default_rng(1)
    columns: dict[str, NDArray[np.generic]] = {
        "one": np.zeros(80_000, dtype=np.int64),
        "few": rng.integers(0, 3, 80_000, dtype=np.uint8),
        "rare": np.where(rng.random(80_000) < 0.1, rng.integers(0, 2**32, 80_000), 0).astype(np.uint32),
        "random": rng.integers(0, 2**32, 80_000, dtype=np.uint32),
        "short": np.zeros(100),
        "text": np.full(80_000, "a"),
    }
    stored = pack_columns(columns)
    assert {name for name in columns if name in stored} == {"random", "short", "text"}
    sizes = {name: stored[f"{name}.packed"].size for name in ("one", "few", "rare")}
    # One bit for each of eight bytes; two bits; one bit and a tenth of four bytes.
    assert sizes["one"] == 1 + 8 * (1 + 1 + 10_000)
    assert sizes["few"] == 1 + 1 + 3 + 20_000
    assert sizes["rare"] < 1.03 * (10_000 + 32_000)
    # The entropy of a normal float32 is about 3.3 bytes: sign and exponent take few values.
    normal = pack_columns({"a": rng.normal(size=80_000).astype(np.float32)})["a.packed"]
    assert 3.2 * 80_000 < normal.size < 3.5 * 80_000


NINE = octets(*[0] * 9)
FLOATS = np.empty((0, 2), dtype=np.float32)
EMPTY = np.empty((0, 2), dtype=np.uint16)  # ten rows of this type have 20 numbers, whose codes take 3 bytes
FORGED: dict[str, tuple[dict[str, NDArray[Any]], str]] = {
    "none": ({"a.packed": octets()}, "0 packed bytes, which are too few"),
    "cut": ({"a.packed": octets(0, 8, 1, 2)}, "4 packed bytes, which are too few"),
    "cut in codes": ({"a.packed": octets(1, 0)}, "2 packed bytes, which are too few"),
    "wide codes": ({"a.packed": octets(8)}, "codes of 8 bits of uint16 in 0 blocks of others"),
    "codes of floats": ({"a.type": FLOATS, "a.packed": octets(1)}, "codes of 1 bits of float32 in 0 blocks"),
    "blocks without end": ({"a.packed": octets(*[1, 255, 255, 255] * 9)}, "codes of 1 bits of uint16 in 3"),
    "rows of blocks": ({"a.blocks": np.array([4, 5]), "a.packed": NINE}, "blocks of 9 rows; expected 10"),
    "rows below 0": ({"a.blocks": np.array([-4, 14]), "a.packed": NINE}, "blocks of 10 rows"),
    "blocks of text": ({"a.blocks": np.array(["x"]), "a.packed": NINE}, "blocks of type <U1"),
    "wide list": ({"a.packed": octets(0, 9, *[0] * 9)}, "codes of 9 bits, or lists"),
    "lists without end": (
        {"a.packed": octets(0, *[1, 0, 255, 255, 255] * 9)},
        f"more than {MOST_LEVELS}",
    ),
    "too long": ({"a.packed": octets(0, *[8, *[0] * 20] * 2, 7)}, "1 packed bytes too many"),
    "truth values": (
        {"a.type": np.empty((0, 2), dtype=np.bool_), "a.packed": octets(0, 8, *[2] * 20)},
        "a truth value that is neither 0 nor 1",
    ),
    "twice": ({"a": np.zeros((10, 2)), "a.packed": NINE}, "there twice"),
    "words": ({"a.packed": np.zeros(9, dtype=np.uint16)}, "packed otherwise than as bytes"),
    "rows in the type": ({"a.type": np.zeros((1, 2)), "a.packed": NINE}, "packed otherwise"),
    "text": ({"a.type": np.empty(0, dtype="U3"), "a.packed": NINE}, "packed otherwise"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_bytes_are_one_error(case: str) -> None:
    arrays, expected = FORGED[case]
    with pytest.raises(ValueError, match=f"column a.*{re.escape(expected)}"):
        unpack_columns({"a.type": EMPTY, **arrays}, 10)


def test_rows_that_nobody_stored_take_no_memory() -> None:
    few = pack_columns({"a": np.zeros((5000, 2), dtype=np.uint16)})
    with pytest.raises(ValueError, match="too few"):
        unpack_columns(few, 10**15)


# --- rounds to tables and tables to parts ---------------------------------------------------------


WEIGHT = np.arange(12, dtype=np.float16).reshape(2, 3, 2)
BUFFER = np.array([[7], [8]], dtype=np.int32)
ARRAYS: list[NDArray[Any]] = [WEIGHT, BUFFER]
ROUND = RoundColumns(
    round=0,
    parameters=np.zeros(6),
    aggregate=None,
    counts=[2, 1],
    survivors=[True, False],
    slot=[0, 0, 1],
    step=[0, 1, 0],
    part=[0, 0, 0],
    query=[4, 300, 5],
    shown=[[1, 0], [2, -1], [-1, -1]],
)
TRUTH = TruthColumns(clients=[5, 6], clicks=[[1, 0], [0, 0], [0, 0]], metrics={"ndcg": 0.5, "mrr": 0.25})


def test_a_plain_round() -> None:
    found = join_tables([round_tables(ROUND, ARRAYS, TRUTH)])
    assert list(found) == [
        *("observed/rounds", "observed/messages", "observed/interactions"),
        *("truth/rounds", "truth/messages", "truth/clicks"),
    ]
    assert list(found["observed/rounds"]) == ["round", "shares", "parameters", "aggregate"]
    assert np.isnan(found["observed/rounds"]["aggregate"]).all()
    messages = found["observed/messages"]
    assert messages["array-0"].dtype == np.float16
    assert messages["array-0"].shape == (2, 3, 2)
    assert np.array_equal(messages["array-1"], BUFFER)
    assert messages["slot"].tolist() == [0, 1]
    lists = found["observed/interactions"]
    assert lists["shown"].dtype == np.uint8
    assert lists["query"].dtype == np.uint16
    assert found["truth/rounds"]["name"].tolist() == ["ndcg", "mrr"]
    assert found["truth/clicks"]["clicks"].tolist() == [[0b1000_0000], [0], [0]]


def test_sums_of_masked_words() -> None:
    words = [np.ones((2, 7), dtype=np.uint64)]
    summed = replace(ROUND, total=np.full(7, 2**63, dtype=np.uint64))
    failed = replace(ROUND, round=1, aborted="too few nodes")
    found = join_tables([round_tables(each, words, masked=True) for each in (summed, failed)])[
        "observed/rounds"
    ]
    assert found["has_total"].tolist() == [True, False]
    assert found["total"].dtype == np.uint64
    assert found["total"][:, 0].tolist() == [2**63, 0]
    assert found["aborted"].tolist() == ["", "too few nodes"]


def test_whole_numbers_of_two_types_stay_whole() -> None:
    large = replace(ROUND, round=1, senders=np.array([2**64 - 1, 0], np.uint64))
    small = replace(ROUND, senders=[1, 2])
    found = join_tables([round_tables(small, ARRAYS), round_tables(large, ARRAYS)])
    assert found["observed/messages"]["sender"].tolist() == [1, 2, 2**64 - 1, 0]


@pytest.mark.parametrize(
    ("most", "kind"), [(0, "u1"), (254, "u1"), (255, "u2"), (65534, "u2"), (65535, "u4"), (2**40, "u8")]
)
def test_the_largest_number_of_a_type_is_the_padding_of_a_list(most: int, kind: str) -> None:
    lists = replace(ROUND, slot=[0], step=[0], part=[0], query=[0], shown=[[most, -1]])
    found = join_tables([round_tables(lists, ARRAYS)])["observed/interactions"]["shown"]
    assert found.dtype == np.dtype(kind)
    assert found.tolist() == [[most, np.iinfo(kind).max]]


def test_positions_that_no_list_has_are_kept_for_readers_to_refuse() -> None:
    lists = replace(ROUND, slot=[0], step=[0], part=[0], query=[0], shown=[[3, -2]])
    found = join_tables([round_tables(lists, ARRAYS)])["observed/interactions"]["shown"]
    assert found.tolist() == [[3, -2]]


def test_rounds_that_do_not_go_together_are_refused() -> None:
    wide = round_tables(ROUND, [WEIGHT.astype(np.float64), BUFFER])
    with pytest.raises(ValueError, match="column array-0 has several types: float16, float64"):
        join_tables([round_tables(ROUND, ARRAYS), wide])
    with pytest.raises(ValueError, match="expected whole numbers, got values of type float64"):
        join_tables([round_tables(replace(ROUND, slot=[0.5]), ARRAYS)])
    with pytest.raises(ValueError, match="both candidates and n_candidates"):
        round_tables(replace(ROUND, candidates=np.ones((1, 2))), ARRAYS)
