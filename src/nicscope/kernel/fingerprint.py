"""What compiled code depends on, in one digest: the functions that a kernel really calls.

A function counts by its bytecode, its constants without the docstring, and the values of the
globals that it names: a number, a tuple, a dtype, an enumeration, a NamedTuple's class, or another
function of the same kind by its own digest.  Comments, docstrings and lines that only moved change
nothing; neither does any file that no kernel reaches.  To this come the files of the room that
makes code, versions, and the processor.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import importlib.metadata
import opcode
import platform
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from nicscope.kernel.settings import CHECKED, STEPS, numba_settings

ROOM = Path(__file__).parent
PACKAGE = ROOM.parent
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_LOAD_ATTRIBUTE = {opcode.opmap["LOAD_ATTR"], opcode.opmap.get("LOAD_METHOD")}
_SHIFTED = int(sys.version_info >= (3, 12))  # bits of an attribute's number that say other things
_CACHE = opcode.opmap["CACHE"]
_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
# Files beside the folder ``compiler`` on which code depends: how states lie, and how it is entered.
_MAKING = ("decorators.py", "fingerprint.py", "layout.py", "loading.py", "settings.py")
_OURS = __name__.partition(".")[0]


class UnknownGlobalError(TypeError):
    """A kernel names a global whose value no digest can stand for."""


@functools.cache
def package_stamp() -> str:
    """SHA-256 over every Python file of the package: the source that a report names."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def maker_stamp() -> str:
    """Digest of what makes code and of what it is made for."""
    import llvmlite  # type: ignore[import-untyped]
    from llvmlite import binding

    digest = hashlib.sha256()
    for path in (*sorted((ROOM / "compiler").glob("*.py")), *(ROOM / name for name in _MAKING)):
        digest.update(path.read_bytes())
    told = (
        sys.version_info[:3],
        platform.machine(),
        np.__version__,
        llvmlite.__version__,
        importlib.metadata.version("numba"),
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        CHECKED,
        numba_settings(),
    )
    digest.update(repr(told).encode())
    return digest.hexdigest()


_digests: dict[Any, bytes] = {}


def digest_of_function(function: Any, callers: tuple[Any, ...] = ()) -> bytes:
    """SHA-256 of all that ``function`` is compiled from.  Errors: ``UnknownGlobalError``."""
    known = _digests.get(function)
    if known is not None:
        return known
    if function in callers:
        raise UnknownGlobalError(f"{_name(function)} calls itself, which kernels cannot")
    if function not in STEPS:
        raise UnknownGlobalError(f"{_name(function)} is called by a kernel, and is none")
    digest = hashlib.sha256(f"{_name(function)} {STEPS[function]}".encode())
    if STEPS[function].code:  # by hand, in a file of this room
        return digest.digest()
    inner = (*callers, function)
    code = function.__code__
    names = _add_code(digest, code, function.__doc__)
    for name in names:
        digest.update(b"\0" + name.encode())
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        where = f"{name} of {_name(function)}"
        if isinstance(value, types.ModuleType) and _is_ours(value):
            for each in sorted(names[name]):
                digest.update(_text_of(getattr(value, each), inner, f"{each} of {where}"))
        else:
            digest.update(_text_of(value, inner, where))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        digest.update(_text_of(cell.cell_contents, inner, f"{name} of {_name(function)}"))
    digest.update(_text_of(function.__defaults__, inner, _name(function)))
    _digests[function] = digest.digest()
    return _digests[function]


def _name(function: Any) -> str:
    return str(function.__name__)


def _add_code(digest: Any, code: types.CodeType, docstring: str | None) -> dict[str, set[str]]:
    """Digest ``code``; the globals that it names, with those of the functions within.

    By name, in the order of the bytecode: what it takes from that global as from a module.
    """
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_names, named)
    digest.update(code.co_code)
    digest.update(repr(counts).encode())
    digest.update(code.co_exceptiontable)
    names = _globals_of(code)
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            for name, taken in _add_code(digest, constant, None).items():
                names.setdefault(name, set()).update(taken)
        elif not (place == 0 and docstring is not None and constant == docstring):
            digest.update(_text_of(constant, (), "a constant"))
    return names


def _globals_of(code: types.CodeType) -> dict[str, set[str]]:
    """The globals that ``code`` itself reads, and the attributes that it takes from each."""
    names: dict[str, set[str]] = {}
    words = code.co_code
    high = 0
    taken: set[str] | None = None  # of the global that has just been read
    for place in range(0, len(words), 2):
        operation, argument = words[place], words[place + 1] | high
        high = argument << 8 if operation == _EXTENDED else 0
        if operation == _LOAD_GLOBAL:
            taken = names.setdefault(code.co_names[argument >> 1], set())
        elif operation not in (_CACHE, _EXTENDED):
            if operation in _LOAD_ATTRIBUTE and taken is not None:
                taken.add(code.co_names[argument >> _SHIFTED])
            taken = None
    return names


def _is_ours(thing: Any) -> bool:
    name = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
    return str(name).partition(".")[0] == _OURS


def _text_of(value: Any, callers: tuple[Any, ...], where: str) -> bytes:
    """Bytes that differ where compiled code would."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}={value.value!r}".encode()
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}".encode()
    if isinstance(value, np.generic):
        return f"{value.dtype.str} {value.item()!r}".encode()
    if isinstance(value, np.dtype):
        return repr((value.descr if value.names else value.str, value.itemsize)).encode()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return (
            f"{value.dtype.str} {value.shape} ".encode() + hashlib.sha256(value.tobytes()).digest()
        )
    if isinstance(value, (tuple, frozenset)):
        parts = [_text_of(each, callers, where) for each in value]
        if hasattr(value, "_fields"):
            parts.append(f"{type(value).__name__} {value._fields!r}".encode())
        return b"(" + b",".join(sorted(parts) if isinstance(value, frozenset) else parts) + b")"
    if isinstance(value, types.FunctionType):
        return digest_of_function(value, callers)
    if isinstance(function := getattr(value, "function", None), types.FunctionType):
        return digest_of_function(function, callers)
    return _text_of_named(value, where)


def _text_of_named(value: Any, where: str) -> bytes:
    """The same of what stands for itself by its name: modules and classes that are not ours."""
    if isinstance(value, types.ModuleType) and not _is_ours(value):
        return f"module {value.__name__}".encode()
    if isinstance(value, np.ufunc):
        return f"ufunc {value.__name__}".encode()
    if isinstance(value, types.BuiltinFunctionType):
        return f"function {value.__module__}.{value.__name__}".encode()
    if isinstance(value, type):
        if issubclass(value, enum.Enum):
            members = [(name, each.value) for name, each in value.__members__.items()]
            return f"enum {value.__name__} {members!r}".encode()
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            return f"tuple {value.__name__} {value._fields!r}".encode()
        if not _is_ours(value):
            return f"class {value.__module__}.{value.__qualname__}".encode()
    raise UnknownGlobalError(f"{where} is {value!r}, for whose value no digest can stand")
