"""How long a program waits: until when, and what it is told when nothing has come by then."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import TYPE_CHECKING

from nicscope.drivers.simulate.standing import us
from nicscope.errors import WaitTimeoutError
from nicscope.frames import is_ours, is_own, place
from nicscope.interfaces.arguments import PS_PER_US, in_ps

if TYPE_CHECKING:
    from nicscope.drivers.simulate.driven import Process

NO_END = 0  # in place of a time


def latest(process: Process, timeout_us: float | Fraction | None) -> int:
    """The time (ps) until which ``process`` waits from now on.  Errors: for no time."""
    if timeout_us is None:
        return NO_END
    return max(1, process.now + in_ps(timeout_us, process.now, "timeout_us"))


def left(process: Process, until: int) -> Fraction | None:
    """What is left (us) until that time, of a wait that takes several."""
    return None if until == NO_END else Fraction(max(0, until - process.now), PS_PER_US)


def unanswered(process: Process, said: str, node: int | None = None) -> WaitTimeoutError:
    """The error of a call that has asked ``node``, or all, in vain: what they do instead."""
    standings = process.standings
    silence = "" if node is None else standings.silence_of(node)
    return WaitTimeoutError(f"{said}{silence}", standings.others_stand(process))


def timed_out(process: Process) -> WaitTimeoutError:
    """The error of the call that a program waits in, which nothing has ended in time."""
    call, where = "a call", ""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_own(code.co_filename):
            where = f", {place(code.co_filename, frame.f_lineno)}"
            break
        if is_ours(code.co_filename):
            of = frame.f_locals.get("self")
            call = f"{type(of).__name__.lower()}.{code.co_name}()"
        frame = frame.f_back  # type: ignore[assignment]
    known = "; ".join(process.knows())
    return WaitTimeoutError(
        f"{call}{where}, has waited long enough at {us(process.now)}: nothing has come"
        f"{f' ({known})' if known else ''}"
    )
