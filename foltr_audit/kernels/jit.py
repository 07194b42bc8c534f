"""How kernels are compiled (alone, or into their callers), and types of their arrays.

No fast-math: the compiler may neither change the order of a sum nor fuse a product with it, so the same input
gives the same bytes on every processor, for any number of threads and any place in a cohort. Sums that need
wide registers are in `sums`, functions that the system's library computes differently in `elementary`.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined"

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from llvmlite import binding
from numba.core.base import BaseContext
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler, CompileResult
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime.nrt import rtsys
from numpy.typing import NDArray

# --- compiling a kernel with all that it calls -----------------------------------------------------
# Numba optimises every function and makes machine code of it, and then does both again in each caller, which
# it compiles the function into. No caller uses the first result, so a function that only kernels call is
# linked into them here, and nothing else. That saves a quarter of the time of compiling, and the machine code
# of kernels that Python calls is as fast as before.


_NEEDED: dict[object, list[str]] = {
    binding: ["create_new_function_pass_manager", "create_new_module_pass_manager"],
    JITCodeLibrary: [
        *("_optimize_functions", "_raise_if_finalized", "_ensure_finalized", "_finalize_dynamic_globals"),
        *("_get_module_for_linking", "serialize_using_object_code", "serialize_using_bitcode"),
    ],
    JITCPUCodegen: ["set_env", "_pass_builder"],
    FunctionCache: ["_load_overload", "_impl_class"],
    Compiler: ["compile_extra"],
    CompileResult: ["_rebuild", "_replace"],
}
KNOWN = all(hasattr(kind, name) for kind, names in _NEEDED.items() for name in names)
"""Whether this numba is as `KernelCompiler` and `CodeCache` expect it; another one goes its own way."""


class EntryLibrary(JITCodeLibrary):
    """Code of a kernel that Python calls, with the code of all functions that it calls."""

    def _optimize_functions(self, module: binding.ModuleRef) -> None:
        """Make functions small before they are linked; all are optimised in earnest after that."""
        module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder(opt=0)
        passes = binding.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def finalize(self) -> None:
        """Make machine code, and tell it where the environments of all its functions are."""
        super().finalize()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class _NoMachineCode:
    """A code generator for which nothing is to be done."""

    def set_env(self, name: str, environment: Environment) -> None:
        """Nothing: whoever links the code sets the environment."""


class InnerLibrary(EntryLibrary):
    """Code of a function that only kernels call: it is linked into them and has no machine code itself."""

    @classmethod
    def stored(cls, generator: JITCPUCodegen, name: str, bitcode: bytes) -> InnerLibrary:
        """The library from what `serialize_using_object_code` gave."""
        library = cls(generator, name)
        library._final_module, library._finalized = binding.parse_bitcode(bitcode), True
        return library

    @property
    def codegen(self) -> _NoMachineCode:
        """A code generator for which nothing is to be done."""
        return _NoMachineCode()

    def finalize(self) -> None:
        """Link what the function calls, and leave out what it does not use."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        passes = binding.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, self._codegen._pass_builder(opt=0))
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No address: Python cannot call the function."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """What is stored of the function: its code before it is optimised."""
        return self.serialize_using_bitcode()


class KernelCompiler(Compiler):
    """Numba's compiler with the libraries of this module."""

    def compile_extra(self, function: Callable[..., object]) -> CompileResult:
        """The function's code; machine code only if Python can call it."""
        if self.state.library is None:
            kind = InnerLibrary if self.state.flags.no_cpython_wrapper else EntryLibrary
            self.state.library = kind(self.state.targetctx.codegen(), function.__qualname__)
            self.state.library.enable_object_caching()
        return super().compile_extra(function)


# --- the cache of compiled kernels -----------------------------------------------------------------
# Before numba looks into its cache, it registers everything that it can compile, which takes longer than
# loading all kernels of a command: .3 of 2.6 s of `foltr-audit attack`, a third of them for `scipy.linalg`.
# Before it compiles, it does so once more; so this waits until then.


Stored = tuple[tuple[str, str, tuple[bytes, bytes] | bytes], object]
"""What numba stores of a kernel: name, kind and code of its library, and further facts."""


class CodeCache(NullCache):
    """Stored code of one kernel; no folder is looked for before somebody calls it."""

    def __init__(self, function: Callable[..., object]) -> None:
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


class _Loading:
    """A context whose code generator gives one library, whatever it is asked to read."""

    def __init__(self, context: BaseContext, library: JITCodeLibrary) -> None:
        self._context, self._library = context, library

    def codegen(self) -> _Loading:
        return self

    def unserialize_library(self, stored: object) -> JITCodeLibrary:
        return self._library

    def __getattr__(self, name: str) -> object:
        return getattr(self._context, name)


class _LoadedKernel(CompileResultCacheImpl):
    def rebuild(self, context: BaseContext, stored: Stored) -> CompileResult:
        """The kernel from what numba stored of it."""
        (name, _, code), *_ = stored
        if not isinstance(code, bytes):
            return CompileResult._rebuild(context, *stored)  # type: ignore[call-arg]
        loading = _Loading(context, InnerLibrary.stored(context.codegen(), name, code))
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


# --- decorators and types --------------------------------------------------------------------------

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

    compiled = cast("Callable[..., F]", numba.njit)
    pipeline = {"pipeline_class": KernelCompiler} if KNOWN else {}
    dispatcher = compiled(
        function, error_model="numpy", no_cfunc_wrapper=True, _nrt=_nrt, **pipeline, **options
    )
    vars(dispatcher)["_cache"] = CodeCache(function)
    return dispatcher
