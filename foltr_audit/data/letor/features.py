"""The `ID:VALUE` part of LETOR rows: a fast parser, and a careful one that explains what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.data.letor.lines import shown
from foltr_audit.errors import DataError
from foltr_audit.utils.arrays import Features, Ints

MAX_FEATURES = 65_536
_OTHER_SPACE = (b"  ", b"\t", b"\r", b"\v", b"\f")
_ID = re.compile(rb"[+-]?\d+")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_FLOAT32_MAX = float(np.finfo(np.float32).max)

Entries = tuple[NDArray[np.int32], Features]  # feature ids from 1, values; both (entries,)


@dataclass(frozen=True)
class FeatureBlock:
    """Parsed features of some consecutive rows.

    Attributes:
        counts: number of given features of each row, shape (rows,).
        columns: 0-based feature of each value, shape (entries,); None if every row gives 1..width in order.
        values: shape (entries,).
        width: the largest feature id.
    """

    counts: Ints
    columns: NDArray[np.uint16] | None
    values: Features
    width: int

    def fill(self, matrix: Features) -> None:
        """Write the values into zeros of shape (rows, at least width)."""
        if self.columns is None:
            matrix[:, : self.width] = self.values.reshape(self.counts.size, self.width)
        else:
            matrix[np.repeat(np.arange(self.counts.size), self.counts), self.columns] = self.values


def parse_features(
    rows: Sequence[bytes], numbers: Sequence[int], name: str, dtype: str = "float32"
) -> FeatureBlock:
    """Parse the features of rows, without label, query id and comment, as float32 or float64.

    Raises:
        DataError: the first row with a feature that is malformed, out of range or given twice.
    """
    text = b" ".join(filter(None, rows))
    if any(space in text for space in _OTHER_SPACE):
        rows = [b" ".join(row.split()) for row in rows]
        text = b" ".join(filter(None, rows))
    counts = np.array([row.count(b" ") + 1 if row else 0 for row in rows], dtype=np.int64)
    entries = _parse_quickly(text, counts, dtype)
    ids, values = entries if entries is not None else _parse_carefully(rows, numbers, name, dtype)
    width = int(ids.max(initial=0))
    given = ids.reshape(counts.size, width) if width and np.all(counts == width) else None
    if given is not None and np.array_equal(given, np.broadcast_to(np.arange(1, width + 1), given.shape)):
        return FeatureBlock(counts, None, values, width)
    return FeatureBlock(counts, (ids - 1).astype(np.uint16), values, width)


def _parse_quickly(text: bytes, counts: Ints, dtype: str) -> Entries | None:
    """All entries at once, or None if anything at all looks wrong.

    Entries are read as a CSV with a colon between columns and a space between rows: no Python string is
    made for any of them, and text becomes a number in one rounding.
    """
    # Imported here: polars takes about half a second, which runs that parse no text need not wait for.
    import polars as pl
    from polars.exceptions import PolarsError

    total = int(counts.sum())
    if not total:
        return np.empty(0, np.int32), _as_features([], dtype)
    if text.count(b":") != total:  # an empty third column at the end of the text would go unseen
        return None
    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            separator=":",
            eol_char=" ",
            quote_char=None,
            schema={"id": pl.Int32, "value": pl.Float64 if dtype == "float64" else pl.Float32},
        )
    except PolarsError:
        return None
    if frame.height != total or frame["id"].null_count() or frame["value"].null_count():
        return None
    ids = np.array(frame["id"].to_numpy(), dtype=np.int32)
    values = _as_features(frame["value"].to_numpy(), dtype)
    largest = np.abs(values).max()
    # `not ... <=` also refuses NaN.
    if ids.min() < 1 or ids.max() > MAX_FEATURES or not largest <= _FLOAT32_MAX:
        return None
    return (ids, values) if _distinct(ids, counts) else None


def _distinct(ids: NDArray[np.int32], counts: Ints) -> bool:
    """Whether no row gives a feature twice."""
    rising = ids[1:] > ids[:-1]
    starts = np.cumsum(counts)
    rising[starts[(starts > 0) & (starts < ids.size)] - 1] = True
    # Ids that rise within every row are distinct: only other files pay for a sort.
    if np.all(rising):
        return True
    keys = np.repeat(np.arange(counts.size), counts) * (MAX_FEATURES + 1) + ids
    keys.sort()
    return bool(np.all(keys[1:] > keys[:-1]))


def _parse_carefully(rows: Sequence[bytes], numbers: Sequence[int], name: str, dtype: str) -> Entries:
    ids: list[int] = []
    values: list[float] = []
    for row, number in zip(rows, numbers, strict=True):
        where = f"letor: {name}:{number}"
        seen: set[int] = set()
        for token in row.split():
            feature, value = _parse_token(token, where)
            if feature in seen:
                raise DataError(f"{where}: feature {feature} given twice")
            seen.add(feature)
            ids.append(feature)
            values.append(value)
    return np.array(ids, dtype=np.int32), _as_features(values, dtype)


def _as_features(values: ArrayLike, dtype: str) -> Features:
    """A copy of numbers as float32 or float64."""
    return np.array(values, dtype=np.float64) if dtype == "float64" else np.array(values, dtype=np.float32)


def _parse_token(token: bytes, where: str) -> tuple[int, float]:
    left, colon, right = token.partition(b":")
    if not colon:
        raise DataError(f"{where}: {shown(token)} has no colon; expected FEATURE:VALUE")
    if not _ID.fullmatch(left):
        raise DataError(f"{where}: feature id {shown(left)} is not a whole number from 1")
    digits = left.lstrip(b"+0")
    # The length first: of more than 4,300 digits Python refuses to make a number, with an error of its own.
    feature = int(digits) if digits and len(digits) < 10 else 0 if not digits else MAX_FEATURES + 1
    if left.startswith(b"-") or feature == 0:
        raise DataError(f"{where}: feature id {shown(left)}; expected a whole number from 1")
    if feature > MAX_FEATURES:
        raise DataError(f"{where}: feature id {shown(left)} is above the largest, {MAX_FEATURES}")
    return feature, _parse_value(right, f"{where}: feature {feature}")


def _parse_value(text: bytes, where: str) -> float:
    if _NOT_FINITE.fullmatch(text):
        raise DataError(f"{where}: value {shown(text)}; expected a finite number")
    if not _NUMBER.fullmatch(text):
        raise DataError(f"{where}: value {shown(text)} is not a number")
    value = float(text)
    with np.errstate(over="ignore"):
        beyond = not math.isfinite(np.float32(value))
    if beyond:
        raise DataError(f"{where}: value {shown(text)} is beyond float32 (largest {_FLOAT32_MAX:.4g})")
    return value
