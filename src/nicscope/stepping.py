"""Steps are compiled to LLVM's intermediate code only: each is machine code within its callers.

Numba makes machine code of every function, optimises it in full beforehand, and does both again
for the functions that it is linked into.  A step is never entered by itself, so of all this it
needs the cheap passes that keep what is linked small.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult

from nicscope.indexing import KernelCompiler

library_class: Any = JITCodeLibrary
compile_result: Any = CompileResult


class StepLibrary(library_class):  # type: ignore[misc]
    """A module for linking."""

    @property
    def codegen(self) -> _Codegen:
        """Numba's own, but for what needs machine code."""
        return _Codegen(self._codegen)

    def get_pointer_to_function(self, _name: str) -> int:
        """Of no function: Numba's word for one that cannot be entered."""
        self._ensure_finalized()
        return 0

    def _optimize_functions(self, module: Any) -> None:
        """Leave them to the callers."""

    def _optimize_final_module(self) -> None:
        passes = binding.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_strip_dead_prototype_pass()
        passes.run(self._final_module, self._codegen._pass_builder())

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bytes]:
        """What ``unserialized`` makes a library of; there is no object code."""
        return self.name, self._get_module_for_linking().as_bitcode()

    @classmethod
    def unserialized(cls, codegen: Any, state: tuple[str, bytes]) -> StepLibrary:
        """The library that was made ``state`` of."""
        name, code = state
        library = cls(codegen, name)
        library._final_module = library._shared_module = binding.parse_bitcode(code)
        library._finalized = True
        return library


class _Codegen:
    """Numba's code generation as a step sees it: nothing has an address."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, _name: str, _environment: Any) -> None:
        """Kernels raise nothing and box nothing, for which an environment would be read."""

    def unserialize_library(self, state: Any) -> StepLibrary:
        """A step's library, from the cache."""
        return StepLibrary.unserialized(self._codegen, state)


class _Context:
    """A target whose code generation is that of steps."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> _Codegen:
        """That of steps."""
        return _Codegen(self._context.codegen())


def rebuilt_step(context: Any, payload: Any) -> Any:
    """A compiled step, of what the cache kept of it."""
    return compile_result._rebuild(_Context(context), *payload)


class StepCompiler(KernelCompiler):
    """The compiler of kernels, for a library of intermediate code."""

    def __init__(
        self, typing: Any, target: Any, _library: None, arguments: Any, *more: Any
    ) -> None:
        library = StepLibrary(target.codegen(), "step")
        super().__init__(typing, target, library, arguments, *more)
