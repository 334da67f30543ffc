"""What a program trace's rows may not say, each named by its process and place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.programs.schema import (
    MOST_NS,
    NOBODY,
    OPERATION_NAMES,
    Operation,
)
from nicscope.traces.programs.waits import places_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.traces.programs.schema import Others, ProgramTrace, Waits

ROWS_AT_ONCE = 1 << 20  # so that what a check makes for itself stays small
_OF_NODES = (Operation.FETCH, Operation.DEPOSIT)
_OF_PROCESSES = (Operation.SEND, Operation.RECEIVE)
_LAST = np.uint64(2**64 - 1)


def check_program(trace: ProgramTrace, source: str) -> None:
    """Return if every row can be; errors: ``TraceError`` naming ``source`` and the first bad row.

    Whether every message that is waited for is sent shows only when the program runs.
    """
    trace.metadata.check(source)
    if not trace.rows:
        raise TraceError(f"{source}: holds no operations; record or convert it again")
    check = _Check(trace, source)
    for begin in range(0, trace.rows, ROWS_AT_ONCE):
        check.rows(begin, min(begin + ROWS_AT_ONCE, trace.rows))
    check.durations()
    check.locks()
    check.barriers()


class _Check:
    """Looks at one trace; every method raises ``TraceError`` for the first row that is wrong."""

    def __init__(self, trace: ProgramTrace, source: str) -> None:
        self._trace = trace
        self._source = source

    def _refuse(self, rows: NDArray[np.bool_], begin: int, why: str) -> None:
        """Errors: ``TraceError`` if any of ``rows``, which begin with row ``begin``, is set."""
        if rows.any():
            raise self._error(begin + int(np.argmax(rows)), why)

    def _error(self, row: int, why: str) -> TraceError:
        trace = self._trace
        process = int(np.searchsorted(trace.first, row, "right")) - 1
        place = row - int(trace.first[process])
        values = {
            "operation": OPERATION_NAMES[trace.operation[row]]
            if trace.operation[row] < len(OPERATION_NAMES)
            else f"operation {trace.operation[row]}",
            "peer": int(trace.peer[row]),
            "address": hex(trace.address[row]),
            "length": int(trace.length[row]),
            "name": int(trace.name[row]),
        }
        return TraceError(
            f"{self._source}: process {process}, row {place} (the first is 0): "
            f"{why.format(**values)}"
        )

    def rows(self, begin: int, end: int) -> None:
        """What can be told of each row by itself."""
        trace, part = self._trace, slice(begin, end)
        operation, peer, length = trace.operation[part], trace.peer[part], trace.length[part]
        self._refuse(operation >= len(OPERATION_NAMES), begin, "{operation} is none")
        of_node, of_process = np.isin(operation, _OF_NODES), np.isin(operation, _OF_PROCESSES)
        nodes, processes = trace.metadata.nodes, trace.metadata.processes
        outside = of_node & ((peer < 0) | (peer >= nodes))
        self._refuse(outside, begin, f"{{operation}}: peer {{peer}} is none of {nodes} nodes")
        lowest = np.where(operation == Operation.RECEIVE, NOBODY, 0)
        outside = of_process & ((peer < lowest) | (peer >= processes))
        self._refuse(
            outside, begin, f"{{operation}}: peer {{peer}} is none of {processes} processes"
        )
        moves = of_node | of_process
        self._refuse(
            ~moves & (peer != NOBODY),
            begin,
            "{operation}: has peer {peer}; it has none, which -1 says",
        )
        self._refuse(
            ~moves & ((length != 0) | (trace.address[part] != 0)),
            begin,
            "{operation}: has a buffer ({length} bytes at {address}); it moves nothing",
        )
        self._refuse(of_node & (length == 0), begin, "{operation}: of 0 bytes; it moves at least 1")
        self._memory(moves & (length != 0), part, begin)
        for name, waits in (("after", trace.after), ("after_start", trace.after_start)):
            if waits is not None:
                self._waits(name, waits, part)
        for name, others in (
            ("after_others", trace.after_others),
            ("after_start_others", trace.after_start_others),
        ):
            if others is not None:
                self._others(name, others, part)

    def _memory(self, moves: NDArray[np.bool_], part: slice, begin: int) -> None:
        metadata = self._trace.metadata
        address, length = self._trace.address[part], self._trace.length[part].astype(np.uint64)
        self._refuse(
            moves & (address > _LAST - (length - np.minimum(length, 1).astype(np.uint64))),
            begin,
            "{operation}: {length} bytes at {address} wrap past 2^64",
        )
        base, most = np.uint64(metadata.base), np.uint64(min(metadata.memory_bytes, 2**64 - 1))
        within = (address >= base) & (length <= most)
        within &= address - base <= most - np.minimum(length, most)
        self._refuse(
            moves & ~within,
            begin,
            f"{{operation}}: {{length}} bytes at {{address}} are not all in the trace's memory, "
            f"{metadata.memory_bytes:,} bytes from {metadata.base:#x} on",
        )

    def _waits(self, name: str, waits: Waits, part: slice) -> None:
        first = waits.first[part.start : part.stop + 1]
        counts = np.diff(first)
        places = np.repeat(places_of_rows(self._trace.first, part.start, part.stop), counts)
        wrong = waits.places[first[0] : first[-1]] >= places
        if wrong.any():
            at = int(np.argmax(wrong))
            row = part.start + int(np.searchsorted(np.cumsum(counts), at, "right"))
            raise self._error(
                row,
                f"{name} names row {waits.places[first[0] + at]}; a row waits for earlier ones of "
                "its process only",
            )

    def _others(self, name: str, others: Others, part: slice) -> None:
        first, of = others.first[part.start : part.stop + 1], self._trace.first
        counts = np.diff(first)
        named = others.rows[first[0] : first[-1]]
        process = np.searchsorted(of, np.arange(part.start, part.stop), "right") - 1
        wrong = (np.searchsorted(of, named, "right") - 1) == np.repeat(process, counts)
        if wrong.any():
            row = part.start + int(
                np.searchsorted(np.cumsum(counts), int(np.argmax(wrong)), "right")
            )
            raise self._error(row, f"{name} names a row of its own process; that is for after")

    def durations(self) -> None:
        """How long a process computes in all; as reals first, so that nothing wraps."""
        trace = self._trace
        for process, (begin, end) in enumerate(
            zip(trace.first[:-1].tolist(), trace.first[1:].tolist(), strict=True)
        ):
            took = float(trace.duration_ns[begin:end].sum(dtype=np.float64))
            if took > MOST_NS:
                raise TraceError(
                    f"{self._source}: process {process} computes {took:.3g} ns in all; at most "
                    "2^53 ns (104 days) can be timed"
                )

    def locks(self) -> None:
        """Each lock is let go of by whom it was asked for, once, before it is asked for again."""
        trace = self._trace
        rows = np.flatnonzero(np.isin(trace.operation, (Operation.LOCK, Operation.UNLOCK)))
        if not len(rows):
            return
        process = np.searchsorted(trace.first, rows, "right") - 1
        order = np.lexsort((rows, trace.name[rows], process))
        rows, process = rows[order], process[order]
        name, is_lock = trace.name[rows], trace.operation[rows] == Operation.LOCK
        is_new = np.ones(len(rows), np.bool_)
        is_new[1:] = (process[1:] != process[:-1]) | (name[1:] != name[:-1])
        was_held = np.zeros(len(rows), np.bool_)
        was_held[1:] = is_lock[:-1] & ~is_new[1:]
        wrong = [
            (rows[is_lock & was_held], "lock: {name} is its own already"),
            (rows[~is_lock & ~was_held], "unlock: {name} is not held"),
            (rows[is_lock & np.append(is_new[1:], True)], "lock: {name} is never let go of"),
        ]
        found = [(int(each.min()), why) for each, why in wrong if len(each)]
        if found:
            raise self._error(*min(found))

    def barriers(self) -> None:
        """Whoever comes to a barrier comes as often as others who do."""
        trace = self._trace
        rows = np.flatnonzero(trace.operation == Operation.BARRIER)
        if not len(rows):
            return
        process = np.searchsorted(trace.first, rows, "right") - 1
        pairs, comes = np.unique(np.stack([trace.name[rows], process]), axis=1, return_counts=True)
        same = pairs[0, 1:] == pairs[0, :-1]
        wrong = same & (comes[1:] != comes[:-1])
        if wrong.any():
            at = int(np.argmax(wrong))
            raise TraceError(
                f"{self._source}: barrier {pairs[0, at]}: process {pairs[1, at]} comes to it "
                f"{comes[at]} times and process {pairs[1, at + 1]} {comes[at + 1]}; one would wait "
                "for ever"
            )
