"""The two ways into an entry, written beside its code: from Python, and from compiled code.

From Python it is a builtin function that is given numbers in an array: its ``self`` is the address
of the table, so a call costs no look at types.  From compiled code it is Numba's own calling
convention for one state and int64s, with an int64 for a result, whatever the kernel returns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering

from nicscope.kernel.loading import FAILURE, WRONG_COUNT

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
        if _is_word(writer.result):
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


def _is_word(kind: Any) -> bool:
    return isinstance(kind, (types.Integer, types.Boolean, types.NoneType))


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
        self._return_if_rung(builder)  # by a signal that came meanwhile: it would keep tell from it
        builder.call(tell, [code, excinfo, slot])
        with self._if_empty(builder, slot):
            # What the handler of a signal raised as it was told is lost: an interrupt, as a rule.
            builder.call(self._declared("PyErr_SetInterrupt", ir.VoidType()), [])
            self._return_if_rung(builder)
            builder.call(tell, [code, excinfo, slot])  # whoever is not to be interrupted is told
            with self._if_empty(builder, slot):
                builder.call(self._declared("PyErr_BadInternalCall", ir.VoidType()), [])
                builder.ret(OBJECT(None))
        self._set(builder, builder.load(slot))
        builder.ret(OBJECT(None))

    def _return_if_rung(self, builder: Any) -> None:
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
