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
    """Compile a function for one thread."""
    return _compiled(function, parallel=False)


def parallel_kernel(function: F) -> F:
    """Compile a function whose `numba.prange` loops run on all threads."""
    return _compiled(function, parallel=True)


def _compiled(function: F, *, parallel: bool) -> F:
    """Machine code is cached beside its source, or in the user's cache folder, or not at all."""
    try:
        return cast(F, numba.njit(function, cache=True, error_model="numpy", parallel=parallel))
    except RuntimeError:  # numba finds no folder that it may write to
        return cast(F, numba.njit(function, error_model="numpy", parallel=parallel))
