"""strace logs whose buffers are printed as addresses (``-e raw=...``).

Socket calls with one buffer become requests; what a log cannot show is counted: strace prints no
address of a vector call's buffers.  A call stands where it began, so requests are sorted once the
whole log is read: 53 bytes of memory for each.
"""

from __future__ import annotations

import array
import functools
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.traces.files import ByteSource
from nicscope.traces.imported import Imported, filled
from nicscope.traces.importers.strace_descriptors import (
    CLOSING,
    CREATING_TASKS,
    SOCKET_CALLS,
    Descriptors,
    File,
    shares,
)
from nicscope.traces.importers.strace_lines import Call, Exit, LineReader, Room, Start, number_of
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import TraceMetadata

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
        self.time_ns = array.array("q")
        self.address = array.array("Q")
        self.process = array.array("i")
        self.task = array.array("i")
        self.length = array.array("I")
        self.posted = array.array("I")
        self.line = array.array("q")
        self.call = array.array("b")
        self.followed = array.array("b")  # 1 where only the calls before say that it is a socket


class _Log:
    """Tracks tasks and descriptors through a log and collects socket requests."""

    def __init__(self, name: str, room: Room) -> None:
        self.rows = _Rows()
        self.counts: Counter[str] = Counter()
        self.vector_calls: Counter[str] = Counter()
        self.calls_without_buffer: Counter[str] = Counter()
        self._followed_vectors: Counter[str] = Counter()
        self._doubted = array.array("q")
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
        if number not in self._tasks and self._is_first_clone_parent(event):
            self._task(number)
        if number in self._early or (number not in self._tasks and self._creating):
            self._room.keep(event.line, event.characters)
            self._early.setdefault(number, deque()).append(event)
        else:
            self._handle(number, event)

    def finish(self) -> NDArray[np.int64]:
        """The rows whose descriptor is certainly a socket.

        Takes in what still waits for a maker that never returned.  Errors: ``TraceError`` for a
        socket's call whose buffer is not shown as an address.
        """
        for maker in list(self._creating):
            self._resolve_unreturned_clones(maker)
        for number in list(self._early):
            self._release(number)
        return self._certain()

    def _certain(self) -> NDArray[np.int64]:
        """Rows of what is shown to be a socket; the others are counted.

        A number can be followed only where the log shows when it is closed: then all closing is
        in it, for ``strace`` leaves out calls by their names.
        """
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

    def _is_first_clone_parent(self, event: Call | Start | Exit) -> bool:
        """Whether the single, unnumbered task has cloned a second one and now has a number."""
        return (
            isinstance(event, Call)
            and event.name in CREATING_TASKS
            and FIRST_TASK in self._creating
        )

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
        yield Imported(columns, functools.partial(_place, lines))


def _place(lines: NDArray[np.int64], row: int) -> str:
    return f"line {lines[row]}"
