"""Read-only arrays for frozen records."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

T = TypeVar("T", bound=np.generic)


def read_only(values: ArrayLike, dtype: DTypeLike) -> NDArray[T]:
    """A read-only, C-contiguous view (or converted copy) of an array."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array
