"""Parser of strace log lines: time, task, call, arguments and result.

Remembered are tasks that have not ended, their descriptors, and calls that have not: those that
were interrupted, and those of tasks whose maker has not returned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

NS_PER_S = 1_000_000_000
DAY_NS = 86_400 * NS_PER_S
UNFINISHED = "<unfinished ...>"
DETACHED = "<detached ...>"

# As many digits as the kernel's numbers and the next two centuries have.
_PID = r"\d{1,9}"
_TIME = r"[0-8]?\d{1,9}\.\d{1,9}|\d\d:\d\d:\d\d(?:\.\d{1,9})?"
# With -o: 'PID  TIME call'; without: '[pid PID] TIME call', or 'TIME call' while there is one task.
_LINE = re.compile(
    rf"(?:(?P<pid>{_PID})\s+|\[pid\s+(?P<bracketed>{_PID})\]\s+)?"
    rf"(?:(?P<time>{_TIME})\s+)?"
    r"(?P<text>\w+\(.*|<\.\.\. .*|\+\+\+ .*|--- .*)"
)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>\s?(.*)")
# Greedy up to the last result: text in arguments may hold ') = ' as well.
_CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\w+|\?)(.*)")


class Call(NamedTuple):
    """A system call that returned."""

    line: int  # where it began
    task: int | None  # None where the log does not say
    time_ns: int | None  # when it began
    name: str
    arguments: str
    result: int | None  # None if it never returned
    error: str  # the name of it, such as EAGAIN, if the call failed
    interrupted: bool  # a Start went before

    @property
    def characters(self) -> int:
        """How much text it holds."""
        return len(self.name) + len(self.arguments) + len(self.error)


class Start(NamedTuple):
    """A system call that has begun and may never return."""

    line: int
    task: int | None
    time_ns: int | None
    text: str

    @property
    def name(self) -> str:
        """The system call's name."""
        return self.text.partition("(")[0]

    @property
    def arguments(self) -> str:
        """The arguments known by now."""
        return self.text.partition("(")[2]

    @property
    def characters(self) -> int:
        """How much text it holds."""
        return len(self.text)


class Exit(NamedTuple):
    """The end of a task."""

    line: int
    task: int | None
    characters: int = 0


class LineReader:
    """Pairs interrupted calls with their ends; counts lines that are neither calls nor strace's."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._pending: dict[int | None, Start] = {}
        self.recognised = 0
        self.other_lines = 0
        self.never_returned = 0
        self._day_ns = 0
        self._last_of_day_ns = 0

    def events(self, lines: Iterable[tuple[int, str]]) -> Iterator[Call | Start | Exit]:
        """Events of all lines in order; an interrupted call is a ``Start``, then a ``Call``."""
        for number, line in lines:
            match = _LINE.match(line)
            if match is None:
                self.other_lines += bool(line.strip())
                continue
            self.recognised += 1
            pid = match["pid"] or match["bracketed"]
            task = None if pid is None else int(pid)
            text = match["text"]
            if text.startswith("+++"):
                self.never_returned += self._taken(task) is not None
                yield Exit(number, task)
            elif not text.startswith("---"):
                event = self._call(number, task, self._time_ns(match["time"]), text)
                if event is not None:
                    yield event
        self.never_returned += len(self._pending)

    def _call(
        self, number: int, task: int | None, time_ns: int | None, text: str
    ) -> Call | Start | None:
        resumed = _RESUMED.match(text)
        if resumed is not None:
            start = self._start_of(task)
            if start is None or start.name != resumed[1]:
                self.other_lines += 1
                return None
            number, time_ns, text = start.line, start.time_ns, start.text + resumed[2]
        elif text.endswith((UNFINISHED, DETACHED)):
            start = Start(number, task, time_ns, shortened(text.rpartition("<")[0]))
            self._taken(task)
            self._room.keep(number, start.characters)
            self._pending[task] = start
            return start
        match = _CALL.match(text)
        if match is None:
            self.other_lines += 1
            return None
        result = _result(match[3])
        self.never_returned += result is None
        error = match[4].split(maxsplit=1)[:1] if match[3] == "-1" else []
        return Call(
            line=number,
            task=task,
            time_ns=time_ns,
            name=shortened(match[1]),
            arguments=shortened(match[2]),
            result=result,
            error=shortened(error[0]) if error else "",
            interrupted=resumed is not None,
        )

    def _start_of(self, task: int | None) -> Start | None:
        """Remove the call that ``task`` has begun; a single task has no number."""
        if task not in self._pending:
            if None in self._pending:
                task = None
            elif task is None and len(self._pending) == 1:
                (task,) = self._pending
        return self._taken(task)

    def _taken(self, task: int | None) -> Start | None:
        start = self._pending.pop(task, None)
        if start is not None:
            self._room.let_go(start.characters)
        return start

    def _time_ns(self, text: str | None) -> int | None:
        if text is None:
            return None
        clock, _, fraction = text.partition(".")
        nanoseconds = int(fraction.ljust(9, "0")[:9]) if fraction else 0
        if ":" not in clock:
            return int(clock) * NS_PER_S + nanoseconds
        hours, minutes, seconds = map(int, clock.split(":"))
        of_day_ns = ((hours * 60 + minutes) * 60 + seconds) * NS_PER_S + nanoseconds
        if of_day_ns < self._last_of_day_ns - DAY_NS // 2:  # past midnight
            self._day_ns += DAY_NS
        self._last_of_day_ns = of_day_ns
        return self._day_ns + of_day_ns


def _result(text: str) -> int | None:
    if text == "?":
        return None
    try:
        return int(text, 0)
    except ValueError:
        return None


def number_of(text: str) -> int | None:
    """Parse a numeric argument, decimal or hexadecimal, perhaps followed by ``<notes>``."""
    try:
        return int(text.partition("<")[0], 0)
    except ValueError:
        return None


MOST_TASKS = 1 << 16  # some 700 bytes each
MOST_DESCRIPTORS = 1 << 19  # some 250 bytes each
MOST_CHARACTERS = 1 << 26  # of calls
A_CALL = 512  # takes as much memory as that many characters, besides its own
# A path, which strace prints with up to four characters a byte, leaves room before and after it.
_AT_EITHER_END = 1 << 14


def shortened(text: str) -> str:
    """What is kept of a call: of text that it moves, as in ``sendto(3, "...``, nothing is used."""
    if len(text) <= 2 * _AT_EITHER_END:
        return text
    return f"{text[:_AT_EITHER_END]}...{text[-_AT_EITHER_END:]}"


class Room:
    """A bound on the memory of the reader of the log ``name``; errors: ``TraceError``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._characters = 0
        self._added = 0  # descriptors, since those that are there were counted

    def keep(self, line: int, characters: int) -> None:
        """Add a call of ``line`` with that much text."""
        self._characters += A_CALL + characters
        if self._characters > MOST_CHARACTERS:
            self._refuse(line, f"calls that have not ended take over {MOST_CHARACTERS:,} bytes")

    def let_go(self, characters: int) -> None:
        """Subtract a call's text."""
        self._characters -= A_CALL + characters

    def tasks(self, line: int, count: int) -> None:
        """Return if ``count`` tasks at once are within the bound."""
        if count > MOST_TASKS:
            self._refuse(line, f"over {MOST_TASKS:,} tasks that have not ended")

    def descriptors(self, line: int, more: int, tables: Iterable[Collection[int]]) -> None:
        """Return if ``more`` descriptors may be added to those in ``tables``.

        Counting takes long, so it is done each time that many were added: twice as many may be
        there before it is noticed.
        """
        self._added += more
        if self._added <= MOST_DESCRIPTORS:
            return
        apart = {id(table): table for table in tables}.values()
        if more + sum(map(len, apart)) > MOST_DESCRIPTORS:
            self._refuse(line, f"over {MOST_DESCRIPTORS:,} descriptors that are not closed")
        self._added = more

    def _refuse(self, line: int, what: str) -> None:
        raise TraceError(
            f"{self._name}: line {line}: {what}; if this is a log of strace, record a "
            "shorter time or fewer processes"
        )
