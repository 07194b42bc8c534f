"""Where compiled kernels are kept: numba's cache of machine code, without what only a compiler needs.

Before numba looks into its cache, it registers everything that it can compile, which takes longer than
loading all kernels of a command: .3 of 2.6 s of `foltr-audit attack`, a third of them for `scipy.linalg`.
Before it compiles, it does so once more; so this waits until then.
"""

from __future__ import annotations

from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys


class CodeCache(FunctionCache):
    """Loads machine code that needs nothing but numba's memory manager.

    Numba's own class calls `refresh` of the context first, and does the same otherwise.
    """

    def load_overload(self, signature: object, context: object) -> object:
        """The machine code of a kernel for arguments of some types; None if it is not stored."""
        if not hasattr(FunctionCache, "_load_overload"):  # another numba, whose own cache is right, if slower
            return super().load_overload(signature, context)  # type: ignore[no-untyped-call]
        rtsys.initialize(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)  # type: ignore[no-untyped-call]
        return None  # where another process has the file open, on Windows
