"""How kernels are compiled (alone, or into their callers), and types of their arrays.

No fast-math: the compiler may neither change the order of a sum nor fuse a product with it, so the same input
gives the same bytes on every processor, for any number of threads and any place in a cohort. Sums that need
wide registers are in `lanes`, functions that the system's library computes differently in `elementary`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

unsigned = np.uint64
"""Of an index that is never negative: others may count from the end, which compiled code asks every time."""

F = TypeVar("F", bound=Callable[..., object])


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


def inlined(function: F) -> F:
    """Compile a small function into every kernel that calls it, so that passing arrays costs nothing.

    An array is a struct of seven fields, and every call that is not inlined counts references to it.
    """
    return _compiled(function, inline="always")


def _compiled(function: F, **options: bool | str) -> F:
    """Machine code is cached next to its source, or in the user's cache folder, or not at all.

    With NumPy's error model a division by zero gives inf or NaN instead of a branch that raises. No kernel
    gets an entry from C, which nobody would use.
    """
    import numba  # slow to import, and modules without a kernel need only the types

    compiled = cast("Callable[..., F]", numba.njit)
    try:
        dispatcher = compiled(function, cache=True, error_model="numpy", no_cfunc_wrapper=True, **options)
    except RuntimeError:  # numba finds no folder that it may write to
        return compiled(function, error_model="numpy", no_cfunc_wrapper=True, **options)
    vars(dispatcher)["_cache"] = _code_cache()(function)
    return dispatcher


@cache
def _code_cache() -> type:
    """Numba's cache of machine code, without what only a compiler needs.

    Before it looks into its cache, numba registers everything that it can compile, which takes longer than
    loading all kernels of a command. Before it compiles, it does so once more; so this waits until then.
    """
    from numba.core.caching import FunctionCache
    from numba.core.runtime.nrt import rtsys

    if not hasattr(FunctionCache, "_load_overload"):  # another numba, whose own cache is right, if slower
        return FunctionCache

    class CodeCache(FunctionCache):
        """Loads machine code that needs nothing but numba's memory manager."""

        def load_overload(self, signature: object, context: object) -> object:
            """The machine code of a kernel for arguments of some types; None if it is not stored."""
            rtsys.initialize(context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(signature, context)  # type: ignore[no-untyped-call]
            return None  # where another process has the file open, on Windows

    return CodeCache
