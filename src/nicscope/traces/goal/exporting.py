"""Exports a program trace as a GOAL schedule, which knows only messages and computing.

A FETCH becomes a request and an answer, a DEPOSIT a message, which the first process of the other
node sends and takes on a CPU of its own; a BARRIER becomes messages by dissemination; where a row
waits for another process's, that sends it a message.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.outputs import whole_file
from nicscope.outputs.file import named_compression
from nicscope.traces.goal.parsing import ANY, LARGEST_TAG
from nicscope.traces.programs.schema import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nicscope.outputs.target import Sink
    from nicscope.traces.files import Watch
    from nicscope.traces.programs.schema import Others, ProgramTrace, Waits

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
