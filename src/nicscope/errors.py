"""Every error that a user can cause.

NicscopeError           one line: what was found, where, and what to do; the CLI exits with 2
  TraceError            a trace that cannot be read, converted or believed
    MistakenRowError    a row of a node, whose place whoever knows the files adds
  DesignError           a design, or a ``--set`` value, that makes no sense
  PlatformError         a platform profile that makes no sense
  RecordError           a program that cannot be recorded
  OutputError           a result that cannot be written
  SimulationError       traffic or a program that cannot be simulated
    StandingError       something that does not come; says of each program where it waits
      StuckError        a run that cannot go on
      WaitTimeoutError  what a program waited for has not come in the time that it gave
    ProgramMistakeError a program that cannot do what it says; where is in the text
    RoomError           more than fits into this machine's memory
  StudyError            a study or reproduction that does not exist
"""

from __future__ import annotations

import contextlib
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType


LONGEST = 600  # characters of a message
MOST_LINES = 16


class NicscopeError(Exception):
    """A mistake that one line can explain; never shown with a traceback.

    Whatever it quotes of a user's input, its text is one printable line of bounded length.
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class TraceError(NicscopeError):
    """A trace that cannot be read, converted or believed."""


class MistakenRowError(TraceError):
    """A row that cannot be believed: number ``nth``, from 0, of those of ``node`` in their order.

    Where it stands in which file is added by who has these (``traces.folders``).
    """

    def __init__(self, said: str, node: int = 0, nth: int = 0) -> None:
        super().__init__(said)
        self.node, self.nth = node, nth


class DesignError(NicscopeError):
    """A design, or a value set on one, that makes no sense."""


class PlatformError(NicscopeError):
    """A platform profile that makes no sense."""


class RecordError(NicscopeError):
    """A program that cannot be recorded."""


class OutputError(NicscopeError):
    """A result that cannot be written."""


class SimulationError(NicscopeError):
    """Traffic, or a program, that cannot be simulated."""


class StandingError(SimulationError):
    """Something that does not come; one line of each program: where, since when and why it waits.

    ``stands``: those lines, which may become known behind it.
    """

    def __init__(self, said: str, stands: Sequence[str] = ()) -> None:
        super().__init__(said)
        self.said, self.stands = said, stands

    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *map(one_line, shortened(self.stands))])


class StuckError(StandingError):
    """Nothing more will happen, but programs wait."""


class ProgramMistakeError(SimulationError):
    """A program that cannot do what it says, as a call without ``await``; its text says where."""


class WaitTimeoutError(StandingError, TimeoutError):
    """What a program waited for has not come in the time that it gave.

    One that leaves its program says where the others stand.
    """


class StudyError(NicscopeError):
    """A study or a reproduction that does not exist."""


class RoomError(SimulationError):
    """More than fits into this machine's memory."""


class _InOneLine(contextlib.ContextDecorator):
    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(error, NicscopeError):
            error.__traceback__ = None
            error.__suppress_context__ = True


# A function that a person calls: the traceback of a mistake ends at the call, as the line says all.
in_one_line = _InOneLine()


def shortened(lines: Sequence[str]) -> list[str]:
    """Not more of ``lines`` than a person reads."""
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more:,} more"] if more > 0 else [])]


def one_line(text: str) -> str:
    """``text`` as one printable line; what is beyond ``LONGEST`` is left out of its middle."""
    # First by itself, as escapes are longer than what they stand for.
    shown = printable(_shortened(text))
    return _shortened(shown)


def printable(text: str) -> str:
    """``text`` with escapes for line ends, control characters and bytes that are no UTF-8."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # how Python spells a byte of a file's name
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    # The end says what to do.
    head, tail = LONGEST // 2, LONGEST // 3
    return f"{text[:head]} ... {len(text) - head - tail:,} characters ... {text[-tail:]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The tail of an error message: the nearest known word, those that begin so, or else all."""
    choices = sorted(known)
    spelt = {choice.lower(): choice for choice in reversed(choices)}
    small = word.lower()
    near = difflib.get_close_matches(word, choices, n=1)
    near = near or [spelt[one] for one in difflib.get_close_matches(small, spelt, n=1)]
    near = near or [choice for choice in choices if small and choice.lower().startswith(small)]
    if near:
        *first, last = map(repr, near)
        return f"; did you mean {', '.join(first)}{' or ' if first else ''}{last}?"
    return f"; choose from {', '.join(choices)}" if choices else ""
