"""What of Numba and llvmlite is used that they do not publish: each name, why, and instead of what.

Numba publishes ``numba``, ``numba.types`` and ``numba.extending``, llvmlite ``llvmlite.ir`` and
``llvmlite.binding``.  Everything else stands here, and nowhere but in this folder:
``tests/kernel/test_private.py`` holds the table against the source and against what is installed.
"""

from __future__ import annotations

from typing import NamedTuple


class Private(NamedTuple):
    """Of a name: what it is needed for, and what would do without it."""

    purpose: str
    replacement: str


_LIBRARY = "numba.core.codegen.JITCodeLibrary"
_SHORT = "a compiler flag of Numba's that a function is for linking only"
_CARES = "copying the few lines: they are plain llvmlite"

PRIVATE = {
    "numba.core.types": Private("the same as numba.types, with `unliteral`", "numba.types"),
    "numba.core.types.unliteral": Private("one version for all constants", "casts in the callers"),
    "numba.core.registry.CPUDispatcher": Private(
        "`get_call_template`, which is told that a constant is a number",
        "casts of constants in the callers",
    ),
    "numba.core.registry.cpu_target": Private(
        "`typing_context`, in which an intrinsic has its type",
        "numba.extending.overload of the plain function, at a function more to compile",
    ),
    "numba.core.cgutils": Private("structures, unlikely branches, memcpy in code", _CARES),
    "numba.core.callconv.Status": Private("an error of a callee, to hand on", _CARES),
    "numba.core.ir": Private(
        "statements that read or write elements, to count from the beginning",
        "unsigned indices in the kernels' own source",
    ),
    "numba.core.typing": Private("`signature`, with unsigned indices", "the same"),
    "numba.core.typing.templates.AttributeTemplate": Private(
        "the types of a state's fields, which are known when one is named",
        "numba.extending.overload_attribute for each field of each state",
    ),
    "numba.core.typing.templates.infer_getattr": Private("registers that", "the same"),
    "numba.core.compiler.CompilerBase": Private(
        "pipelines of our own: `pipeline_class` of the published decorator takes one",
        "none: Numba documents it for such use, outside of what it promises to keep",
    ),
    "numba.core.compiler.DefaultPassBuilder": Private("Numba's pipeline, to change", "the same"),
    "numba.core.compiler_machinery.FunctionPass": Private("a pass of our own", "the same"),
    "numba.core.compiler_machinery.register_pass": Private("registers it", "the same"),
    "numba.core.typed_passes.NativeLowering": Private("the pass that is replaced", "the same"),
    "numba.core.typed_passes.NoPythonSupportedFeatureValidation": Private(
        "the place after which indices are changed", "any other pass after type inference"
    ),
    "numba.core.typed_passes.BaseNativeLowering": Private(
        "lowering that writes our ways in beside a function",
        "numba.cfunc, which costs a second optimisation and prints errors instead of raising them",
    ),
    "numba.core.lowering.Lower": Private("its place for wrappers of a function", "the same"),
    "numba.core.codegen.JITCodeLibrary": Private("code that is linked or emitted, not run", _SHORT),
    f"{_LIBRARY}._codegen": Private("Numba's target", _SHORT),
    f"{_LIBRARY}._ensure_finalized": Private("links what a library is made of", _SHORT),
    f"{_LIBRARY}._final_module": Private("the module, for passes and emitting", "get_llvm_str()"),
    f"{_LIBRARY}._finalize_final_module": Private("left out: nothing is run", _SHORT),
    f"{_LIBRARY}._finalize_dynamic_globals": Private("part of that which is kept", _SHORT),
    f"{_LIBRARY}._verify_declare_only_symbols": Private("part of that which is kept", _SHORT),
    f"{_LIBRARY}._finalized": Private("says that it is done", _SHORT),
    f"{_LIBRARY}._optimize_final_module": Private("few passes for a step", _SHORT),
    f"{_LIBRARY}._optimize_functions": Private("none for a step", _SHORT),
    "numba.core.codegen.CPUCodegen._tm": Private("emits the object", "a machine of llvmlite's"),
    "numba.core.codegen.CPUCodegen._pass_builder": Private("runs passes", "one of llvmlite's"),
    "numba.core.cgutils._StructProxy._getvalue": Private("the value of a structure", _CARES),
    "numba.np.arrayobj": Private("arrays made of words of a table", _CARES),
    "numba.np.numpy_support.from_dtype": Private("the type of a dtype", "numba.typeof of an array"),
}
