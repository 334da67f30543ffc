"""What is kept of a program trace's processes, and the rows that they follow, at the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nicscope.drivers.simulate.machine import ROW
from nicscope.drivers.simulate.traced.program import ROW_NAMES
from nicscope.drivers.simulate.traced.state import (
    FOLLOWER,
    LOCKING,
    MEETING,
    NO_ROW,
    NOTE,
    PAIR,
    PARTS,
    Traced,
    Waits,
    no_traced,
    no_waits,
)
from nicscope.drivers.simulate.traced.wiring import SYNC_ADDRESS, rounds_of
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.simulate.traced.program import OthersWaitedFor, Program, WaitedFor
    from nicscope.drivers.simulate.traced.wiring import Wiring

PS_PER_NS = 1000
LOGGED = 1 << 20  # misses of which delays are kept
# Bytes of each row: itself, its place in queues, when it began, how far it is, what it needs.
ROW_BYTES = ROW.itemsize + 4 + 8 + 1 + 4 + 2 * 8


def rows_of_program(program: Program, wiring: Wiring, ordinals: NDArray[np.int64]) -> NDArray[Any]:
    """The rows of every process, one after the other."""
    rows = np.zeros(len(program.operation), ROW)
    rows["process"] = program.owners
    rows["port"] = ordinals[program.owners] + 1
    rows["operation"] = program.operation
    rows["peer"] = program.peer
    rows["name"] = wiring.names
    rows["address"] = wiring.addresses
    rows["length"] = wiring.lengths
    rows["offset"] = wiring.offsets
    rows["not_before"] = program.duration_ns.astype(np.int64) * PS_PER_NS
    return rows


def new_traced(
    program: Program,
    wiring: Wiring,
    *,
    depth: int,
    ring: int,
    exports: int,
    keep_ends: bool = False,
) -> Traced:
    """Every process before its first row; ``exports`` of a node, the first its memory.

    With ``keep_ends`` the time at which each row ended is kept, beside when it began.
    """
    rows, processes = len(program.operation), program.processes
    notes = processes * (ring + 2) + len(wiring.meetings) * (rounds_of(program.node_count) + 1)
    traced = no_traced()._replace(
        followers=records(processes, FOLLOWER),
        times=np.zeros((processes, PARTS), np.int64),
        took=np.zeros((processes, len(ROW_NAMES)), np.int64),
        link=np.full(rows, NO_ROW, np.int32),
        begun=np.full(rows, -1, np.int64),
        ended=np.full(rows if keep_ends else 0, -1, np.int64),
        progress=np.zeros(rows, np.uint8),
        notes=_notes(notes),
        misses=np.zeros((LOGGED, 2), np.int64),
    )
    traced = _with_waits(traced, program)
    traced.rules["depth"] = depth
    traced.rules["sync_address"] = SYNC_ADDRESS
    _place_followers(traced, program)
    traced = _with_pairs(traced, program, wiring, exports)
    locks = records(len(wiring.lock_nodes), LOCKING)
    locks["node"] = wiring.lock_nodes
    for name in ("holder", "first", "last"):
        locks[name] = NO_ROW
    return _with_meetings(traced._replace(locks=locks), program, wiring)


def _notes(count: int) -> NDArray[Any]:
    """So many notes, all in the chain of those that are nobody's."""
    notes = records(count, NOTE)
    notes["link"] = np.arange(1, count + 1)
    notes["link"][-1] = NO_ROW
    return notes


def _place_followers(traced: Traced, program: Program) -> None:
    followers = traced.followers
    followers["first"] = followers["next"] = program.first[:-1]
    followers["last"] = program.first[1:]
    queues = ("ready", "over", "notes", "receives", "came")
    for name in (*queues, *(f"{each}_end" for each in queues), "held", "at", "heard", "ended_at"):
        followers[name] = NO_ROW
    followers["alone"] = np.bincount(program.nodes)[program.nodes] == 1
    if not len(traced.needs):
        return
    for follower in followers:
        free = np.arange(follower["first"], follower["last"])
        free = free[traced.needs[follower["first"] : follower["last"]] == 0]
        if len(free):
            traced.link[free[:-1]] = free[1:]
            follower["ready"], follower["ready_end"] = free[0], free[-1]


def _with_waits(traced: Traced, program: Program) -> Traced:
    """Who waits for whom; nothing where every row waits for the one before it alone."""
    others = (program.after_others, program.after_start_others)
    if program.after is None and program.after_start is None and others == (None, None):
        return traced
    ends = [_own(program, program.after), _others(program.after_others)]
    if program.after is None:
        followed = np.setdiff1d(np.arange(len(program.operation)), program.first)
        ends.append((followed, followed - 1))
    begins = [_own(program, program.after_start), _others(program.after_start_others)]
    needs = np.zeros(len(program.operation), np.int32)
    enders = _turned_round(ends, needs)
    return traced._replace(needs=needs, enders=enders, starters=_turned_round(begins, needs))


_Edges: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"  # who waits, for which row
_NONE: _Edges = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _own(program: Program, waited_for: WaitedFor | None) -> _Edges:
    if waited_for is None:
        return _NONE
    waiting = np.repeat(np.arange(len(program.operation)), np.diff(waited_for.first))
    begins = program.first[np.searchsorted(program.first, waiting, "right") - 1]
    return waiting, waited_for.places.astype(np.int64) + begins


def _others(waited_for: OthersWaitedFor | None) -> _Edges:
    if waited_for is None:
        return _NONE
    counts = np.diff(waited_for.first)
    return np.repeat(np.arange(len(counts)), counts), waited_for.rows


def _turned_round(edges: list[_Edges], needs: NDArray[np.int32]) -> Waits:
    """For each row who waits for it, added to how many each of those ``needs``."""
    rows = len(needs)
    waiting, named = (np.concatenate(each) for each in zip(*edges, strict=True))
    if not len(waiting):
        return no_waits()
    needs += np.bincount(waiting, minlength=rows).astype(np.int32)
    order = np.argsort(named, kind="stable")
    first = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(named, minlength=rows), out=first[1:])
    return Waits(first, waiting[order].astype(np.int32))


def _with_pairs(traced: Traced, program: Program, wiring: Wiring, exports: int) -> Traced:
    """Number imports and exports: of each node those of its memory, then those of pairs."""
    processes, nodes = program.processes, program.node_count
    home_ways = np.full((processes, nodes), NO_ROW, np.int32)
    used = np.zeros(nodes, np.int64)
    for p, node in wiring.home_ways.tolist():
        here = program.nodes[p]
        home_ways[p, node] = used[here]
        used[here] += 1
    pairs = records(len(wiring.pairs), PAIR)
    pair_of = np.full((processes, processes) if len(pairs) else (0, 0), NO_ROW, np.int32)
    pair_at = np.full((nodes, exports), NO_ROW, np.int32)
    taken = np.ones(nodes, np.int64)
    for number, (p, q) in enumerate(wiring.pairs.tolist()):
        here, there = program.nodes[p], program.nodes[q]
        pairs[number]["sender"] = p
        pairs[number]["way"] = used[here]
        used[here] += 1
        pair_of[p, q] = number
        pair_at[there, taken[there]] = number
        taken[there] += 1
    pairs["first"] = pairs["last"] = NO_ROW
    return traced._replace(home_ways=home_ways, pairs=pairs, pair_of=pair_of, pair_at=pair_at)


def _with_meetings(traced: Traced, program: Program, wiring: Wiring) -> Traced:
    meetings = records(len(wiring.meetings), MEETING)
    barriers = max((each.barrier for each in wiring.meetings), default=-1) + 1
    meeting_of = np.full((barriers, program.node_count), NO_ROW, np.int32)
    counts = np.bincount([each.barrier for each in wiring.meetings], minlength=barriers)
    begins = np.concatenate([[0], np.cumsum(counts)])
    for place, meeting in enumerate(wiring.meetings):
        record: Any = meetings[place]
        record["begin"] = begins[meeting.barrier]
        record["nodes"] = counts[meeting.barrier]
        record["rounds"] = rounds_of(int(counts[meeting.barrier]))
        record["parties"] = meeting.parties
        record["speaker"] = meeting.speaker
        meeting_of[meeting.barrier, meeting.node] = place
    for name in ("first", "last", "later", "later_end"):
        meetings[name] = NO_ROW
    rounds = int(meetings["rounds"].max(initial=0))
    heard = np.zeros((len(meetings), rounds), np.int64)
    return traced._replace(meetings=meetings, meeting_of=meeting_of, heard=heard)
