"""Compiles each kernel once, together with all that it calls.

Numba optimises every function and makes machine code of it, and then does both again in each caller, which it
compiles the function into. No caller uses the first result, so a function that only kernels call is linked
into them here, and nothing else. That saves a quarter of the time of compiling, and the machine code of
kernels that Python calls is as fast as before.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, attr-defined"
from __future__ import annotations

from collections.abc import Callable

from llvmlite import binding
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler, CompileResult
from numba.core.environment import Environment, lookup_environment

_NEEDED: dict[object, list[str]] = {
    binding: ["create_new_function_pass_manager", "create_new_module_pass_manager"],
    JITCodeLibrary: [
        *("_optimize_functions", "_raise_if_finalized", "_ensure_finalized", "_finalize_dynamic_globals"),
        *("_get_module_for_linking", "serialize_using_object_code", "serialize_using_bitcode"),
        *("_set_compiled_object", "_finalize_final_module"),
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
