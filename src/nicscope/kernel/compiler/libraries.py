"""Where code of a function goes: into its callers as LLVM's own, or into an object file.

Numba makes machine code of every function, optimises it in full beforehand, and does both again
for the functions that it is linked into.  A step is never entered by itself, so of all this it
needs the cheap passes that keep what is linked small.  Nothing that is compiled runs from here:
an entry is emitted as an object, which ``kernel.loading`` puts into memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary

from nicscope.kernel.compiler.entries import EntryLowering
from nicscope.kernel.compiler.passes import KernelCompiler

library_class: Any = JITCodeLibrary


class _Library(library_class):  # type: ignore[misc]
    """A module that stays one."""

    @property
    def codegen(self) -> _Codegen:
        """Numba's own, but for what needs an address."""
        return _Codegen(self._codegen)

    def get_pointer_to_function(self, _name: str) -> int:
        """Of no function: Numba's word for one that cannot be entered."""
        self._ensure_finalized()
        return 0

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class StepLibrary(_Library):
    """A module for linking."""

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


class EntryLibrary(_Library):
    """A module of which only what ``EntryLowering`` wrote can be named from outside."""

    exported: frozenset[str] = frozenset()

    def _optimize_final_module(self) -> None:
        module = self._final_module
        for each in (*module.functions, *module.global_variables):
            if not each.is_declaration and each.name not in self.exported:
                each.linkage = "internal"
        super()._optimize_final_module()

    def object_code(self) -> bytes:
        """Machine code of this processor."""
        code: bytes = self._codegen._tm.emit_object(self._final_module)
        return code

    def needed(self) -> tuple[str, ...]:
        """The symbols that must be there when the code is loaded."""
        functions = [each.name for each in self._final_module.functions if each.is_declaration]
        return tuple(sorted(name for name in functions if not name.startswith("llvm.")))


class _Codegen:
    """Numba's code generation where nothing has an address."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, _name: str, _environment: Any) -> None:
        """Kernels box nothing, for which an environment would be read."""


class StepCompiler(KernelCompiler):
    """The compiler of kernels, for a library of intermediate code."""

    def __init__(
        self, typing: Any, target: Any, _library: None, arguments: Any, *more: Any
    ) -> None:
        library = StepLibrary(target.codegen(), "step")
        super().__init__(typing, target, library, arguments, *more)


class EntryCompiler(KernelCompiler):
    """The compiler of kernels, for an object that can be entered by name."""

    lowering = EntryLowering

    def __init__(
        self, typing: Any, target: Any, _library: None, arguments: Any, *more: Any
    ) -> None:
        library = EntryLibrary(target.codegen(), "entry")
        super().__init__(typing, target, library, arguments, *more)
