"""One entry compiled: from a function to machine code, and what of Numba that takes."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import types as python_types
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typed_passes import BaseNativeLowering
from numba.extending import typeof_impl

from nicscope.kernel.compiler.passes import KernelCompiler
from nicscope.kernel.compiler.states import HandedType
from nicscope.kernel.layout import StateKind, names_of
from nicscope.kernel.loading import FAILURE, WRONG_COUNT
from nicscope.kernel.settings import STEPS, Wrapped
from nicscope.kernel.store import Made

if TYPE_CHECKING:
    from collections.abc import Iterator


WORD = ir.IntType(64)
STATUS = ir.IntType(32)
OBJECT = ir.IntType(8).as_pointer()
_ENTER, _CALL = "nicscope_enter_", "nicscope_call_"
lowering_pass: Any = BaseNativeLowering  # about whose types Numba says nothing
lower: Any = Lower
register: Any = register_pass


def enter_name(key: str) -> str:
    """The symbol by which Python enters."""
    return _ENTER + key


def call_name(key: str) -> str:
    """The symbol by which compiled code enters."""
    return _CALL + key


class _EntryLower(lower):  # type: ignore[misc]
    """Writes a function's code, and both ways in where Numba would write its own."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:  # noqa: ARG002 - Numba's
        """Add the module of both ways in, the second only where the result is a number."""
        writer = _Writer(self.context, self.fndesc)
        key = self.func_ir.func_id.func._entry_key
        names = [enter_name(key)]
        writer.write_enter(names[0])
        if isinstance(writer.result, (types.Integer, types.Boolean, types.NoneType)):
            names.append(call_name(key))
            writer.write_call(names[1])
        self.library.exported = frozenset(names)
        self.library.add_ir_module(writer.module)


@register(mutates_CFG=True, analysis_only=False)
class EntryLowering(lowering_pass):  # type: ignore[misc]
    """In place of Numba's own lowering, for what is entered from outside."""

    _name = "entry_lowering"

    @property
    def lowering_class(self) -> Any:
        """What writes the code."""
        return _EntryLower


class _Writer:
    """Of the module; the functions of Python that it calls are declared as they are needed."""

    def __init__(self, context: Any, descriptor: Any) -> None:
        self.context = context
        self.result = descriptor.restype
        self.arguments = descriptor.argtypes
        self.module = context.create_module("entry")
        kind = context.call_conv.get_function_type(self.result, self.arguments)
        self._native = ir.Function(self.module, kind, descriptor.llvm_func_name)
        self._handed = context.get_value_type(self.arguments[0])

    def _declared(self, name: str, result: Any, *arguments: Any) -> Any:
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def _call_native(self, builder: Any, arguments: Any) -> Any:
        return self.context.call_conv.call_function(
            builder, self._native, self.result, self.arguments, arguments, attrs=("noinline",)
        )

    def write_call(self, name: str) -> None:
        """The way in for compiled code."""
        convention = self.context.call_conv
        kind = convention.get_function_type(types.int64, self.arguments)
        function = ir.Function(self.module, kind, name)
        builder = ir.IRBuilder(function.append_basic_block())
        status, result = self._call_native(builder, convention.get_arguments(function))
        with builder.if_then(status.is_error, likely=False):
            builder.store(status.excinfoptr, function.args[1])
            builder.ret(status.code)
        builder.store(self._widened(builder, result, self.result), function.args[0])
        excinfo = function.args[1]
        builder.store(ir.Constant(excinfo.type.pointee, None), excinfo)  # there is an answer
        builder.ret(STATUS(0))

    def _widened(self, builder: Any, value: Any, kind: Any) -> Any:
        if isinstance(kind, types.NoneType):
            return WORD(0)
        return self.context.cast(builder, value, kind, types.int64)

    def write_enter(self, name: str) -> None:
        """The way in for Python: ``self``, an array of numbers, and how many."""
        shape = ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), WORD])
        function = ir.Function(self.module, shape, name)
        given = len(self.arguments) - 1
        builder = ir.IRBuilder(function.append_basic_block())
        wrong = builder.icmp_signed("!=", function.args[2], WORD(given))
        with builder.if_then(wrong, likely=False):
            self._raise(builder, STATUS(WRONG_COUNT), ir.Constant(OBJECT, None))
        table = builder.call(self._declared("PyLong_AsVoidPtr", OBJECT, OBJECT), [function.args[0]])
        numbers = [self._number(builder, function.args[1], place) for place in range(given)]

        thread = builder.call(self._declared("PyEval_SaveThread", OBJECT), [])
        status, result = self._call_native(
            builder, [builder.bitcast(table, self._handed), *numbers]
        )
        builder.call(self._declared("PyEval_RestoreThread", ir.VoidType(), OBJECT), [thread])
        with builder.if_then(status.is_error, likely=False):
            self._raise(builder, status.code, builder.bitcast(status.excinfoptr, OBJECT))
        builder.ret(self._object(builder, result, self.result))

    def _number(self, builder: Any, objects: Any, place: int) -> Any:
        item = builder.load(builder.gep(objects, [WORD(place)]))
        number = builder.call(self._declared("PyLong_AsLongLong", WORD, OBJECT), [item])
        with builder.if_then(builder.icmp_signed("==", number, WORD(-1)), likely=False):
            error = builder.call(self._declared("PyErr_Occurred", OBJECT), [])
            with builder.if_then(builder.icmp_unsigned("!=", error, OBJECT(None))):
                builder.ret(OBJECT(None))
        return number

    def _raise(self, builder: Any, code: Any, excinfo: Any) -> None:
        """Have ``kernel.loading`` tell what is to be raised, and end with that."""
        tell = self._declared(FAILURE, ir.VoidType(), STATUS, OBJECT, OBJECT.as_pointer())
        slot = builder.alloca(OBJECT)
        builder.store(OBJECT(None), slot)
        self._check_signals(builder)  # by a signal that came meanwhile: it would keep tell from it
        builder.call(tell, [code, excinfo, slot])
        with self._if_empty(builder, slot):
            # What the handler of a signal raised as it was told is lost: an interrupt, as a rule.
            builder.call(self._declared("PyErr_SetInterrupt", ir.VoidType()), [])
            self._check_signals(builder)
            builder.call(tell, [code, excinfo, slot])  # whoever is not to be interrupted is told
            with self._if_empty(builder, slot):
                builder.call(self._declared("PyErr_BadInternalCall", ir.VoidType()), [])
                builder.ret(OBJECT(None))
        self._set(builder, builder.load(slot))
        builder.ret(OBJECT(None))

    def _check_signals(self, builder: Any) -> None:
        """Have signals handled, and end with what a handler raises."""
        found = builder.call(self._declared("PyErr_CheckSignals", STATUS), [])
        with builder.if_then(builder.icmp_signed("!=", found, STATUS(0)), likely=False):
            builder.ret(OBJECT(None))

    def _if_empty(self, builder: Any, slot: Any) -> Any:
        empty = builder.icmp_unsigned("==", builder.load(slot), OBJECT(None))
        return builder.if_then(empty, likely=False)

    def _set(self, builder: Any, error: Any) -> None:
        kind = builder.call(self._declared("PyObject_Type", OBJECT, OBJECT), [error])
        setter = self._declared("PyErr_SetObject", ir.VoidType(), OBJECT, OBJECT)
        builder.call(setter, [kind, error])
        drop = self._declared("Py_DecRef", ir.VoidType(), OBJECT)
        builder.call(drop, [kind])
        builder.call(drop, [error])

    def _object(self, builder: Any, value: Any, kind: Any) -> Any:
        """A Python object for a result of ``kind``.  Errors: ``TypeError`` if there is none."""
        if isinstance(kind, types.EnumMember):
            kind = kind.dtype
        if isinstance(kind, types.NoneType):
            return builder.call(self._declared("Py_BuildValue", OBJECT, OBJECT), [self._no_text()])
        if isinstance(kind, types.Boolean):
            truth = self.context.cast(builder, value, kind, types.int64)
            return builder.call(self._declared("PyBool_FromLong", OBJECT, WORD), [truth])
        if isinstance(kind, types.Integer):
            word = self.context.cast(builder, value, kind, _widest(kind))
            name = "PyLong_FromUnsignedLongLong"
            if _widest(kind) is types.int64:
                name = "PyLong_FromLongLong"
            return builder.call(self._declared(name, OBJECT, WORD), [word])
        if isinstance(kind, types.Float):
            number = self.context.cast(builder, value, kind, types.float64)
            make = self._declared("PyFloat_FromDouble", OBJECT, ir.DoubleType())
            return builder.call(make, [number])
        if isinstance(kind, types.BaseTuple):
            return self._tuple(builder, value, kind)
        raise TypeError(f"a kernel returns {kind}: only numbers and tuples of them can be")

    def _tuple(self, builder: Any, value: Any, kind: Any) -> Any:
        whole = builder.call(self._declared("PyTuple_New", OBJECT, WORD), [WORD(len(kind))])
        put = self._declared("PyTuple_SetItem", STATUS, OBJECT, WORD, OBJECT)
        for place, each in enumerate(kind):
            item = self._object(builder, builder.extract_value(value, place), each)
            builder.call(put, [whole, WORD(place), item])
        return whole

    def _no_text(self) -> Any:
        """An empty format, of which ``Py_BuildValue`` makes None."""
        text = ir.GlobalVariable(self.module, ir.ArrayType(ir.IntType(8), 1), "no_text")
        text.linkage = "internal"
        text.global_constant = True
        text.initializer = ir.Constant(text.type.pointee, bytearray(1))
        return text.bitcast(OBJECT)


def _widest(kind: Any) -> Any:
    return types.int64 if kind.signed else types.uint64


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


unliteral: Any = types.unliteral  # about whose types Numba says nothing
_lock = threading.RLock()  # one function at a time: what is compiled is kept for its callers


class _Dispatcher(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As Numba's, but with one type for all numbers: Numba compiles anew for each constant."""
        plain = tuple(unliteral(each) for each in args)
        named = {name: unliteral(each) for name, each in kws.items()}
        return super().get_call_template(plain, named)


@functools.cache
def _step_of(function: Any) -> Any:
    """The dispatcher that compiles ``function`` into its callers."""
    return _dispatcher(function, STEPS[function].inline, StepCompiler)


def _dispatcher(function: Any, inline: bool, compiler: Any) -> Any:
    jit: Any = numba.njit  # whose published types know neither these options nor its result
    made = jit(
        nogil=True,
        _nrt=False,
        forceinline=inline,
        pipeline_class=compiler,
        no_cpython_wrapper=compiler is StepCompiler,
        no_cfunc_wrapper=True,
    )(function)
    made.__class__ = _Dispatcher
    return made


@functools.cache
def _written(code: str) -> Any:
    """The type of the intrinsic that ``code`` names."""
    module, _, name = code.partition(":")
    intrinsic = getattr(import_module(module), name)
    typing: Any = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(intrinsic)


def _type_of_function(function: Any) -> Any:
    known = STEPS.get(function)
    if known is None:
        return None
    return _written(known.code) if known.code else types.Dispatcher(_step_of(function))


@typeof_impl.register(python_types.FunctionType)
def _typeof_function(function: Any, _context: Any) -> Any:
    return _type_of_function(function)


@typeof_impl.register(Wrapped)
def _typeof_entry(entry: Wrapped, _context: Any) -> Any:
    return _type_of_function(entry.function)


@contextlib.contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Disables garbage collection within the block, which took a tenth of compile time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compiled(function: Any, kind: StateKind, key: str) -> Made:
    """Machine code of ``function`` for a state of ``kind``, or for a call with such arguments.

    Errors: those of Numba for what it cannot compile.
    """
    with _lock, _garbage_collection_off():
        numbers = 0
        if kind.name == "arguments":
            whole = _of_arguments(function, len(kind.fields))
        else:
            whole = _copy(function)
            numbers = function.__code__.co_argcount - 1
        whole._entry_key = key
        dispatcher = _dispatcher(whole, False, EntryCompiler)
        signature = (HandedType(kind), *[types.int64] * numbers)
        dispatcher.compile(signature)
        library = dispatcher.overloads[signature].library
        call = call_name(key)
        return Made(
            enter_name(key),
            call if call in library.exported else "",
            library.needed(),
            library.object_code(),
        )


def _copy(function: Any) -> Any:
    """A copy of the function with a key of its own."""
    return functools.update_wrapper(
        python_types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        ),
        function,
        assigned=("__module__", "__qualname__"),
        updated=(),
    )


def _of_arguments(function: Any, count: int) -> Any:
    """A function of one state that hands its fields on to ``function``."""
    given = ", ".join(f"state.{name}" for name in names_of(count))
    space: dict[str, Any] = {"function": function}
    exec(f"def whole(state):\n    return function({given})\n", space)
    return space["whole"]


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
