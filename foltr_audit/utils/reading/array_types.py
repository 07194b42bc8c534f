"""A table of expected arrays: the type and the axes of each, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray


class ArraySchema(NamedTuple):
    """The expected type and axes of an array.

    Attributes:
        kind: its type, e.g. `f8`; `U` for text of any length.
        axes: a letter for each axis; axes of one letter have one length.
        least, most: of its values; NaN passes.
    """

    kind: str
    axes: str
    least: float = -np.inf
    most: float = np.inf


def refuse_other_forms(
    arrays: Mapping[str, NDArray[np.generic]], forms: Mapping[str, ArraySchema]
) -> dict[str, int]:
    """Check arrays against their forms; the length of each axis by its letter.

    Args:
        arrays: by name.
        forms: by a pattern of names; every array must match one.

    Raises:
        ValueError: an array that is not expected, or of another type, shape or range.
    """
    lengths: dict[str, int] = {}
    for name, array in arrays.items():
        form = next((form for pattern, form in forms.items() if re.fullmatch(pattern, name)), None)
        if form is None:
            raise ValueError(f"{name[:80]!a}: no array that is expected here")
        _refuse_other_form(name, array, form)
        for axis, length in zip(form.axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ValueError(f"{name}: {length} along an axis of {lengths[axis]}")
    return lengths


def _refuse_other_form(name: str, array: NDArray[np.generic], form: ArraySchema) -> None:
    fits = array.dtype.kind == "U" if form.kind == "U" else array.dtype == np.dtype(f"<{form.kind}")
    if not fits or array.ndim != len(form.axes):
        raise ValueError(
            f"{name}: {array.dtype} with {array.ndim} axes; expected {form.kind} with {len(form.axes)}"
        )
    if form.kind in ("U", "b1"):
        return
    numbers = cast("NDArray[np.float64]", array)  # of any kind
    if np.any((numbers < form.least) | (numbers > form.most)):
        raise ValueError(f"{name}: a value outside of {form.least:g} to {form.most:g}")
