"""The ways in which kernels are compiled: alone, into their callers, parallel over clients, as a reduction.

No fast-math but for reductions, whose order of summation the compiler fixes when it compiles: on one
machine the same input gives the same bytes, for any number of threads and any place in a cohort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function for one thread."""
    return _compiled(function)


def inlined(function: F) -> F:
    """Compile a small function into every kernel that calls it: handing over arrays costs nothing then."""
    return _compiled(function, inline="always")


def parallel_kernel(function: F) -> F:
    """Compile a function whose `numba.prange` loops run on all threads; other Python threads go on."""
    return _compiled(function, parallel=True, nogil=True)


def reduction(function: F) -> F:
    """Compile a sum whose order the compiler may choose, once and for all, to use wide registers."""
    return _compiled(function, fastmath={"reassoc"})


def _compiled(function: F, **options: Any) -> F:
    """Machine code is cached beside its source, or in the user's cache folder, or not at all."""
    try:
        return cast(F, numba.njit(function, cache=True, error_model="numpy", **options))
    except RuntimeError:  # numba finds no folder that it may write to
        return cast(F, numba.njit(function, error_model="numpy", **options))
