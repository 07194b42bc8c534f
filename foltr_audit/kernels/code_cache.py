"""Where compiled kernels are kept: numba's cache of their code, without what only a compiler needs.

Before numba looks into its cache, it registers everything that it can compile, which takes longer than
loading all kernels of a command: .3 of 2.6 s of `foltr-audit attack`, a third of them for `scipy.linalg`.
Before it compiles, it does so once more; so this waits until then. So does what other kernels would compile
into themselves: numba stores it next to the machine code and reads both, half of the time of loading.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, attr-defined"
from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from llvmlite.binding import parse_bitcode
from numba.core.base import BaseContext
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys

from .compiler import KNOWN, InnerLibrary

Stored = tuple[tuple[str, str, tuple[bytes, bytes] | bytes], object]
"""What numba stores of a kernel: name, kind and code of its library, and further facts."""


class CodeCache(NullCache):
    """Stored code of one kernel; no folder is looked for before somebody calls it."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Of a function."""
        self._function = function

    @cached_property
    def _stored(self) -> FunctionCache | NullCache:
        try:
            return (_StoredCode if KNOWN else FunctionCache)(self._function)
        except RuntimeError:  # numba finds no folder that it may write to
            return NullCache()

    @property
    def cache_path(self) -> str | None:
        """The folder; None without one."""
        return self._stored.cache_path

    def load_overload(self, signature: object, context: BaseContext) -> CompileResult | None:
        """The code of a kernel for arguments of some types; None if it is not stored."""
        return self._stored.load_overload(signature, context)

    def save_overload(self, signature: object, compiled: CompileResult) -> None:
        """Store what was compiled for arguments of some types."""
        self._stored.save_overload(signature, compiled)

    def flush(self) -> None:
        """Forget everything."""
        self._stored.flush()


class _StoredLibrary(JITCodeLibrary):
    """Machine code that was stored, with the code that other kernels compile into themselves."""

    def __init__(self, context: BaseContext, name: str, machine_code: bytes, bitcode: bytes) -> None:
        super().__init__(context.codegen(), name)
        self._bitcode = bitcode
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        """The address of the kernel's entry from Python, all that is asked for."""
        return self._codegen._engine.get_function_address(name)

    def _get_module_for_linking(self) -> object:
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self._bitcode)
        return self._shared_module


class _Loading:
    """A context whose code generator gives one library, whatever it is asked to read."""

    def __init__(self, context: BaseContext, library: JITCodeLibrary) -> None:
        self._context, self._library = context, library

    def codegen(self) -> _Loading:
        """Itself."""
        return self

    def unserialize_library(self, stored: object) -> JITCodeLibrary:
        """The library."""
        return self._library

    def __getattr__(self, name: str) -> object:
        return getattr(self._context, name)


def _library(context: BaseContext, name: str, code: tuple[bytes, bytes] | bytes) -> JITCodeLibrary:
    """Machine code with the code that is linked into others, or that alone."""
    if isinstance(code, bytes):
        return InnerLibrary.stored(context.codegen(), name, code)
    return _StoredLibrary(context, name, *code)


class _LoadedKernel(CompileResultCacheImpl):
    def rebuild(self, context: BaseContext, stored: Stored) -> CompileResult:
        """The kernel from what numba stored of it."""
        (name, _, code), *_ = stored
        loading = _Loading(context, _library(context, name, code))
        found = CompileResult._rebuild(loading, *stored)  # type: ignore[call-arg]
        return found._replace(target_context=context)


class _StoredCode(FunctionCache):
    """Loads code that needs nothing but numba's memory manager.

    Numba's own class calls `refresh` of the context first, and does the same otherwise.
    """

    _impl_class = _LoadedKernel

    def load_overload(self, signature: object, context: BaseContext) -> CompileResult | None:
        """See `CodeCache`."""
        rtsys.initialize(context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)
        return None  # where another process has the file open, on Windows
