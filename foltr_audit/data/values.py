"""Values of rows: which grades, features and names files and arrays may give, and missing features.

Files (`letor.py`) and arrays (`arrays.py`) are checked by the rules of this module, and by no others.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator, Mapping

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.core.settings.data import FILLS, LARGEST_FEATURE
from foltr_audit.errors import DataError
from foltr_audit.utils.arrays import Bools, Features, Floats

MAX_LABEL = 31
MAX_FEATURES = 65_536
MISSING = math.inf
"""A missing feature from reading until it is filled; it equals itself, so rows can be sorted."""

BEYOND = f" is beyond float32 (largest {LARGEST_FEATURE:.4g})"
NOT_FINITE = "; expected a finite number"
NO_VALUE = f"{NOT_FINITE}, or --missing to say what becomes of missing ones"

_MARKER = decimal.Decimal("1.797e308"), decimal.Decimal("1.798e308")
"""Istella marks missing features by the largest float64, 1.797693e308, cut or rounded to some digits."""
_EXACT = decimal.Context(prec=20, traps=[])
_MOST_PLACES, _PLACES_PER_VALUE = 1 << 25, 100
"""Features of all rows, which are stored whether given or not: this many, or this many times the given."""
_BATCH_ROWS = 8_192


def row_batches(rows: int) -> Iterator[slice]:
    """Slices of some thousand rows, so that copies of wide rows take little memory."""
    return (slice(first, min(first + _BATCH_ROWS, rows)) for first in range(0, rows, _BATCH_ROWS))


def own_memory(part: Dataset) -> Features:
    """The features of a part that nobody needs afterwards, to be written: data sets hold read-only views."""
    features = part.features.view()
    features.flags.writeable = True
    return features


def label_problem(value: float) -> str | None:
    """What is wrong with a relevance grade; None if nothing is."""
    if math.isnan(value):
        return f"is not a number; expected 0 to {MAX_LABEL}"
    if value < 0:
        return f"is negative; expected 0 to {MAX_LABEL}"
    if value > MAX_LABEL:
        return f"is above {MAX_LABEL}; expected 0 to {MAX_LABEL}"
    return None if value.is_integer() else "is fractional; expected a whole number"


def is_marker(text: str) -> bool:
    """Whether a number, as text, marks a missing feature, with either sign.

    >>> is_marker("1.79769313486e+308"), is_marker("-1.798e308"), is_marker("1e39"), is_marker("1e309")
    (True, True, False, False)
    """
    size = abs(_EXACT.create_decimal(text))
    return bool(_MARKER[0] <= size <= _MARKER[1])


def checked_features(values: Floats, dtype: str, *, nan_is_missing: bool) -> tuple[Features, Bools]:
    """Features of any shape as `dtype`, `MISSING` where they are missing, and which of them are refused.

    Refused is what is infinite, what is beyond float32 (also as float64), and NaN unless it is missing.
    """
    missing = (np.abs(values) >= float(_MARKER[0])) & np.isfinite(values)
    if nan_is_missing:
        missing |= np.isnan(values)
    with np.errstate(over="ignore"):
        refused = ~np.isfinite(values.astype(np.float32)) & ~missing
        features: Features = values.astype(dtype)
    features[missing] = MISSING
    return features, refused


def zero_features(where: str, rows: int, width: int, given: int, dtype: str) -> Features:
    """A matrix (rows, width) of zeros for features of which some number is given.

    Raises:
        DataError: none or too many features, much more room than features, or than memory.
    """
    if not width:
        raise DataError(f"{where}: no features; expected at least one")
    if width > MAX_FEATURES:
        raise DataError(f"{where}: feature {width} is above the largest, {MAX_FEATURES}")
    if rows * width > max(_MOST_PLACES, _PLACES_PER_VALUE * given):
        raise DataError(
            f"{where}: {rows} rows of {width} features, of which {given} are given; "
            f"expected at least one in {_PLACES_PER_VALUE}"
        )
    try:
        features: Features = np.zeros((rows, width), dtype=dtype)
    except MemoryError as error:
        raise DataError(f"{where}: {rows} rows of {width} features do not fit into memory") from error
    return features


def fill_missing(parts: Mapping[str, Dataset], how: str | None) -> tuple[dict[str, Dataset], int]:
    """The same parts, among them `train`, with `how` (as `--missing`) in the place of each missing feature.

    Also the number of these. The given features are overwritten, so that large data need memory once.
    """
    values: Floats | None = None
    filled, count = dict(parts), 0
    for name, part in parts.items():
        if part.features.max(initial=0) < MISSING:
            continue
        if values is None:
            values = _fills(parts["train"], how)
        features = own_memory(part)
        for batch in row_batches(part.n_documents):
            rows = features[batch]
            missing = rows == MISSING
            count += int(np.count_nonzero(missing))
            np.copyto(rows, values.astype(rows.dtype), where=missing)
        filled[name] = part.with_features(features)
    return filled, count


def _fills(train: Dataset, how: str | None) -> Floats:
    """What missing values of each feature become, (features,); 0 where the training split knows no value."""
    if how not in FILLS:
        return np.full(train.n_features, float(how or 0))
    known, total = np.zeros(train.n_features), np.zeros(train.n_features)
    low, high = np.full(train.n_features, np.inf), np.full(train.n_features, -np.inf)
    for batch in row_batches(train.n_documents):
        rows = train.features[batch].astype(np.float64)
        there = rows != MISSING
        known += np.count_nonzero(there, axis=0)
        total += rows.sum(axis=0, where=there)
        low = np.minimum(low, rows.min(axis=0))
        high = np.maximum(high, rows.max(axis=0, where=there, initial=-np.inf))
    # The rounding of a mean must not move it off a feature that is constant: its z-scores would be large.
    values = low if how == "min" else np.clip(total / np.maximum(known, 1), low, high)
    return np.where(known > 0, values, 0.0)
