"""Imports a GOAL schedule as a program trace: a row per operation, with assumed buffers."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.errors import TraceError, printable
from nicscope.traces.files import ByteSource
from nicscope.traces.goal.parsing import CALC, RECV, SEND, Rank, ranks_of
from nicscope.traces.imported import Choices
from nicscope.traces.programs.reader import check_program
from nicscope.traces.programs.schema import (
    NOBODY,
    Lists,
    Operation,
    ProgramMetadata,
    ProgramTrace,
    Waits,
    WaitsOfRows,
    places_of_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch

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
    rows = [found.get(number, _NONE) for number in range(ranks)]
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


def _no_waits(rows: int) -> Waits:
    return Waits(np.zeros(rows + 1, np.int64), np.empty(0, np.uint32))


_NONE = _Rows(
    np.empty(0, np.uint8),
    np.empty(0, np.int32),
    np.empty(0, np.uint32),
    np.empty(0, np.int64),
    np.empty(0, np.uint64),
    _no_waits(0),
    _no_waits(0),
)


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
    if not len(pairs):
        return _no_waits(len(place))
    who, whom = np.unique(place[pairs], axis=0).T
    first = np.zeros(len(place) + 1, np.int64)
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
    address = np.concatenate([_addresses(each, pool) for each in rows])
    return ProgramTrace(
        metadata,
        first,
        np.concatenate([each.operation for each in rows]),
        np.concatenate([each.peer for each in rows]),
        address,
        np.concatenate([each.length for each in rows]),
        np.concatenate([each.name for each in rows]),
        np.concatenate([each.duration_ns for each in rows]),
        _all_waits("after", first, [each.after for each in rows]),
        _all_waits("after_start", first, [each.after_start for each in rows]),
    )


def _all_waits(name: str, first: NDArray[np.int64], waits: list[Waits]) -> Waits | None:
    counts = np.concatenate([np.diff(each.first) for each in waits])
    places = np.concatenate([each.places for each in waits])
    of_rows = WaitsOfRows(name)
    is_null = np.zeros(len(counts), np.bool_)
    of_rows.add(places_of_rows(first, 0, len(counts)), Lists(is_null, counts, places))
    return of_rows.waits(first)


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
