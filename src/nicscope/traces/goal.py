"""Schedules in GOAL's text, the group operation assembly language of LogGOPSim and ATLAHS."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import re
from array import array
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError, printable
from nicscope.outputs import whole_file
from nicscope.outputs.file import named_compression
from nicscope.traces.files import ByteSource, Watch
from nicscope.traces.imported import Choices
from nicscope.traces.programs.reader import check_program
from nicscope.traces.programs.schema import (
    LIST_COLUMNS,
    NOBODY,
    Lists,
    Operation,
    Others,
    ProgramMetadata,
    ProgramTrace,
    Waits,
    WaitsOfRows,
    places_of_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.outputs.target import Sink


CALC, SEND, RECV = 0, 1, 2
ANY = -1  # source or tag
MOST_RANKS = 1 << 20
LARGEST_TAG = (1 << 32) - 1
LONGEST = (1 << 32) - 1  # bytes of a message
LONGEST_CALC = (1 << 53) - 1  # ns
_SHOWN = 60  # characters of a line in a message

_OPERATION = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9_]*)\s*:\s*)?"
    r"(?:calc\s*(\d{1,19})|send\s*(\d{1,19})\s*b\s*to\s*(\d{1,9})"
    r"|recv\s*(\d{1,19})\s*b\s*from\s*(\d{1,9}|-1))"
    r"(?:\s*tag\s*(\d{1,10}|-1))?(?:\s*cpu\s*(\d{1,9}))?(?:\s*nic\s*(\d{1,9}))?",
    re.ASCII,
)
_REQUIREMENT = re.compile(r"([A-Za-z][A-Za-z0-9_]*)\s+(i?)requires\s+([A-Za-z][A-Za-z0-9_]*)")
_RANKS = re.compile(r"num_ranks\s*(\d{1,9})", re.ASCII)
_RANK = re.compile(r"rank\s*(\d{1,9})\s*\{", re.ASCII)


class Rank(NamedTuple):
    """One rank: columns of its operations, and pairs of dependent and dependency."""

    number: int
    ranks: int  # of the schedule
    kind: NDArray[np.uint8]
    size: NDArray[np.uint64]  # bytes; of a CALC nanoseconds
    peer: NDArray[np.int32]
    tag: NDArray[np.int64]
    line: NDArray[np.int64]  # where each stands
    requires: NDArray[np.uint32]  # pairs: an operation, and one that has to have ended
    irequires: NDArray[np.uint32]  # pairs: an operation, and one that has to have begun
    are_placed: bool  # on several CPUs or NICs


def ranks_of(source: ByteSource) -> Iterator[Rank]:
    """Yield each rank once its closing bracket is read.

    Errors: ``TraceError`` naming the first line that is no GOAL.
    """
    parser = _Parser(source.name)
    for number, line in _without_comments(source):
        found = parser.take(number, line)
        if found is not None:
            yield found
    parser.finish()


def _without_comments(source: ByteSource) -> Iterator[tuple[int, str]]:
    """Lines with comments and surrounding blanks removed, empty ones skipped."""
    is_within = False
    for number, line in source.lines():
        if "/" in line or is_within:
            line, is_within = _cut(line, is_within)
        line = line.strip()
        if line:
            yield number, line
    if is_within:
        raise TraceError(f"{source.name}: ends within a comment; close it with */")


def _cut(line: str, is_within: bool) -> tuple[str, bool]:
    """A line without comments, and whether a comment continues after it."""
    kept = ""
    while line:
        if is_within:
            _, end, line = line.partition("*/")
            is_within = not end
        else:
            at = min((p for p in (line.find("//"), line.find("/*")) if p >= 0), default=len(line))
            kept += line[:at] + " "
            is_within = line.startswith("/*", at)
            line = line[at + 2 :] if is_within else ""
    return kept, is_within


class _Parser:
    """Parses lines; returns a rank when it is complete."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ranks: int | None = None
        self._seen: set[int] = set()
        self._rank: int | None = None
        self._begin(0)

    def _begin(self, line: int) -> None:
        self._opened = line
        self._labels: dict[str, int] = {}
        self._kind, self._size, self._peer = array("B"), array("Q"), array("i")
        self._tag, self._line = array("q"), array("q")
        self._requires, self._irequires = array("I"), array("I")
        self._later: list[tuple[str, str, str, int]] = []  # with labels that may come yet
        self._are_placed = False

    def _error(self, line: int, what: str) -> TraceError:
        return TraceError(f"{self._name}: line {line}: {what}")

    def take(self, number: int, line: str) -> Rank | None:
        """Parse a line; returns the rank that it closes, if any."""
        if self._rank is None:
            self._outside(number, line)
            return None
        found = _OPERATION.fullmatch(line)
        if found is not None:
            self._operation(number, found)
            return None
        wanted = _REQUIREMENT.fullmatch(line)
        if wanted is not None:
            self._requirement(number, *wanted.groups())
            return None
        if line == "}":
            return self._close()
        raise self._error(
            number,
            f"{printable(line[:_SHOWN])!r} is no operation; there are 'calc 100', "
            "'send 8b to 1 tag 0', 'recv 8b from 1 tag 0', 'l2 requires l1' and 'l2 irequires l1'",
        )

    def _outside(self, number: int, line: str) -> None:
        ranks, rank = _RANKS.fullmatch(line), _RANK.fullmatch(line)
        if ranks is not None and self._ranks is None:
            self._ranks = int(ranks[1])
            if not 1 <= self._ranks <= MOST_RANKS:
                raise self._error(number, f"num_ranks must be from 1 to {MOST_RANKS:,}")
        elif rank is not None and self._ranks is not None:
            self._rank = int(rank[1])
            if self._rank >= self._ranks:
                raise self._error(number, f"rank {self._rank} is none of num_ranks {self._ranks}")
            if self._rank in self._seen:
                raise self._error(number, f"rank {self._rank} is there a second time")
            self._seen.add(self._rank)
            self._begin(number)
        else:
            wanted = "num_ranks N" if self._ranks is None else "rank N {"
            raise self._error(number, f"{printable(line[:_SHOWN])!r} is not {wanted!r}")

    def _operation(self, number: int, found: re.Match[str]) -> None:
        label, calc, sent, to, received, source, tag, cpu, nic = found.groups()
        kind, size, peer = CALC, calc, str(ANY)
        if sent is not None:
            kind, size, peer = SEND, sent, to
        elif received is not None:
            kind, size, peer = RECV, received, source
        self._check(number, kind, int(size), int(peer), int(tag or 0))
        if label is not None:
            if label in self._labels:
                raise self._error(number, f"label {label!r} is there a second time in its rank")
            self._labels[label] = len(self._kind)
        self._kind.append(kind)
        self._size.append(int(size))
        self._peer.append(int(peer))
        self._tag.append(int(tag or 0))
        self._line.append(number)
        if (cpu or "0") != "0" or (nic or "0") != "0":
            self._are_placed = True

    def _check(self, number: int, kind: int, size: int, peer: int, tag: int) -> None:
        if kind == CALC:
            if size > LONGEST_CALC:
                raise self._error(number, f"calc {size} is longer than 2^53 ns")
            return
        assert self._ranks is not None
        if size > LONGEST:
            raise self._error(number, f"a message of {size} bytes is longer than 2^32 - 1")
        if peer >= self._ranks:
            raise self._error(number, f"rank {peer} is none of num_ranks {self._ranks}")
        if tag > LARGEST_TAG or (tag == ANY and kind == SEND):
            raise self._error(number, f"tag {tag} must be from 0 to 2^32 - 1")

    def _requirement(self, number: int, who: str, begun: str, whom: str) -> None:
        one, other = self._labels.get(who), self._labels.get(whom)
        if one is None or other is None:
            self._later.append((who, begun, whom, number))
        else:
            (self._irequires if begun else self._requires).extend((one, other))

    def _close(self) -> Rank:
        for who, begun, whom, number in self._later:
            for label in (who, whom):
                if label not in self._labels:
                    raise self._error(number, f"no operation of its rank has the label {label!r}")
            pair = self._labels[who], self._labels[whom]
            (self._irequires if begun else self._requires).extend(pair)
        assert self._rank is not None
        assert self._ranks is not None
        number, self._rank = self._rank, None
        return Rank(
            number,
            self._ranks,
            np.array(self._kind, np.uint8),
            np.array(self._size, np.uint64),
            np.array(self._peer, np.int32),
            np.array(self._tag, np.int64),
            np.array(self._line, np.int64),
            np.array(self._requires, np.uint32).reshape(-1, 2),
            np.array(self._irequires, np.uint32).reshape(-1, 2),
            self._are_placed,
        )

    def finish(self) -> None:
        """Errors: ``TraceError`` if a rank is open, or missing."""
        if self._rank is not None:
            raise TraceError(
                f"{self._name}: ends within rank {self._rank}, which line {self._opened} opens"
            )
        if self._ranks is None:
            raise TraceError(f"{self._name}: no 'num_ranks N'; is it GOAL's text?")


BASE = 1 << 32  # address of every rank's first byte
LINE = 64  # bytes: each buffer begins with a line of the cache
_OPERATIONS = {CALC: Operation.COMPUTE, SEND: Operation.SEND, RECV: Operation.RECEIVE}


def read_goal(
    source: Input, choices: Choices | None = None, watch: Watch | None = None
) -> ProgramTrace:
    """The program trace of a schedule in GOAL's text.

    Errors: ``TraceError`` for a line that is no GOAL, operations that require each other, or
    nothing to do.
    """
    choices = choices or Choices()
    found: dict[int, _Rows] = {}
    ranks = 0
    are_placed = False
    for rank in ranks_of(ByteSource(source, watch)):
        ranks = rank.ranks
        are_placed |= rank.are_placed
        found[rank.number] = _rows_of(rank, source.name)
    if not ranks:
        raise TraceError(f"{source.name}: holds no operations; record or convert it again")
    none: Any = np.empty(0, np.int64)
    pairs: Any = np.empty((0, 2), np.uint32)
    absent = Rank(0, ranks, none, none, none, none, none, pairs, pairs, False)  # does nothing
    rows = [found.get(number) or _rows_of(absent, source.name) for number in range(ranks)]
    longest = max((int(each.length.max()) for each in rows if len(each.length)), default=0)
    pool = max(choices.rank_pool_bytes, -(-longest // LINE) * LINE)
    metadata = ProgramMetadata(
        nodes_of_processes=[rank // choices.ranks_per_node for rank in range(ranks)],
        base=BASE,
        memory_bytes=2 * pool,
        left_out=["on which CPU and NIC of its rank an operation runs"] if are_placed else [],
        assumed={
            "buffers": "those of messages follow each other through a pool of the rank's, from its "
            "begin on again when one does not fit; each begins with a line of the cache",
            "send_pool_bytes": pool,
            "receive_pool_bytes": pool,
            "line_bytes": LINE,
            "ranks_per_node": choices.ranks_per_node,
        },
        origin={"format": "GOAL", "file": printable(Path(source.name).name)},
    )
    trace = _joined(metadata, rows, pool)
    check_program(trace, source.name)
    return trace


class _Rows(NamedTuple):
    """A rank's operations, sorted so that dependencies come first."""

    operation: NDArray[np.uint8]
    peer: NDArray[np.int32]
    length: NDArray[np.uint32]
    name: NDArray[np.int64]
    duration_ns: NDArray[np.uint64]
    after: Waits
    after_start: Waits


def _rows_of(rank: Rank, source: str) -> _Rows:
    order = _order(rank, source)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    kind, size = rank.kind[order], rank.size[order]
    moves = kind != CALC
    return _Rows(
        np.array([_OPERATIONS[code] for code in range(3)], np.uint8)[kind],
        np.where(moves, rank.peer[order], NOBODY).astype(np.int32),
        np.where(moves, size, 0).astype(np.uint32),
        np.where(moves, rank.tag[order], 0),
        np.where(moves, 0, size).astype(np.uint64),
        _waits(rank.requires, place),
        _waits(rank.irequires, place),
    )


def _waits(pairs: NDArray[np.uint32], place: NDArray[np.int64]) -> Waits:
    first = np.zeros(len(place) + 1, np.int64)
    if not len(pairs):
        return Waits(first, np.empty(0, np.uint32))
    who, whom = np.unique(place[pairs], axis=0).T
    np.cumsum(np.bincount(who, minlength=len(place)), out=first[1:])
    return Waits(first, whom.astype(np.uint32))


def _order(rank: Rank, source: str) -> NDArray[np.int64]:
    """A topological order of a rank's operations; the order of the file where that is one."""
    pairs = np.concatenate([rank.requires, rank.irequires]).astype(np.int64)
    many = len(rank.kind)
    if not (pairs[:, 0] <= pairs[:, 1]).any():
        return np.arange(many)
    by_required = pairs[np.argsort(pairs[:, 1], kind="stable")]
    begins = np.searchsorted(by_required[:, 1], np.arange(many + 1)).tolist()
    waiting = np.bincount(pairs[:, 0], minlength=many).tolist()
    who = by_required[:, 0].tolist()
    ready = [operation for operation in range(many) if not waiting[operation]]
    order: list[int] = []
    heapq.heapify(ready)
    while ready:
        operation = heapq.heappop(ready)
        order.append(operation)
        for each in who[begins[operation] : begins[operation + 1]]:
            waiting[each] -= 1
            if not waiting[each]:
                heapq.heappush(ready, each)
    if len(order) < many:
        stuck = next(operation for operation in range(many) if waiting[operation])
        raise TraceError(
            f"{source}: line {rank.line[stuck]}: rank {rank.number}: this operation requires "
            "itself, by way of what it requires"
        )
    return np.array(order, np.int64)


def _joined(metadata: ProgramMetadata, rows: list[_Rows], pool: int) -> ProgramTrace:
    first = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(each.operation) for each in rows], out=first[1:])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in rows])
        for name in ("operation", "peer", "length", "name", "duration_ns")
    }
    columns["address"] = np.concatenate([_addresses(each, pool) for each in rows])
    own_places = places_of_rows(first, 0, int(first[-1]))
    for name in LIST_COLUMNS:
        waits: list[Waits] = [getattr(each, name) for each in rows]
        counts = np.concatenate([np.diff(each.first) for each in waits])
        places = np.concatenate([each.places for each in waits])
        of_rows = WaitsOfRows(name)
        of_rows.add(own_places, Lists(np.zeros(len(counts), np.bool_), counts, places))
        columns[name] = of_rows.waits(first)
    return ProgramTrace(metadata, first, **columns)


def _addresses(rows: _Rows, pool: int) -> NDArray[np.uint64]:
    """The buffer address of each message: sends from the first pool, receives into the second."""
    address = np.zeros(len(rows.operation), np.uint64)
    for operation, begin in ((Operation.SEND, BASE), (Operation.RECEIVE, BASE + pool)):
        mine = np.flatnonzero((rows.operation == operation) & (rows.length > 0))
        used, places = 0, []
        for length in rows.length[mine].tolist():
            if used + length > pool:
                used = 0
            places.append(begin + used)
            used += -(-length // LINE) * LINE
        address[mine] = places
    return address


REQUEST_BYTES = 32  # of what asks for a page; as shared virtual memory sends it
SIGNAL_BYTES = 1
_SERVING_CPU = 1


class _Step(NamedTuple):
    """One GOAL operation of a rank and its dependencies."""

    words: str
    requires: tuple[int, ...]
    irequires: tuple[int, ...] = ()


class _Served(NamedTuple):
    """An operation that a rank performs on behalf of another's fetch or deposit."""

    words: str
    answer: str | None = None  # once that has come


class _Signal(NamedTuple):
    """A message that tells other ranks that a row has ended, or begun."""

    to: int
    tag: int
    is_of_begin: bool


def write_goal(path: Path, trace: ProgramTrace, watch: Watch | None = None) -> list[str]:
    """Write ``trace`` to ``path``, compressed if its name says so; what GOAL has no place for.

    Errors: ``TraceError`` for a trace with locks, or with messages of any tag beside others;
    ``OutputError`` if it cannot be written.
    """
    schedule = _Schedule(trace, str(path))
    ranks = trace.metadata.processes
    with whole_file(path) as sink, _stream(sink, path) as out:
        out.write(f"num_ranks {ranks}\n".encode())
        for rank in range(ranks):
            lines = [f"\nrank {rank} {{\n"]
            for number, step in enumerate(schedule.steps(rank)):
                lines.append(f"l{number}: {step.words}\n")
                lines += [f"l{number} requires l{each}\n" for each in step.requires]
                lines += [f"l{number} irequires l{each}\n" for each in step.irequires]
            out.write("".join([*lines, "}\n"]).encode())
            if watch is not None:
                watch(rank + 1, ranks)
    return schedule.lost


@contextlib.contextmanager
def _stream(sink: Sink, path: Path) -> Iterator[Any]:
    """What compresses on its way to ``sink`` if the name says so."""
    stream = pa.output_stream(sink, compression=named_compression(path))
    try:
        yield stream
    except BaseException:
        sink.raw.give_up()
        raise
    finally:
        stream.close()


class _Schedule:
    """A program trace's ranks, each with the operations that others need of it."""

    def __init__(self, trace: ProgramTrace, name: str) -> None:
        self._trace = trace
        self._process = trace.process_of_rows()
        operations = {Operation(code) for code in np.unique(trace.operation)}
        if operations & {Operation.LOCK, Operation.UNLOCK}:
            raise TraceError(
                f"{name}: GOAL has no locks, and the trace has; 'nicscope simulate' times it"
            )
        messages = np.isin(trace.operation, (Operation.SEND, Operation.RECEIVE))
        made = operations - {Operation.COMPUTE, Operation.SEND, Operation.RECEIVE}
        any_tag = bool((trace.name[messages] == ANY).any())
        if any_tag and (made or trace.after_others or trace.after_start_others):
            raise TraceError(
                f"{name}: a receive of any tag would take the messages that stand for fetches, "
                "deposits, barriers and waits in GOAL; it cannot be written"
            )
        self._next_tag = int(trace.name[messages].max(initial=-1)) + 1
        self._name = name
        self._members = self._barrier_members()
        self._first_of_node = np.searchsorted(
            trace.metadata.nodes_of_processes, np.arange(trace.metadata.nodes)
        ).tolist()
        self._serving: defaultdict[int, list[_Served]] = defaultdict(list)
        self._tags: dict[int, int] = {}  # of what stands for a row of a FETCH or DEPOSIT
        self._signals: defaultdict[int, list[_Signal]] = defaultdict(list)  # by telling row
        self._told: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # by waiting row
        self._serve()
        for others, is_of_begin in ((trace.after_others, False), (trace.after_start_others, True)):
            if others is not None:
                self._signal(others, is_of_begin=is_of_begin)
        self._rounds = self._barrier_tags()
        self.lost = ["addresses of buffers"] if (trace.address != 0).any() else []
        if made & {Operation.DEPOSIT}:
            self.lost.append("that a deposit ends when it is at its home: here when it is sent")

    def _tag(self, count: int = 1) -> int:
        self._next_tag += count
        if self._next_tag > LARGEST_TAG:
            raise TraceError(f"{self._name}: more messages than GOAL has tags")
        return self._next_tag - count

    def _barrier_members(self) -> dict[int, list[int]]:
        """The processes that arrive at each barrier."""
        at = np.flatnonzero(self._trace.operation == Operation.BARRIER)
        pairs = np.unique(
            np.stack([self._trace.name[at], self._process[at].astype(np.int64)]), axis=1
        )
        members: defaultdict[int, list[int]] = defaultdict(list)
        for name, process in pairs.T.tolist():
            members[name].append(process)
        return members

    def _barrier_tags(self) -> dict[tuple[int, int], int]:
        """The first message tag of each use of each barrier, which takes one tag a round."""
        trace, tags = self._trace, {}
        for name, members in self._members.items():
            rows = trace.rows_of(members[0])
            here = (trace.operation[rows] == Operation.BARRIER) & (trace.name[rows] == name)
            for often in range(int(here.sum())):
                tags[name, often] = self._tag((len(members) - 1).bit_length())
        return tags

    def _serve(self) -> None:
        """Have the first process of each node serve fetches and deposits of that node."""
        trace = self._trace
        remote = np.isin(trace.operation, (Operation.FETCH, Operation.DEPOSIT))
        for row in np.flatnonzero(remote).tolist():
            there, here = self._first_of_node[trace.peer[row]], int(self._process[row])
            length = int(trace.length[row])
            if there == here:
                continue
            on = f"cpu {_SERVING_CPU}"
            if trace.operation[row] == Operation.FETCH:
                tag = self._tags[row] = self._tag(2)
                self._serving[there].append(
                    _Served(
                        f"recv {REQUEST_BYTES}b from {here} tag {tag} {on}",
                        f"send {length}b to {here} tag {tag + 1} {on}",
                    )
                )
            else:
                tag = self._tags[row] = self._tag()
                self._serving[there].append(_Served(f"recv {length}b from {here} tag {tag} {on}"))

    def _signal(self, others: Others, *, is_of_begin: bool) -> None:
        waiting = np.repeat(np.arange(self._trace.rows), np.diff(others.first)).tolist()
        for row, telling in zip(waiting, others.rows.tolist(), strict=True):
            tag, here = self._tag(), int(self._process[row])
            self._signals[telling].append(_Signal(here, tag, is_of_begin))
            self._told[row].append((int(self._process[telling]), tag))

    def steps(self, rank: int) -> Iterator[_Step]:
        """The operations of a rank, numbered by their position."""
        of = _Rank(self, self._trace, rank)
        yield from of.steps()
        count = of.count
        for each in self._serving.pop(rank, []):
            yield _Step(each.words, ())
            if each.answer is not None:
                yield _Step(each.answer, (count,))
            count += 1 + (each.answer is not None)

    def remote(self, row: int, peer: int) -> tuple[int, int] | None:
        """The serving rank of a FETCH or DEPOSIT and its first tag; None if it is local."""
        tag = self._tags.get(row)
        return None if tag is None else (self._first_of_node[peer], tag)

    def meeting(self, rank: int, name: int, often: int) -> list[tuple[str, str]]:
        """The messages that a rank sends and receives in each round of a barrier."""
        members = self._members[name]
        here, many, tag = members.index(rank), len(members), self._rounds[name, often]
        rounds = []
        for power in range((many - 1).bit_length()):
            to, of = members[(here + (1 << power)) % many], members[(here - (1 << power)) % many]
            rounds.append(
                (
                    f"send {SIGNAL_BYTES}b to {to} tag {tag + power}",
                    f"recv {SIGNAL_BYTES}b from {of} tag {tag + power}",
                )
            )
        return rounds

    def told(self, row: int) -> list[str]:
        """The signals that a row waits for."""
        return [f"recv {SIGNAL_BYTES}b from {of} tag {tag}" for of, tag in self._told.pop(row, [])]

    def tells(self, row: int) -> list[_Signal]:
        """The signals that a row sends."""
        return self._signals.pop(row, [])


class _Rank:
    """The rows of one process as steps."""

    def __init__(self, schedule: _Schedule, trace: ProgramTrace, rank: int) -> None:
        self._schedule = schedule
        self._trace = trace
        self._rank = rank
        self.count = 0
        rows = trace.rows_of(rank)
        self._operation: list[int] = trace.operation[rows].tolist()
        self._peer: list[int] = trace.peer[rows].tolist()
        self._length: list[int] = trace.length[rows].tolist()
        self._name: list[int] = trace.name[rows].tolist()
        self._duration: list[int] = trace.duration_ns[rows].tolist()
        self._after = _lists(trace.after, rows)
        self._after_start = _lists(trace.after_start, rows)
        self._begin: list[int] = []  # the step with which each row begins
        self._end: list[int] = []  # and ends
        self._met: defaultdict[int, int] = defaultdict(int)

    def steps(self) -> Iterator[_Step]:
        """All operations of the rank."""
        first = self._trace.rows_of(self._rank).start
        for place, operation in enumerate(self._operation):
            row = first + place
            requires = tuple(self._end[each] for each in self._waits(place))
            irequires: tuple[int, ...] = ()
            if self._after_start is not None:
                irequires = tuple(self._begin[each] for each in self._after_start[place])
            for words in self._schedule.told(row):
                yield self._step(words, ())
                requires += (self.count - 1,)
            self._begin.append(self.count)
            if operation == Operation.BARRIER:
                yield from self._meet(place, requires, irequires)
            else:
                for words in self._words(place, row):
                    yield self._step(words, requires, irequires)
                    requires, irequires = (self.count - 1,), ()
            self._end.append(self.count - 1)
            for signal in self._schedule.tells(row):
                words = f"send {SIGNAL_BYTES}b to {signal.to} tag {signal.tag}"
                if signal.is_of_begin:
                    yield self._step(words, (), (self._begin[-1],))
                else:
                    yield self._step(words, (self._end[-1],))

    def _words(self, place: int, row: int) -> list[str]:
        """The operations of a row that is no barrier, in sequence."""
        operation, length, peer = self._operation[place], self._length[place], self._peer[place]
        if operation == Operation.COMPUTE:
            return [f"calc {self._duration[place]}"]
        if operation == Operation.SEND:
            return [f"send {length}b to {peer} tag {self._name[place]}"]
        if operation == Operation.RECEIVE:
            return [f"recv {length}b from {peer} tag {self._name[place]}"]
        remote = self._schedule.remote(row, peer)
        if remote is None:
            return ["calc 0"]
        there, tag = remote
        if operation == Operation.DEPOSIT:
            return [f"send {length}b to {there} tag {tag}"]
        return [
            f"send {REQUEST_BYTES}b to {there} tag {tag}",
            f"recv {length}b from {there} tag {tag + 1}",
        ]

    def _step(
        self, words: str, requires: tuple[int, ...], irequires: tuple[int, ...] = ()
    ) -> _Step:
        self.count += 1
        return _Step(words, requires, irequires)

    def _waits(self, place: int) -> list[int]:
        if self._after is None:
            return [place - 1] if place else []
        return self._after[place]

    def _meet(
        self, place: int, requires: tuple[int, ...], irequires: tuple[int, ...]
    ) -> Iterator[_Step]:
        name = self._name[place]
        rounds = self._schedule.meeting(self._rank, name, self._met[name])
        self._met[name] += 1
        if not rounds:  # it meets nobody else
            yield self._step("calc 0", requires, irequires)
        for sent, taken in rounds:
            yield self._step(sent, requires, irequires)
            yield self._step(taken, requires, irequires)
            requires, irequires = (self.count - 2, self.count - 1), ()
        if rounds:  # what comes after waits for both
            yield self._step("calc 0", requires)


def _lists(waits: Waits | None, rows: slice) -> list[list[int]] | None:
    """The dependencies of each of ``rows``."""
    if waits is None:
        return None
    first = waits.first[rows.start : rows.stop + 1].tolist()
    places = waits.places[first[0] : first[-1]].tolist()
    begin = first[0]
    return [places[one - begin : end - begin] for one, end in itertools.pairwise(first)]
