"""strace logs whose buffers are printed as addresses (``-e raw=...``).

Socket calls with one buffer become requests; what a log cannot show is counted: strace prints no
address of a vector call's buffers.  A call stands where it began, so requests are sorted once the
whole log is read: 53 bytes of memory for each.  Kept while reading are tasks that have not ended,
their descriptors, and calls that were interrupted or whose task's maker has not returned.  A
descriptor is a socket, or something else, from the call that makes it until it is closed; what was
there before the log begins, or is made by a call that the log leaves out, is not known.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.traces.files import ByteSource, Watch
from nicscope.traces.imported import Choices, Imported, filled, numbered
from nicscope.traces.schema import Op, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from nicscope.inputs import Input

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


F_DUPFD = ("F_DUPFD", "0")
F_DUPFD_CLOEXEC = ("F_DUPFD_CLOEXEC", "0x406")
F_SETFD = ("F_SETFD", "0x2")
SOCK_CLOEXEC = O_CLOEXEC = 0o2000000
CLOSE_RANGE_CLOEXEC = 4
CLONE_FILES, CLONE_THREAD = 0x400, 0x10000

ACCEPTING = frozenset({"accept", "accept4"})
# Calls that only a socket answers: whoever returns well from them has one, known or not.
NAMING_CALLS = frozenset(
    {"bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "setsockopt"}
)
MOVING_CALLS = frozenset(
    {"recv", "recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto"}
)
SOCKET_CALLS = ACCEPTING | NAMING_CALLS | MOVING_CALLS | {"shutdown"}
# Failures of these calls that come after the kernel has found a socket.
OF_SOCKETS = frozenset(
    {
        "EADDRINUSE", "EADDRNOTAVAIL", "EAGAIN", "EALREADY", "ECONNREFUSED", "ECONNRESET",
        "EDESTADDRREQ", "EHOSTUNREACH", "EINPROGRESS", "EISCONN", "EMSGSIZE", "ENETUNREACH",
        "ENOTCONN", "EOPNOTSUPP", "EPIPE", "ETIMEDOUT",
    }
)  # fmt: skip
# Calls that no socket answers well.
FILE_CALLS = frozenset(
    {"fdatasync", "fsync", "ftruncate", "getdents", "getdents64", "lseek", "pread64", "pwrite64"}
)
# Calls that return the number of something that is no socket.
MAKING_FILES = frozenset(
    {
        "creat", "epoll_create", "epoll_create1", "eventfd", "eventfd2", "fanotify_init",
        "inotify_init", "inotify_init1", "memfd_create", "mq_open", "open", "openat", "openat2",
        "perf_event_open", "pidfd_open", "signalfd", "signalfd4", "timerfd_create",
    }
)  # fmt: skip
MAKING_PAIRS = frozenset({"pipe", "pipe2", "socketpair"})
CLOSING = frozenset({"close", "close_range"})
SOCKET_NOTES = ("TCP", "UDP", "UNIX", "NETLINK", "RAW", "PING", "SCTP", "DCCP", "socket:", "VSOCK")
CREATING_TASKS = frozenset({"clone", "clone3", "fork", "vfork"})

_DESCRIPTOR = re.compile(r"(0x[0-9a-f]{1,8}|\d{1,9})(?:<(.*?)>)?(?:,|\)|$|\s)")
_PAIR = re.compile(r"\[(\d{1,9})(?:<.*?>)?, (\d{1,9})(?:<.*?>)?\]")


class File:
    """What a descriptor refers to."""

    __slots__ = ("closes", "followed", "is_socket")

    def __init__(self, is_socket: bool, closes: bool = False) -> None:
        self.is_socket = is_socket
        self.closes = closes  # on exec
        # Requests that were taken for a socket's since the log last proved that it is one.
        self.followed = array("q")


class Descriptors:
    """The known descriptors of a process."""

    def __init__(self, doubted: array[int], files: dict[int, File] | None = None) -> None:
        """Add to ``doubted`` the requests that were not a socket's, as it turns out."""
        self.files = dict(files or {})
        self.doubted = doubted

    def copy(self) -> Descriptors:
        """A copy for a forked child."""
        files = {n: File(file.is_socket, file.closes) for n, file in self.files.items()}
        return Descriptors(self.doubted, files)

    def is_socket(self, arguments: str) -> tuple[bool | None, File | None]:
        """Whether the first argument is a socket; None if that is not known.

        And the descriptor by which it was followed here, if strace made no note of it.
        """
        match = _DESCRIPTOR.match(arguments)
        if match is None:
            return None, None
        if match[2] is not None:
            return match[2].startswith(SOCKET_NOTES), None
        number = number_of(match[1])
        file = None if number is None else self.files.get(number)
        return (None, None) if file is None else (file.is_socket, file)

    def begin(self, name: str, arguments: str) -> None:
        """Apply a call that takes effect at its entry: others may reuse the number at once."""
        if name == "close":
            number = number_of(arguments.partition(",")[0])
            if number is not None:
                self.files.pop(number, None)

    def end(self, call: Call) -> None:
        """Apply the effect of a call that returned."""
        result = call.result
        name, words = call.name, call.arguments.split(", ")
        first = number_of(words[0])
        self._look(call, first)
        if result is None or result < 0:
            return
        if name == "socket":
            self._made(result, File(True, _says(words[1:2], "SOCK_CLOEXEC", SOCK_CLOEXEC)))
        elif name in ACCEPTING:
            self._made(result, File(True, _says(words[3:4], "SOCK_CLOEXEC", SOCK_CLOEXEC)))
        elif name in MAKING_FILES:
            self._made(result, File(False, "CLOEXEC" in call.arguments))
        elif name in MAKING_PAIRS:
            self._make_pair(name, call.arguments)
        elif name in ("dup", "dup2", "dup3") and first is not None:
            self._duplicate(first, result, _says(words[2:3], "O_CLOEXEC", O_CLOEXEC), name != "dup")
        elif name == "fcntl" and first is not None and len(words) > 1:
            self._control(first, words, result)
        elif name == "close_range" and first is not None and len(words) > 1:
            self._close_range(first, words)
        elif name == "execve":
            self.files = {n: file for n, file in self.files.items() if not file.closes}

    def _look(self, call: Call, first: int | None) -> None:
        """Classify the first argument by the call that uses it."""
        if first is None or call.result is None or call.name in CLOSING:
            return
        note = _DESCRIPTOR.match(call.arguments) if "<" in call.arguments[:12] else None
        if note is not None and note[2] is not None:
            self._seen(first, note[2].startswith(SOCKET_NOTES))
        elif call.name in SOCKET_CALLS:
            if call.result >= 0 or call.error in OF_SOCKETS:
                self._seen(first, True)
            elif call.error == "ENOTSOCK":
                self._seen(first, False)
        elif call.name in FILE_CALLS and call.result >= 0:
            self._seen(first, False)

    def _seen(self, number: int, is_socket: bool) -> None:
        file = self.files.get(number)
        if file is None or file.is_socket != is_socket:
            # Somebody has closed it, which the log does not show.
            self._made(number, File(is_socket))
        else:
            del file.followed[:]

    def _made(self, number: int, file: File) -> None:
        """Bind ``number`` to ``file``, replacing an entry that should not exist."""
        before = self.files.get(number)
        if before is not None:
            self.doubted.extend(before.followed)
        self.files[number] = file

    def _make_pair(self, name: str, arguments: str) -> None:
        match = _PAIR.search(arguments)
        if match is not None:
            closes = "CLOEXEC" in arguments
            for number in (int(match[1]), int(match[2])):
                self._made(number, File(name == "socketpair", closes))

    def _duplicate(self, old: int, new: int, closes: bool, over: bool) -> None:
        if old == new:
            return
        if over:  # closes what was there
            self.files.pop(new, None)
        file = self.files.get(old)
        if file is not None:
            self._made(new, File(file.is_socket, closes))
        elif new in self.files:
            self.doubted.extend(self.files.pop(new).followed)

    def _control(self, number: int, words: list[str], result: int) -> None:
        if words[1] in F_DUPFD + F_DUPFD_CLOEXEC:
            self._duplicate(number, result, words[1] in F_DUPFD_CLOEXEC, over=False)
        elif words[1] in F_SETFD and number in self.files:
            self.files[number].closes = words[2:3] in (["FD_CLOEXEC"], ["1"], ["0x1"])

    def _close_range(self, first: int, words: list[str]) -> None:
        last = number_of(words[1])
        on_exec = _says(words[2:3], "CLOSE_RANGE_CLOEXEC", CLOSE_RANGE_CLOEXEC)
        for number in [n for n in self.files if first <= n and (last is None or n <= last)]:
            if on_exec:
                self.files[number].closes = True
            else:
                del self.files[number]


def shares(call_name: str, arguments: str) -> tuple[bool, bool]:
    """Whether a clone call shares the descriptor table, and the process.

    Raw ``clone3`` hides its flags behind a pointer; the C library makes threads with it.
    """
    if call_name in ("fork", "vfork"):
        return False, False
    flags = re.search(r"flags=([^,})]*)", arguments)
    if flags is None:
        raw = number_of(arguments.partition(",")[0])
        if call_name == "clone3" or raw is None:
            return True, True
        return bool(raw & CLONE_FILES), bool(raw & CLONE_THREAD)
    thread = "CLONE_THREAD" in flags[1]
    return thread or "CLONE_FILES" in flags[1], thread


def _says(word: list[str], name: str, bit: int) -> bool:
    """Whether flags, by name or raw, include that bit."""
    if not word:
        return False
    raw = number_of(word[0])
    return name in word[0] if raw is None else bool(raw & bit)


SCALAR_CALLS = {
    "read": Op.RECV,
    "recv": Op.RECV,
    "recvfrom": Op.RECV,
    "write": Op.SEND,
    "send": Op.SEND,
    "sendto": Op.SEND,
}
SCALAR_NAMES = list(SCALAR_CALLS)
VECTOR_CALLS = frozenset(
    {"readv", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "writev", "preadv2", "pwritev2"}
)
WITHOUT_BUFFER = frozenset({"io_uring_enter", "sendfile", "sendfile64", "splice"})
HOW_TO_RECORD = (
    "record with 'strace -f -ttt -e raw=read,write,recvfrom,sendto -o LOG COMMAND' or with "
    "'nicscope record'"
)
HOW_TO_KNOW = (
    "the log does not show what they are; record with strace without '-e trace', or with '-e "
    "trace=%desc,%network,%process', or with 'nicscope record'"
)
BATCH_ROWS = 1 << 17
FIRST_TASK = -1  # stands for the one task of a log that does not name it


class Task(NamedTuple):
    """A thread: its process, and the descriptor table that it may share."""

    process: int
    descriptors: Descriptors


class _Rows:
    """Requests in the order in which their calls returned."""

    def __init__(self) -> None:
        self.time_ns = array("q")
        self.address = array("Q")
        self.process = array("i")
        self.task = array("i")
        self.length = array("I")
        self.posted = array("I")
        self.line = array("q")
        self.call = array("b")
        self.followed = array("b")  # 1 where only the calls before say that it is a socket


class _Log:
    """Tracks tasks and descriptors through a log and collects socket requests."""

    def __init__(self, name: str, room: Room) -> None:
        self.rows = _Rows()
        self.counts: Counter[str] = Counter()
        self.vector_calls: Counter[str] = Counter()
        self.calls_without_buffer: Counter[str] = Counter()
        self._followed_vectors: Counter[str] = Counter()
        self._doubted = array("q")
        self._closings = 0
        self._unreadable: TraceError | None = None
        self.first_number: int | None = None  # of FIRST_TASK, once the log says it
        self._name = name
        self._room = room
        self._line = 0
        self._tasks: dict[int, Task] = {}
        self._creating: dict[int, tuple[bool, bool]] = {}  # what makers share with their children
        self._early: dict[int, deque[Call | Start | Exit]] = {}
        self._released: list[tuple[int, deque[Call | Start | Exit]]] = []

    def take(self, event: Call | Start | Exit) -> None:
        """Process the next event; events of an unknown task wait until its clone call returns."""
        self._line = event.line
        self._room.tasks(event.line, len(self._tasks) + len(self._early))
        number = self._only_task() if event.task is None else event.task
        makes_task = isinstance(event, Call) and event.name in CREATING_TASKS
        if number not in self._tasks and makes_task and FIRST_TASK in self._creating:
            self._task(number)  # the unnumbered one, which has made a second and has a number now
        if number in self._early or (number not in self._tasks and self._creating):
            self._room.keep(event.line, event.characters)
            self._early.setdefault(number, deque()).append(event)
        else:
            self._handle(number, event)

    def finish(self) -> NDArray[np.int64]:
        """The rows whose descriptor is certainly a socket; the others are counted.

        Takes in what still waits for a maker that never returned.  Errors: ``TraceError`` for a
        socket's call whose buffer is not shown as an address.
        """
        for maker in list(self._creating):
            self._resolve_unreturned_clones(maker)
        for number in list(self._early):
            self._release(number)
        # A number can be followed only where the log shows when it is closed: then all closing is
        # in it, for ``strace`` leaves out calls by their names.
        doubtful = np.frombuffer(self.rows.followed, np.int8).copy()
        if self._unreadable is not None and (self._closings or doubtful.all()):
            raise self._unreadable
        if self._closings:
            doubtful[:] = 0
            doubtful[np.frombuffer(self._doubted, np.int64)] = 1
            self.vector_calls += self._followed_vectors
        else:
            self.counts["calls_on_unknown_descriptors"] += self._followed_vectors.total()
        self.counts["calls_on_unknown_descriptors"] += int(doubtful.sum())
        return np.flatnonzero(doubtful == 0)

    def _resolve_unreturned_clones(self, maker: int) -> None:
        """Treat waiting tasks as children of a clone call that will not return."""
        shared = self._creating.pop(maker, None)
        if shared is None or self._creating:
            return
        for number in list(self._early):
            self._create(maker, shared, number)
            self._release(number)

    def _only_task(self) -> int:
        """The number of the single task, which the log omits while there is only one."""
        if len(self._tasks) == 1:
            return next(iter(self._tasks))
        return FIRST_TASK if self.first_number is None else self.first_number

    def _task(self, number: int) -> Task:
        if number not in self._tasks:
            # The first task of all, or one that was there before the log began.
            first = self._tasks.pop(FIRST_TASK, None)
            if first is not None:
                self.first_number = number
            if FIRST_TASK in self._creating:
                self._creating[number] = self._creating.pop(FIRST_TASK)
            self._tasks[number] = first or Task(number, Descriptors(self._doubted))
        return self._tasks[number]

    def _handle(self, number: int, event: Call | Start | Exit) -> None:
        task = self._task(number)
        self._closings += not isinstance(event, Exit) and event.name in CLOSING
        if isinstance(event, Exit):
            self._resolve_unreturned_clones(number)
            del self._tasks[number]
        elif isinstance(event, Start):
            if event.name in CREATING_TASKS:
                self._creating[number] = shares(event.name, event.arguments)
            task.descriptors.begin(event.name, event.arguments)
        else:
            self._handle_call(number, task, event)

    def _handle_call(self, number: int, task: Task, call: Call) -> None:
        if call.name in CREATING_TASKS:
            self._creating.pop(number, None)
            if call.result is not None and 0 < call.result < 1 << 31:
                self._create(number, shares(call.name, call.arguments), call.result)
                self._release(call.result)
            return
        if call.name in SCALAR_CALLS:
            self._transfer(number, task, call)
        elif call.name in VECTOR_CALLS:
            file = self._moved(task, call)
            if file is not None:
                counts = self._followed_vectors if isinstance(file, File) else self.vector_calls
                counts[call.name] += 1
        elif call.name in WITHOUT_BUFFER:
            self.calls_without_buffer[call.name] += bool(call.result and call.result > 0)
        if call.name == "execve" and call.result == 0:
            # A program that starts shares its descriptors with nobody.
            task = Task(task.process, self._copied(task.descriptors))
            self._tasks[number] = task
        if not call.interrupted:
            task.descriptors.begin(call.name, call.arguments)
        before = len(task.descriptors.files)
        task.descriptors.end(call)
        self._make_room(max(0, len(task.descriptors.files) - before))

    def _create(self, maker: int, shared: tuple[bool, bool], number: int) -> None:
        parent = self._task(maker)
        same_descriptors, same_process = shared
        self._tasks[number] = Task(
            parent.process if same_process else number,
            parent.descriptors if same_descriptors else self._copied(parent.descriptors),
        )

    def _copied(self, descriptors: Descriptors) -> Descriptors:
        self._make_room(len(descriptors.files))
        return descriptors.copy()

    def _make_room(self, more: int) -> None:
        tables = (task.descriptors.files for task in self._tasks.values())
        self._room.descriptors(self._line, more, tables)

    def _release(self, number: int) -> None:
        """Process the events that waited for ``number``, and those of tasks that it creates."""
        self._released.append((number, self._early.pop(number, deque())))
        if len(self._released) > 1:
            return  # those below are at it
        while self._released:
            maker, events = self._released[-1]
            if events:
                event = events.popleft()
                self._room.let_go(event.characters)
                self._handle(maker, event)
            else:
                self._released.pop()

    def _moved(self, task: Task, call: Call) -> File | bool | None:
        """Whether a call moved bytes through a socket; if not, counts it and returns None.

        The socket's entry if only following it says that it is one, else True.
        """
        is_socket, file = task.descriptors.is_socket(call.arguments)
        if call.name in SOCKET_CALLS:
            is_socket, file = True, None
        if is_socket is None:
            self.counts["calls_on_unknown_descriptors"] += 1
        elif not is_socket:
            self.counts["calls_on_other_files"] += 1
        elif call.result is None:
            self.counts["socket_calls_that_never_returned"] += 1
        elif call.result < 0:
            self.counts["socket_calls_that_failed"] += 1
        elif call.result == 0:
            self.counts["socket_calls_that_moved_nothing"] += 1
        else:
            return file or True
        return None

    def _transfer(self, number: int, task: Task, call: Call) -> None:
        file = self._moved(task, call)
        if file is None:
            return
        try:
            self._add(number, task, call)
        except TraceError as error:
            if not isinstance(file, File):
                raise
            # It may be a file, if the log shows no closing.
            self._unreadable = self._unreadable or error
            return
        self.rows.followed.append(isinstance(file, File))
        if isinstance(file, File):
            file.followed.append(len(self.rows.line) - 1)

    def _add(self, number: int, task: Task, call: Call) -> None:
        words = call.arguments.split(", ", 3)
        shown = words[1] if len(words) > 1 else ""
        address = number_of(shown) or 0
        if shown.startswith(('"', "[", "{")):
            raise TraceError(
                f"{self._name}: line {call.line}: {call.name} shows its buffer as text, not as an "
                f"address; {HOW_TO_RECORD}"
            )
        posted = (number_of(words[2]) or 0) if len(words) > 2 else 0
        if not (0 < address < 1 << 64 and 0 < posted < 1 << 63):
            raise TraceError(
                f"{self._name}: line {call.line}: {call.name}({call.arguments[:60]}) has no "
                f"address and length as second and third argument; {HOW_TO_RECORD}"
            )
        if (call.time_ns or 0) >= 1 << 63:
            raise TraceError(f"{self._name}: line {call.line}: its time is out of range")
        rows = self.rows
        rows.time_ns.append(call.time_ns or 0)
        rows.address.append(address)
        rows.process.append(task.process)
        rows.task.append(number)
        # A datagram cut short may report more than its buffer took.
        rows.length.append(min(call.result or 0, posted, 0xFFFFFFFF))
        rows.posted.append(min(posted, 0xFFFFFFFF))
        rows.line.append(call.line)
        rows.call.append(SCALAR_NAMES.index(call.name))


def read_strace(
    source: Input, choices: Choices, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """Socket requests of a strace log, times counted from the first; extra columns as recorded.

    Errors: ``TraceError`` if the log is none, or naming the line whose buffer is not shown as an
    address.
    """
    room = Room(source.name)
    log, reader = _Log(source.name, room), LineReader(room)
    for event in reader.events(ByteSource(source, watch).lines()):
        log.take(event)
    certain = log.finish()
    if not reader.recognised:
        raise TraceError(
            f"{source.name}: no line of a strace log found; say what it is with --from"
        )
    metadata.origin["importer"] = "strace"
    metadata.observed.update(
        requests=certain.size,
        vector_calls_unseen=dict(log.vector_calls),
        calls_without_user_buffer=dict(log.calls_without_buffer),
        calls_that_never_returned=reader.never_returned,
        lines_not_understood=reader.other_lines,
        **{name: count for name, count in log.counts.items() if count},
    )
    unknown = log.counts["calls_on_unknown_descriptors"]
    if not certain.size:
        raise TraceError(
            f"{source.name}: no socket call whose buffer is shown as an address "
            f"({log.vector_calls.total()} vector calls, which strace cannot show; {unknown} calls "
            f"on unknown descriptors: {HOW_TO_KNOW}); {HOW_TO_RECORD}"
        )
    if unknown:
        metadata.observed["of_unknown_descriptors"] = HOW_TO_KNOW
    first_pid = choices.pid if log.first_number is None else log.first_number
    yield from _batches(log.rows, certain, choices.node, first_pid, metadata)


def _batches(
    rows: _Rows,
    certain: NDArray[np.int64],
    node: int,
    first_pid: int,
    metadata: TraceMetadata,
) -> Iterator[Imported]:
    time_ns = np.frombuffer(rows.time_ns, np.int64)
    order = certain[np.argsort(time_ns[certain], kind="stable")]
    start_ns = int(time_ns[order[0]])
    metadata.origin["started_at_ns"] = start_ns
    names = pa.array(SCALAR_NAMES)
    op_of_call = np.array(list(SCALAR_CALLS.values()), np.uint8)
    for first in range(0, order.size, BATCH_ROWS):
        chosen = order[first : first + BATCH_ROWS]

        def column(values: Any, kind: Any, chosen: Any = chosen) -> Any:
            return np.frombuffer(values, kind)[chosen]

        calls = column(rows.call, np.int8)
        lines = column(rows.line, np.int64)
        process, task = column(rows.process, np.int32), column(rows.task, np.int32)
        columns = {
            "time_ns": time_ns[chosen] - start_ns,
            "node": filled(node, chosen.size, np.int32),
            "pid": np.where(process == FIRST_TASK, np.int32(first_pid), process),
            "op": op_of_call[calls],
            "address": column(rows.address, np.uint64),
            "length": column(rows.length, np.uint32),
            "posted": column(rows.posted, np.uint32),
            "tid": np.where(task == FIRST_TASK, np.int32(first_pid), task),
            "syscall": pa.DictionaryArray.from_arrays(pa.array(calls), names),
        }
        yield Imported(columns, numbered("line {}", lines))
