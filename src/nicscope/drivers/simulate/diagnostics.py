"""Where each program of a run waits, for errors and reports; calls that were never awaited."""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
import warnings
from typing import TYPE_CHECKING, Any, Protocol

from nicscope.drivers.simulate.records import (
    ACCESS,
    AWAIT_QUEUE,
    AWAIT_SEND,
    COMPUTE,
    COPY,
    GIVE_UP,
    POST,
    PROVIDE,
    RECEIVE,
    REGISTER,
    REPORT,
    SEND,
    SLEEP,
    TRAP,
    UNPIN,
)
from nicscope.errors import one_line
from nicscope.tracebacks import awaited, entries, is_ours, is_own, own_entry, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType


PS_PER_US = 1_000_000
HINTS = {  # by Python's words
    "lvalue and rvalue have different structures": (
        "as many bytes are needed as there is room: reserve(len(content))[:] = content"
    ),
    "a bytes-like object is required, not 'str'": "a str has no bytes until .encode()",
    "assignment destination is read-only": (
        "what a buffer shows as bytes is for reading: its write(), or array(), stores"
    ),
    "'Buffer' object is not subscriptable": (
        "a buffer's bytes are read and written by its read(), write() and array()"
    ),
    "'HostBuffer' object is not subscriptable": (
        "a buffer's bytes are its bytes; write() and array() store"
    ),
    "'Message' object is not subscriptable": "its content has names of its own: see print(message)",
}
DOING = {
    SEND: "send",
    RECEIVE: "receive",
    COMPUTE: "compute",
    SLEEP: "sleep",
    COPY: "copy",
    POST: "post a descriptor",
    PROVIDE: "provide a buffer",
    REPORT: "hear of a port",
    AWAIT_QUEUE: "hear of a completion queue",
    REGISTER: "register memory",
    GIVE_UP: "deregister memory",
    UNPIN: "unpin memory",
    TRAP: "leave the kernel",
    AWAIT_SEND: "have the NIC done with a message",
    ACCESS: "access memory",
}
FOREIGN = (
    "a program awaits the calls of what it was given, and nothing else: asyncio's and others' wait "
    "for nothing of the simulation (its own sleep() passes virtual time)"
)


class Process(Protocol):
    """What is said of a process: whose program it runs, and what it waits for."""

    name: str
    program: str  # its function's name
    code: CodeType | None  # of that
    now: int  # ps
    knows: Callable[[], list[str]]  # what the NIC knows of what it waits for
    lost: Callable[[], list[str]]  # and of what it has sent in vain
    unread: Callable[[], list[str]]  # and of what has come and was not received


def us(ps: int) -> str:
    """Picoseconds as microseconds, without trailing zeros."""
    text = f"{ps / PS_PER_US:,.3f}".rstrip("0").rstrip(".")
    return f"{text} us"


def who(process: Process) -> str:
    """A process and its program."""
    return f"{process.name}, {process.program}"


def foreign_await(process: Process, coroutine: object, kind: str) -> str:
    """One line: where a program awaits something of ``kind`` that is not the simulation's."""
    own, call = None, None
    for link in awaited(coroutine):
        if is_own(link.frame.f_code.co_filename):
            own, call = link.frame, None
        elif call is None and not is_ours(link.frame.f_code.co_filename):
            call = call_as_written(link.awaitable, link.frame)
    where = "" if own is None else f", {place(own.f_code.co_filename, own.f_lineno)}"
    return f"{who(process)}, awaits {call or f'a {kind}'}{where}, at {us(process.now)}: {FOREIGN}"


def describe_wait(
    process: Process, coroutine: object, since: int | None, doing: str, task: str | None = None
) -> str:
    """One line: where the program of ``process``, or one of its tasks, waits.

    ``doing``: if no call can be named.
    """
    own, call, forgotten = None, None, ""
    for link in awaited(coroutine):
        if is_own(link.frame.f_code.co_filename):
            own, call = link.frame, None
            forgotten = "".join(f"; {each}" for each in find_unawaited(link.frame)) or forgotten
        elif call is None:
            call = call_as_written(link.awaitable, link.frame)
    where = "" if own is None else f", {place(own.f_code.co_filename, own.f_lineno)}"
    what = f"waits in {call}" if call and own is not None else f"waits to {doing}"
    when = "" if since is None else f", since {us(since)}"
    known = "; ".join(process.knows())
    of = who(process) if task is None else f"{who(process)}, task {task}"
    return f"{of}: {what}{where}{when}{f': {known}' if known else ''}{forgotten}"


def call_as_written(awaitable: Any, frame: FrameType) -> str:
    """A call of ours as a program calls it: ``endpoint.receive()``."""
    name = awaitable.__qualname__.rpartition(".")[2]
    of = frame.f_locals.get("self")
    if not is_ours(frame.f_code.co_filename):
        return f"{frame.f_globals.get('__name__', '').partition('.')[0]}.{name}()"
    if of is None:
        return f"{name}()"
    return f"{type(of).__name__.lower()}.{name}()"


def find_unawaited(frame: FrameType) -> Iterator[str]:
    """Calls that the program of ``frame`` made without ``await`` and still holds, in words."""
    for name, value in list(frame.f_locals.items()):
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == "CORO_CREATED":
            assert value.cr_frame is not None
            called = call_as_written(value, value.cr_frame)
            yield f"{name} holds {called}, which was called without 'await'"


def error_context(process: Process, error: BaseException) -> str:
    """Which program raised ``error``, where in its own file, and when."""
    entry = own_entry(error)
    if entry is None:
        return f"in {who(process)}, at {us(process.now)}"
    where = place(entry.tb_frame.f_code.co_filename, entry.tb_lineno)
    return f"in {who(process)}, {where}, at {us(process.now)}"


def describe_ended(process: Process) -> str | None:
    """One line about an ended program that leaves unfinished work; None if there is none."""
    left = [*process.lost(), *process.unread()]
    return f"{who(process)}: has ended; {'; '.join(left)}" if left else None


def add_error_context(error: BaseException, process: Process) -> None:
    """Adds to ``error``, once, which program raised it and any missing ``await`` behind it."""
    if getattr(error, "raised_in", None) is not None:
        return
    for note in (error_context(process, error), *_hints(error)):
        error.add_note(one_line(note))
    with contextlib.suppress(AttributeError):  # of one that has slots
        error.raised_in = f"{who(process)}, at {us(process.now)}"  # type: ignore[attr-defined]


def _hints(error: BaseException) -> Iterator[str]:
    """Advice about mistakes that Python's own message hardly explains."""
    entry, said = own_entry(error), str(error)
    if "no running event loop" in said:
        yield FOREIGN
        _close_unbegun(error)
    for words, hint in HINTS.items():
        if words in said:
            yield hint
    if entry is None or not isinstance(error, (AttributeError, TypeError)):
        return
    if isinstance(error, AttributeError) and is_interface_object(error.obj):
        yield f"{_called(error.obj)} has {', '.join(public_names(error.obj))}"
    if "in 'await' expression" in said:
        yield "this call does not wait: leave 'await' away"
    elif "'coroutine' object" in said or "not 'coroutine'" in said:
        held = [f"{each}: write 'await' before it" for each in find_unawaited(entry.tb_frame)]
        yield from held or ["a call that waits has to be awaited: write 'await' before it"]
        _close_unbegun(error)
    elif "got coroutine" in said:
        yield "a call that waits has to be awaited: write 'await' before it, in a loop of its own"
        _close_unbegun(error)


def _close_unbegun(error: BaseException) -> None:
    """Closes calls that nobody awaited and that are reported, so that they raise no warning too."""
    for entry in entries(error):
        for value in [*entry.tb_frame.f_locals.values()]:
            if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == "CORO_CREATED":
                value.close()


def is_interface_object(thing: object) -> bool:
    """Whether ``thing`` is an object that programs are given to call."""
    return type(thing).__module__.startswith("nicscope.interfaces.")


def _called(thing: object) -> str:
    name = type(thing).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def public_names(thing: object) -> list[str]:
    """Names of what a program may call or read of ``thing``."""
    return [name for name in dir(type(thing)) if not name.startswith("_")]


_FORGOTTEN = re.compile(r"coroutine '(?:.*\.)?(\w+)' was never awaited")


@contextlib.contextmanager
def collect_unawaited(running: Callable[[], Process | None]) -> Iterator[list[str]]:
    """Collects, within the block, one line for each call made without ``await``.

    ``running``: who goes on, whose variables may have held what it called.
    """
    found: list[str] = []
    show = warnings.showwarning

    def tell(message: Any, category: Any, file: str, line: int, *others: Any) -> None:
        forgotten = _FORGOTTEN.match(str(message))
        if forgotten is None:
            show(message, category, file, line, *others)
            return
        process = running()
        code = None if process is None else process.code
        if not is_own(file) and code is not None:
            file = code.co_filename
            line = max((each for _, _, each in code.co_lines() if each is not None), default=0)
        if is_own(file):
            by = "" if process is None else f" ({who(process)}, at {us(process.now)})"
            found.append(_unawaited_message(forgotten[1], file, line) + by)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", _FORGOTTEN.pattern, RuntimeWarning)
        warnings.showwarning = tell  # type: ignore[assignment]
        yield found


def _unawaited_message(name: str, file: str, line: int) -> str:
    called, at = _call(name, file, line)
    return (
        f"{place(file, at)}: {called}() without 'await' does nothing; write 'await {called}(...)'"
    )


def _call(name: str, file: str, line: int) -> tuple[str, int]:
    """The call of ``name`` nearest before ``line`` that is not awaited, and its line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return name, line
    waited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    calls = [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and id(node) not in waited
        if getattr(node.func, "attr", getattr(node.func, "id", None)) == name
    ]
    before = [each for each in calls if each[0] <= line]
    at, called = max(before) if before else min(calls, default=(line, name))
    return called, at
