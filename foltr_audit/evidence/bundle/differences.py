"""Finds the differences between stored and recomputed tables and arrays, number by number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.utils.arrays import Floats

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""Tolerances where versions or machines differ: sums in another order change the last digits only."""

MOST_NAMED = 5
OTHER_BYTES = "the same values in other bytes"
_MISSING = object()


class NumericTolerance(NamedTuple):
    """Numbers agree if they differ by at most `absolute`, or by `relative` times the larger one."""

    relative: float
    absolute: float

    def agree(self, a: float, b: float) -> bool:
        """Whether two numbers agree; NaN agrees with NaN."""
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=self.relative, abs_tol=self.absolute)

    def __str__(self) -> str:
        return f"relative {self.relative:g}, absolute {self.absolute:g}"


EXACT = NumericTolerance(0.0, 0.0)
ACROSS_VERSIONS = NumericTolerance(RELATIVE, ABSOLUTE)


def table_differences(
    stored: object, found: object, tolerance: NumericTolerance, where: str = ""
) -> Iterator[str]:
    """The differences of two JSON values, one line each."""
    if isinstance(stored, Mapping) and isinstance(found, Mapping):
        for name in {**stored, **found}:
            inner = f"{where}.{name}" if where else str(name)
            pair = stored.get(name, _MISSING), found.get(name, _MISSING)
            yield from table_differences(*pair, tolerance, inner)
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for number, pair in enumerate(zip(stored, found, strict=True)):
            yield from table_differences(*pair, tolerance, f"{where}[{number}]")
    elif isinstance(stored, list) and isinstance(found, list):
        yield f"{where}: {len(stored)} values, found {len(found)}"
    elif not _same(stored, found, tolerance):
        yield f"{where}: {_text(stored)}, found {_text(found)}"


def _same(stored: object, found: object, tolerance: NumericTolerance) -> bool:
    """Whether two values agree; numbers of which one is a float may differ a little, integers may not."""
    if isinstance(stored, bool) or isinstance(found, bool) or not isinstance(stored, float | int):
        return type(stored) is type(found) and stored == found
    if isinstance(found, float | int) and (isinstance(stored, float) or isinstance(found, float)):
        return tolerance.agree(float(stored), float(found))
    return type(stored) is type(found) and stored == found


def _text(value: object) -> str:
    if value is _MISSING:
        return "nothing"
    if isinstance(value, list | Mapping):
        return f"{len(value)} values"
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def array_differences(
    stored: Mapping[str, NDArray[np.generic]],
    found: Mapping[str, NDArray[np.generic]],
    tolerance: NumericTolerance,
) -> Iterator[str]:
    """The differences of arrays with the same names, one line for each array."""
    for name in {**stored, **found}:
        if name not in stored or name not in found:
            yield f"{name}: only {'stored' if name in stored else 'found'}"
            continue
        a, b = stored[name], found[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            yield f"{name}: {a.dtype} {list(a.shape)}, found {b.dtype} {list(b.shape)}"
            continue
        apart = ~_agree(a, b, tolerance)
        if apart.any():
            first = np.unravel_index(int(np.argmax(apart)), a.shape)
            place = ", ".join(str(int(i)) for i in first)
            yield (
                f"{name}: {int(apart.sum())} of {a.size} values differ, "
                f"the first at [{place}]: {_text(a[first].item())}, found {_text(b[first].item())}"
            )


def _agree(a: NDArray[np.generic], b: NDArray[np.generic], tolerance: NumericTolerance) -> NDArray[np.bool_]:
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    with np.errstate(invalid="ignore", over="ignore"):
        x, y = cast(Floats, a), cast(Floats, b)
        near = np.abs(x - y) <= np.maximum(
            tolerance.absolute, tolerance.relative * np.maximum(np.abs(x), np.abs(y))
        )
    finite = np.isfinite(x) & np.isfinite(y)  # else inf would be near everything: the tolerance is inf too
    return np.asarray((near & finite) | (a == b) | (np.isnan(x) & np.isnan(y)))


def first_lines(differences: Iterator[str]) -> list[str]:
    """The first few differences, and the number of the others."""
    found = list(differences)
    more = len(found) - MOST_NAMED
    return found[:MOST_NAMED] + ([f"and {more} more"] if more > 0 else [])
