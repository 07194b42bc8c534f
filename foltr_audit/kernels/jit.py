"""How kernels are compiled (alone, or into their callers), and types of their arrays.

No fast-math: the compiler may neither change the order of a sum nor fuse a product with it, so the same input
gives the same bytes on every processor, for any number of threads and any place in a cohort. Sums that need
wide registers are in `lanes`, functions that the system's library computes differently in `elementary`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

unsigned = np.uint64
"""Of an index that is never negative: others may count from the end, which compiled code asks every time."""

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T", bound=np.generic)


def read_only(values: NDArray[T]) -> NDArray[T]:
    """A view for an argument that is sometimes read-only: kernels are compiled apart for other arrays."""
    view = values.view()
    view.flags.writeable = False
    return view


def kernel(function: F) -> F:
    """Compile a function for one thread, without the interpreter's lock: see `threads.in_parts`.

    One whose name begins with an underscore is `inner`: only kernels of its own file call it.
    """
    return inner(function) if function.__name__.startswith("_") else _compiled(function, nogil=True)


def inner(function: F) -> F:
    """Compile a function that only other kernels call.

    It gets no entry from Python, which would unpack its arguments: where these are tuples of arrays, the
    compiler often needs longer for that than for the function. A call from Python crashes.
    """
    return _compiled(function, no_cpython_wrapper=True)


def uncounted(function: F) -> F:
    """Compile an `inner` function that makes no array itself, without counting references to arrays.

    Counting is a locked addition of twenty cycles for every view, and for every array that is read from a
    tuple. The caller holds all arrays, so nothing is freed too early. It may call functions that make arrays
    for themselves and return none.
    """
    return _compiled(function, no_cpython_wrapper=True, _nrt=False)


def uncounted_kernel(function: F) -> F:
    """Compile a `kernel` in the way of `uncounted`: Python makes all arrays that it works in."""
    return _compiled(function, nogil=True, _nrt=False)


def inlined(function: F) -> F:
    """Compile a function into every kernel that calls it, so that passing arrays costs nothing.

    An array is a struct of seven fields, and every call that is not inlined counts references to it. This is
    for small functions, and for large ones with a single caller: numba compiles any other function once by
    itself and once more in each kernel that leads to it.
    """
    return _compiled(function, inline="always")


def _compiled(function: F, *, _nrt: bool = True, **options: bool | str) -> F:
    """Machine code is cached next to its source, or in the user's cache folder, or not at all.

    What counts references, `_nrt`, is said of every function: it would take over what its first caller says.
    With NumPy's error model a division by zero gives inf or NaN instead of a branch that raises. No kernel
    gets an entry from C, which nobody would use.
    """
    import numba  # slow to import, and modules without a kernel need only the types

    from .code_cache import CodeCache
    from .compiler import KNOWN, KernelCompiler

    compiled = cast("Callable[..., F]", numba.njit)
    pipeline = {"pipeline_class": KernelCompiler} if KNOWN else {}
    dispatcher = compiled(
        function, error_model="numpy", no_cfunc_wrapper=True, _nrt=_nrt, **pipeline, **options
    )
    vars(dispatcher)["_cache"] = CodeCache(function)
    return dispatcher
