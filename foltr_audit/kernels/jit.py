"""The two ways in which kernels are compiled: alone, and parallel over clients.

No fast-math anywhere: a reduction keeps the order in which it is written, so that the same
input gives the same bytes for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function for one thread; the machine code is cached beside its source."""
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))


def parallel_kernel(function: F) -> F:
    """Compile a function whose `numba.prange` loops run on all threads."""
    return cast(F, numba.njit(cache=True, error_model="numpy", parallel=True)(function))
