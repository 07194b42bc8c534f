"""Types of arrays, under the short names that annotations use, and read-only arrays for frozen records.

Docstrings give the shape of each array in letters: C clients of a cohort, B interactions of each, k documents
of a shown list, P parameters; other letters are explained where they are used.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Floats = NDArray[np.float64]
"""Numbers in double precision."""

Features = NDArray[np.float32] | NDArray[np.float64]
"""Feature rows, in the number format that the user chose."""

Singles = NDArray[np.float32]
"""Numbers in single precision."""

Ints = NDArray[np.int64]
"""Whole numbers: indices, counts, labels; -1 stands for none."""

Weights = NDArray[np.int64] | NDArray[np.float64]
"""Weights of messages in a mean, from 0: numbers of interactions, or any."""

Words = NDArray[np.uint64]
"""Whole numbers modulo 2^64: masked messages, seeds and hashes."""

Bools = NDArray[np.bool_]
"""Clicks, and masks."""


def reuse_freed_memory() -> None:
    """Let the C library keep the memory of large arrays that are freed for the next ones.

    glibc asks the system for each array above a size, and gives it back when it is freed: touching fresh
    pages took a third of an audit's time. That size grows to the largest that was freed, up to 32 MB; other
    C libraries do not mind. Nothing is written to this array, so it takes no memory.
    """
    np.empty(31 << 20, dtype=np.uint8)


T = TypeVar("T", bound=np.generic)


def read_only(values: ArrayLike, dtype: DTypeLike) -> NDArray[T]:
    """A read-only, C-contiguous view (or converted copy) of an array; itself if it is one."""
    if type(values) is np.ndarray and values.dtype == dtype:
        flags = values.flags
        if flags.c_contiguous and not flags.writeable:
            return values  # records that are made of one another share their arrays
    # A view has its own flags: the caller can still write to the array that it passed.
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


def freeze(record: object, **dtypes: DTypeLike) -> None:
    """Make arrays of a frozen dataclass read-only, each with its number format; what is None stays None."""
    for name, dtype in dtypes.items():
        if (values := getattr(record, name)) is not None:
            # A frozen dataclass refuses plain assignment, even in its own `__post_init__`.
            object.__setattr__(record, name, read_only(values, dtype))


def read_only_features(values: Features) -> Features:
    """Feature rows as `read_only` makes them: float64 stays, all else becomes float32."""
    double = np.asarray(values).dtype == np.float64
    rows: Features = read_only(values, np.float64 if double else np.float32)
    return rows
