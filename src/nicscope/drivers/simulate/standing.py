"""Where each program stands: the call that it waits in, its own line, and what the NIC knows.

Said of every program when nothing more can happen, when a person interrupts the run, and of the one
that raises or misuses something.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.machine import (
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
from nicscope.frames import awaited, entries, is_ours, is_own, own_entry, place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from nicscope.drivers.simulate.driven import Process

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


def us(ps: int) -> str:
    """Picoseconds as microseconds, without zeros that say nothing."""
    text = f"{ps / PS_PER_US:,.3f}".rstrip("0").rstrip(".")
    return f"{text} us"


def who(process: Process) -> str:
    """A process and its program."""
    return f"{process.name}, {process.program}"


def foreign(process: Process, coroutine: object, kind: str) -> str:
    """One line: where a program awaits something of ``kind`` that is not the simulation's."""
    own, call = None, None
    for link in awaited(coroutine):
        if is_own(link.frame.f_code.co_filename):
            own, call = link.frame, None
        elif call is None and not is_ours(link.frame.f_code.co_filename):
            call = public_name(link.awaitable, link.frame)
    where = "" if own is None else f", {place(own.f_code.co_filename, own.f_lineno)}"
    return f"{who(process)}, awaits {call or f'a {kind}'}{where}, at {us(process.now)}: {FOREIGN}"


def stand_of(
    process: Process, coroutine: object, since: int | None, doing: str, task: str | None = None
) -> str:
    """One line: where the program of ``process``, or a task of its, waits.

    ``doing``: if no call can be named.
    """
    own, call, forgotten = None, None, ""
    for link in awaited(coroutine):
        if is_own(link.frame.f_code.co_filename):
            own, call = link.frame, None
            forgotten = "".join(f"; {each}" for each in never_awaited(link.frame)) or forgotten
        elif call is None:
            call = public_name(link.awaitable, link.frame)
    where = "" if own is None else f", {place(own.f_code.co_filename, own.f_lineno)}"
    what = f"waits in {call}" if call and own is not None else f"waits to {doing}"
    when = "" if since is None else f", since {us(since)}"
    known = "; ".join(process.knows())
    of = who(process) if task is None else f"{who(process)}, task {task}"
    return f"{of}: {what}{where}{when}{f': {known}' if known else ''}{forgotten}"


def public_name(awaitable: Any, frame: FrameType) -> str:
    """A call of ours as a program calls it: ``endpoint.receive()``."""
    name = awaitable.__qualname__.rpartition(".")[2]
    of = frame.f_locals.get("self")
    if not is_ours(frame.f_code.co_filename):
        return f"{frame.f_globals.get('__name__', '').partition('.')[0]}.{name}()"
    if of is None:
        return f"{name}()"
    return f"{type(of).__name__.lower()}.{name}()"


def never_awaited(frame: FrameType) -> Iterator[str]:
    """What the program of ``frame`` has called without ``await`` and still holds, in words."""
    for name, value in list(frame.f_locals.items()):
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == "CORO_CREATED":
            assert value.cr_frame is not None
            called = public_name(value, value.cr_frame)
            yield f"{name} holds {called}, which was called without 'await'"


def note_of(process: Process, error: BaseException) -> str:
    """Who has raised ``error``, where in its own file, and when."""
    entry = own_entry(error)
    if entry is None:
        return f"in {who(process)}, at {us(process.now)}"
    where = place(entry.tb_frame.f_code.co_filename, entry.tb_lineno)
    return f"in {who(process)}, {where}, at {us(process.now)}"


def has_ended(process: Process) -> str | None:
    """One line of a program that has ended, if something of it is left; None if nothing is."""
    left = [*process.lost(), *process.unread()]
    return f"{who(process)}: has ended; {'; '.join(left)}" if left else None


def put_note(error: BaseException, process: Process) -> None:
    """Have ``error`` say whose it is, once, and what a forgotten ``await`` has to do with it."""
    if getattr(error, "raised_in", None) is not None:
        return
    for note in (note_of(process, error), *_hints(error)):
        error.add_note(one_line(note))
    with contextlib.suppress(AttributeError):  # of one that has slots
        error.raised_in = f"{who(process)}, at {us(process.now)}"  # type: ignore[attr-defined]


def _hints(error: BaseException) -> Iterator[str]:
    """What to do about mistakes of which Python's own words say little."""
    entry, said = own_entry(error), str(error)
    if "no running event loop" in said:
        yield FOREIGN
        _close_unbegun(error)
    for words, hint in HINTS.items():
        if words in said:
            yield hint
    if entry is None or not isinstance(error, (AttributeError, TypeError)):
        return
    if isinstance(error, AttributeError) and is_one_of_ours(error.obj):
        yield f"{_called(error.obj)} has {', '.join(public_of(error.obj))}"
    if "in 'await' expression" in said:
        yield "this call does not wait: leave 'await' away"
    elif "'coroutine' object" in said or "not 'coroutine'" in said:
        held = [f"{each}: write 'await' before it" for each in never_awaited(entry.tb_frame)]
        yield from held or ["a call that waits has to be awaited: write 'await' before it"]
        _close_unbegun(error)
    elif "got coroutine" in said:
        yield "a call that waits has to be awaited: write 'await' before it, in a loop of its own"
        _close_unbegun(error)


def _close_unbegun(error: BaseException) -> None:
    """Calls that nobody awaited, and which are told of by now, do not warn of themselves too."""
    for entry in entries(error):
        for value in [*entry.tb_frame.f_locals.values()]:
            if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == "CORO_CREATED":
                value.close()


def is_one_of_ours(thing: object) -> bool:
    """Whether it is something that a program is given to call."""
    return type(thing).__module__.startswith("nicscope.interfaces.")


def _called(thing: object) -> str:
    name = type(thing).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def public_of(thing: object) -> list[str]:
    """What a program may call of it, or read."""
    return [name for name in dir(type(thing)) if not name.startswith("_")]
