"""How kernels are compiled (alone, or into their callers) and stored, and types of their arrays.

No fast-math: the compiler may neither change the order of a sum nor fuse a product with it, so the same input
gives the same bytes on every processor, for any number of threads and any place in a cohort. Sums that need
wide registers are in `sums`, functions that the system's library computes differently in `elementary`.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined"

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar, cast

import numba
import numpy as np
from llvmlite import binding
from numba.core.base import BaseContext
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler, CompileResult, compile_result
from numba.core.compiler_machinery import PassManager
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes
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
        *("_set_compiled_object", "_finalize_final_module"),
    ],
    JITCPUCodegen: ["set_env", "_pass_builder", "magic_tuple"],
    Compiler: ["compile_extra"],
    CompileResult: ["_find_referenced_environments"],
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


class StoredLibrary(JITCodeLibrary):
    """Machine code of a kernel from the cache; its bitcode is for kernels that are compiled and call it."""

    def __init__(self, generator: JITCPUCodegen, name: str, code: tuple[bytes, bytes]) -> None:
        super().__init__(generator, name)
        machine_code, self._bitcode = code
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()

    def _get_module_for_linking(self) -> binding.ModuleRef:
        if self._shared_module is None:
            self._shared_module = binding.parse_bitcode(self._bitcode)
        return self._shared_module

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function that is known to be there."""
        return self._codegen._engine.get_function_address(name)


_UNUSED = (InlineClosureLikes, NopythonRewrites)


class KernelCompiler(Compiler):
    """Numba's compiler with the libraries of this module."""

    def compile_extra(self, function: Callable[..., object]) -> CompileResult:
        """The function's code; machine code only if Python can call it."""
        if self.state.library is None:
            kind = InnerLibrary if self.state.flags.no_cpython_wrapper else EntryLibrary
            self.state.library = kind(self.state.targetctx.codegen(), function.__qualname__)
            self.state.library.enable_object_caching()
        return super().compile_extra(function)

    def define_pipelines(self) -> list[PassManager]:
        """Numba's passes without those of closures and of expressions of whole arrays: kernels have none."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [each for each in pipeline.passes if each[0] not in _UNUSED]
            pipeline.finalize()
        return pipelines


# --- the cache of compiled kernels -----------------------------------------------------------------
# Numba's own cache lies in the folder of the package, where `pip uninstall` leaves it; it overlooks a change
# in a kernel of another file, and a damaged file ends the command. Before it looks for a kernel it registers
# all that it can compile, which takes longer than to load the kernels of a command.


@cache
def _stamp(folder: Path) -> bytes:
    """A hash of all that kernels in a folder are compiled from, and of their compiler."""
    sources = sorted(folder.glob("*.py"))
    if not sources:
        raise FileNotFoundError(folder)
    digest = sha256(numba.__version__.encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.digest()


@cache
def _target(generator: JITCPUCodegen) -> tuple[object, ...]:
    """What code is made for; LLVM needs as long to name the processor as a kernel needs to be read."""
    return generator.magic_tuple(), sys.version


def _cache_folder() -> Path:
    """NUMBA_CACHE_DIR, or a folder in the user's cache folder."""
    from platformdirs import user_cache_path

    chosen = numba.config.CACHE_DIR
    folder = Path(chosen).absolute() if chosen else user_cache_path("foltr-audit") / "kernels"
    if not folder.is_absolute():
        raise FileNotFoundError(folder)
    return folder


class CodeCache(NullCache):
    """The code of one kernel: a file for arguments of some types on one processor.

    A file begins with a hash of its content and of `_stamp`. One that is damaged, stale or of another user
    counts for nothing, and where none can be written, the kernel is compiled in every process.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        code = function.__code__
        self._source, self._name = Path(code.co_filename), code.co_qualname

    def _file(self, signature: object, generator: JITCPUCodegen) -> Path:
        compiled_for = (str(self._source), str(signature), *_target(generator))
        digest = sha256(repr(compiled_for).encode(errors="surrogatepass")).hexdigest()
        return _cache_folder() / f"{self._source.stem}.{self._name}-{digest[:32]}"

    def _digest(self, content: bytes) -> bytes:
        return sha256(_stamp(self._source.parent) + content).digest()

    def load_overload(self, signature: object, context: BaseContext) -> CompileResult | None:
        """The code of a kernel for arguments of some types; None if it is not stored."""
        try:
            with self._file(signature, context.codegen()).open("rb") as file:
                # Windows has no such numbers, and keeps the folders of users apart.
                if hasattr(os, "geteuid") and os.fstat(file.fileno()).st_uid not in (0, os.geteuid()):
                    return None
                digest, content = file.read(sha256().digest_size), file.read()
            if self._digest(content) != digest:
                return None
        except OSError:
            return None
        rtsys.initialize(context)
        return _rebuilt(context, *pickle.loads(content))  # noqa: S301 (machine code, which runs anyway)

    def save_overload(self, signature: object, compiled: CompileResult) -> None:
        """Store what was compiled for arguments of some types, if that is possible."""
        if compiled.library.has_dynamic_globals:  # addresses, which differ in each process
            return
        content = dumps(_reduced(compiled))
        with suppress(OSError):
            path = self._file(signature, compiled.codegen)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".", dir=path.parent, ignore_cleanup_errors=True) as temporary:
                written = Path(temporary) / path.name
                written.touch(mode=0o600)
                written.write_bytes(self._digest(content) + content)
                written.replace(path)


def _reduced(compiled: CompileResult) -> tuple[object, ...]:
    """What `_rebuilt` needs of a kernel, without what numba knows of its types."""
    described = compiled.fndesc
    described.typemap = described.calltypes = None
    # Numba's own functions without constants need no environment, and their modules take long to import.
    environments = [
        found
        for found in compiled._find_referenced_environments()
        if found.consts or not found.globals["__name__"].startswith("numba.")
    ]
    code = compiled.library.serialize_using_object_code()
    return code, described, compiled.environment, compiled.signature, compiled.reload_init, environments


def _rebuilt(
    context: BaseContext,
    stored: tuple[str, str, tuple[bytes, bytes] | bytes],
    described: object,
    environment: Environment,
    signature: object,
    reload_init: tuple[Callable[[], object], ...],
    environments: list[Environment],
) -> CompileResult:
    """A kernel that needs nothing of numba but its memory manager."""
    for initialize in reload_init:
        initialize()
    name, _, code = stored
    library = (
        InnerLibrary.stored(context.codegen(), name, code)
        if isinstance(code, bytes)
        else StoredLibrary(context.codegen(), name, code)
    )
    for found in environments:
        library.codegen.set_env(found.env_name, found)
    return compile_result(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=context.get_executable(library, described, environment),
        signature=signature,
        library=library,
        fndesc=described,
        environment=environment,
        lifted=(),
        objectmode=False,
        reload_init=reload_init,
        referenced_envs=environments,
    )


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
    """Compile an `uncounted` function into every kernel that calls it, so that passing arrays costs nothing.

    An array is a struct of seven fields. LLVM puts the function into its callers: numba's `inline` would type
    and translate it in each of them.
    """
    return _compiled(function, no_cpython_wrapper=True, _nrt=False, forceinline=True)


def _compiled(function: F, *, _nrt: bool = True, **options: bool | str) -> F:
    """Compile a function with options that hold for all.

    What counts references, `_nrt`, is said of every function: it would take over what its first caller says.
    With NumPy's error model a division by zero gives inf or NaN instead of a branch that raises. No kernel
    gets an entry from C, which nobody would use.
    """
    compiled = cast("Callable[..., F]", numba.njit)
    pipeline = {"pipeline_class": KernelCompiler} if KNOWN else {}
    dispatcher = compiled(
        function, error_model="numpy", no_cfunc_wrapper=True, _nrt=_nrt, **pipeline, **options
    )
    if KNOWN:
        vars(dispatcher)["_cache"] = CodeCache(function)
    elif not numba.config.DISABLE_JIT:
        with suppress(RuntimeError):  # numba finds no folder that it may write to
            dispatcher.enable_caching()
    return dispatcher
