"""Packed columns: every number comes back with its bits, and forged bytes are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from foltr_audit.recorder import table_files
from foltr_audit.recorder.table_files import (
    MOST_LEVELS,
    PackedColumn,
    pack_block,
    pack_columns,
    unpack_columns,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

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


NINE: NDArray[np.generic] = octets(*[0] * 9)
FLOATS = np.empty((0, 2), dtype=np.float32)
EMPTY = np.empty((0, 2), dtype=np.uint16)  # ten rows of this type have 20 numbers, whose codes take 3 bytes
FORGED: dict[str, tuple[dict[str, NDArray[np.generic]], str]] = {
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
        *({"a.packed": octets(0, *[1, 0, 255, 255, 255] * 9)}, f"lists in more than {MOST_LEVELS} others"),
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
