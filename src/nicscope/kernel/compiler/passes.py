"""Indices in compiled code that count only from an array's beginning: no negative ones.

Numba lets a negative index count from the end, as Python does, and so looks at the sign of every
index and at the length of every axis.  Programs that walk records from array to array consist of
little else: without that they have a third fewer instructions.  A kernel must not use negative
indices; with ``NUMBA_BOUNDSCHECK=1`` one that does raises ``IndexError``.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir, typing
from numba.core import types as numba_types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NativeLowering, NoPythonSupportedFeatureValidation

# Numba says nothing about the types of these.
types: Any = numba_types
signature: Any = typing.signature  # type: ignore[attr-defined]
base_compiler: Any = CompilerBase
base_pass: Any = FunctionPass
builder: Any = DefaultPassBuilder
register: Any = register_pass


@register(mutates_CFG=False, analysis_only=False)
class CountFromBeginning(base_pass):  # type: ignore[misc]
    """Has the elements of arrays read and written at unsigned places."""

    _name = "count_from_beginning"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Change the signatures of reads and writes; lowering converts their indices to them."""
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                access = _access_of(statement)
                if access is not None:
                    state.calltypes[access] = _unsigned(state.calltypes.pop(access))
        return True


def _access_of(statement: Any) -> Any:
    """What of ``statement`` reads or writes an element of something, or None."""
    if isinstance(statement, ir.SetItem):
        return statement
    if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
        return statement.value if statement.value.op == "getitem" else None
    return None


def _unsigned(access: Any) -> Any:
    """The same signature with unsigned indices, if it is of an array."""
    if access is None or not isinstance(access.args[0], types.Array):
        return access
    array, index, *value = access.args
    return signature(access.return_type, array, _unsigned_index(index), *value)


def _unsigned_index(index: Any) -> Any:
    if isinstance(index, types.BaseTuple):
        return types.Tuple([_unsigned_index(each) for each in index])
    if isinstance(index, types.Integer) and index.signed:
        return types.uint64
    return index


class KernelCompiler(base_compiler):  # type: ignore[misc]
    """Numba's own way of compiling, with that pass before code is made."""

    lowering: Any = NativeLowering

    def define_pipelines(self) -> list[Any]:
        """The passes in their order."""
        passes = builder.define_nopython_pipeline(self.state)
        passes.add_pass_after(CountFromBeginning, NoPythonSupportedFeatureValidation)
        passes.passes = [
            (self.lowering, str(self.lowering)) if each is NativeLowering else (each, name)
            for each, name in passes.passes
        ]
        passes.finalize()
        return [passes]
