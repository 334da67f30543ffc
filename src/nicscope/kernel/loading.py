"""Loads compiled code by LLVM's linker alone: running compiled code needs no compiler.

Machine code of an entry has two names that can be entered: one by Python, as a builtin function
whose ``self`` is the address of a state's table, and one by compiled code.  Where code ends with an
error, it asks ``_exception`` for what is to be raised.
"""

from __future__ import annotations

import ctypes
import functools
import pickle
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from llvmlite import binding  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.kernel.layout import Handed
    from nicscope.kernel.store import Made

LOST = 1  # no address: stands where an answer's error would until there is an answer
PENDING = 0x6E53  # the status of a call that ended with an exception of interpreted code
WRONG_COUNT = -0x6E53  # of an entry that was given too few numbers, or too many
FAILURE = "nicscope_exception"  # the symbol of ``_exception``
_FASTCALL = 0x0080
_pending = threading.local()
_lock = threading.Lock()
_loaded: list[Code] = []  # entries that were bound point into it, and do not keep it alive


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
)(("PyCFunction_NewEx", ctypes.pythonapi))


class Code:
    """Machine code in memory, for as long as the process runs."""

    def __init__(self, enter: int, call: int, numbers: int) -> None:
        self.call_address = call
        self._method = _Method(b"compiled", enter, _FASTCALL, None)
        self._at = ctypes.addressof(self._method)
        self._call = prototype(numbers)(call) if call else None

    def bound(self, state: Handed) -> Callable[..., Any]:
        """What Python calls with numbers; it keeps the state alive."""
        entry: Callable[..., Any] = _new_function(self._at, state.address, state)
        return entry

    def call(self, result: int, excinfo: int, table: int, *numbers: int) -> int:
        """Call it as compiled code would; the status."""
        assert self._call is not None
        return int(self._call(result, excinfo, table, *numbers))


@functools.cache
def prototype(numbers: int) -> Any:
    """Of what compiled code calls: result, exception, table and so many numbers; the status."""
    words = [ctypes.c_int64] * numbers
    return ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *words
    )


def leave_pending(error: BaseException) -> int:
    """Stores ``error`` for the entry that compiled code returns to; the status to return."""
    _pending.error = error
    return PENDING


class _Raised(NamedTuple):
    """How compiled code describes an exception: where the pickle of it is, and how long."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]


def exception_of(status: int, excinfo: int | None) -> BaseException:
    """The exception for ``status``, with which an entry or a call has ended."""
    if status == PENDING:
        error: BaseException | None = getattr(_pending, "error", None)
        _pending.error = None
        return error or RuntimeError(
            "what was raised as compiled code called Python, such as an interrupt, was lost"
        )
    if status == WRONG_COUNT:
        return TypeError("a bound kernel takes as many numbers as the kernel has after its state")
    if status > 0 and excinfo:
        text = ctypes.c_void_p.from_address(excinfo).value or 0
        length = ctypes.c_int32.from_address(excinfo + ctypes.sizeof(ctypes.c_void_p)).value
        # Part of the code itself: as much to be trusted as that, whose digest was checked.
        raised = _Raised(*pickle.loads(ctypes.string_at(text, length))[:2])
        return raised.kind(*(raised.arguments or ()))
    return SystemError(f"compiled code ended with status {status}")


def _exception(status: int, excinfo: int | None, slot: int) -> None:
    """Put the exception into ``slot``; it stays empty if a signal's handler raises in between."""
    try:
        error = exception_of(status, excinfo)
    except BaseException as other:  # of whatever kind: code above us must learn of it
        error = other
    place, address = ctypes.c_void_p.from_address(slot), id(error)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
    place.value = address


_EXCEPTION = ctypes.PYFUNCTYPE(None, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(_exception)


@functools.cache
def _engine() -> Any:
    """What puts object code into memory; its machine is this one."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.add_symbol(FAILURE, ctypes.cast(_EXCEPTION, ctypes.c_void_p).value)
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        codemodel="jitdefault", jit=True
    )
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def load(made: Made, numbers: int) -> Code | None:
    """Loads ``made``, entered with so many numbers; None where a symbol it needs is missing."""
    with _lock:
        engine = _engine()
        if not all(binding.address_of_symbol(name) for name in made.needs):
            return None
        engine.add_object_file(binding.ObjectFileRef.from_data(made.code))
        engine.finalize_object()
        call = engine.get_function_address(made.call) if made.call else 0
        code = Code(engine.get_function_address(made.enter), call, numbers)
        _loaded.append(code)
        return code
