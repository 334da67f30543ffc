"""Who reaches whom in a program trace: exports, imports, and where messages are put.

Every node has one process more than the trace says, the *exporter*, which computes nothing: its
address space is the node's memory as others fetch from it and store to it, at the addresses at
which the program has them.  Messages go into their receiver's own space, to where the RECEIVE that
takes them says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.traced.program import MOST_ADDRESS
from nicscope.drivers.simulate.traced.state import (
    ANYBODY,
    BARRIER_ROW,
    DEPOSIT_ROW,
    FETCH_ROW,
    LOCK_ROW,
    RECEIVE_ROW,
    SEND_ROW,
    SYNC_BYTES,
    UNLOCK_ROW,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.simulate.traced.program import Program

SYNC_ADDRESS = MOST_ADDRESS  # of a page of words by which processes tell each other of locks
STAGE_ADDRESS = MOST_ADDRESS + (1 << 32)  # of the buffer of messages that name none


class Meeting(NamedTuple):
    """A node at a barrier."""

    barrier: int
    node: int
    parties: int
    speaker: int  # a process


class Wiring(NamedTuple):
    """What of the program is known before it runs."""

    names: NDArray[np.int64]  # of each row: its lock or barrier by number, else as it was
    addresses: NDArray[np.int64]  # of each row: of its local buffer
    lengths: NDArray[np.int64]  # of each row: what it moves
    offsets: NDArray[np.int64]  # of each row: where at the other end
    lock_nodes: NDArray[np.int64]  # the node of each lock
    meetings: list[Meeting]  # those of a barrier together, its nodes rising
    home_ways: NDArray[np.int64]  # pairs (process, node) that are used, rising; shape (ways, 2)
    pairs: NDArray[np.int64]  # pairs (process, process) likewise, of two nodes


def wiring_of(program: Program) -> Wiring:
    """Who reaches whom in ``program``, which fits the machine."""
    names, lock_nodes, lock_names = _numbered_locks(program)
    names, meetings = _numbered_barriers(program, names)
    addresses, lengths, offsets = _buffers(program)
    operation, owners = program.operation, program.owners
    home_ways, pairs = [], []
    remote = np.isin(operation, (FETCH_ROW, DEPOSIT_ROW))
    home_ways.append(np.stack([owners[remote], program.peer[remote]], 1))
    asks = operation == LOCK_ROW
    home_ways.append(np.stack([owners[asks], lock_nodes[names[asks]]], 1))
    sends = operation == SEND_ROW
    pairs.append(np.stack([owners[sends], program.peer[sends]], 1))
    pairs.append(_lock_pairs(program, names, len(lock_names)))
    pairs.append(_meeting_pairs(program, meetings))
    ways = np.unique(np.concatenate(home_ways).astype(np.int64), axis=0)
    between = np.unique(np.concatenate(pairs).astype(np.int64), axis=0)
    nodes = program.nodes
    return Wiring(
        names=names,
        addresses=addresses,
        lengths=lengths,
        offsets=offsets,
        lock_nodes=lock_nodes,
        meetings=meetings,
        home_ways=ways[nodes[ways[:, 0]] != ways[:, 1]],
        pairs=between[nodes[between[:, 0]] != nodes[between[:, 1]]],
    )


def _numbered_locks(
    program: Program,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Names of rows with locks by number, the node of each lock, and their own names.

    A lock lies in the memory of the node that its name, counted round, falls on.
    """
    names = program.name.copy()
    rows = np.isin(program.operation, (LOCK_ROW, UNLOCK_ROW))
    locks, numbers = np.unique(names[rows], return_inverse=True)
    names[rows] = numbers
    return names, locks % program.node_count, locks


def _numbered_barriers(
    program: Program, names: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[Meeting]]:
    """Names of rows with barriers by number too, and where those who name each meet."""
    rows = program.operation == BARRIER_ROW
    barriers, numbers = np.unique(names[rows], return_inverse=True)
    names[rows] = numbers
    parties = np.unique(np.stack([numbers, program.owners[rows]], 1), axis=0)
    meetings = []
    for barrier in range(len(barriers)):
        processes = parties[parties[:, 0] == barrier, 1]
        nodes = program.nodes[processes]
        for node in np.unique(nodes).tolist():
            here = processes[nodes == node]
            meetings.append(Meeting(barrier, node, len(here), int(here[0])))
    return names, meetings


def _lock_pairs(program: Program, names: NDArray[np.int64], locks: int) -> NDArray[np.int64]:
    """Every two processes that ask for the same lock."""
    asks = program.operation == LOCK_ROW
    asked = np.unique(np.stack([names[asks], program.owners[asks]], 1), axis=0)
    found = [np.zeros((0, 2), np.int64)]
    groups = {tuple(asked[asked[:, 0] == lock, 1].tolist()) for lock in range(locks)}
    for group in groups:
        processes = np.array(group, np.int64)
        found.append(np.stack(np.meshgrid(processes, processes), -1).reshape(-1, 2))
    return np.unique(np.concatenate(found), axis=0)


def _meeting_pairs(program: Program, meetings: list[Meeting]) -> NDArray[np.int64]:
    """Whoever may speak for a node at a barrier, with the speakers whom it may tell."""
    found = {(-1, -1)}
    at: dict[int, list[Meeting]] = {}
    for meeting in meetings:
        at.setdefault(meeting.barrier, []).append(meeting)
    rows = program.operation == BARRIER_ROW
    comers = np.unique(program.owners[rows])
    by_node: dict[int, list[int]] = {}
    for process in comers.tolist():
        by_node.setdefault(int(program.nodes[process]), []).append(process)
    for here in {tuple((each.node, each.speaker) for each in group) for group in at.values()}:
        for place, (node, _) in enumerate(here):
            for k in range(rounds_of(len(here))):
                _, speaker = here[(place + (1 << k)) % len(here)]
                found.update((process, speaker) for process in by_node[node])
    found.discard((-1, -1))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def rounds_of(nodes: int) -> int:
    """Rounds in which each of ``nodes`` nodes comes to know that all have come."""
    return (nodes - 1).bit_length()


def _buffers(
    program: Program,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each row where it has its bytes, how many they are, and where the other end has them.

    A message without bytes is a word, where it crosses a link.  It goes to where the RECEIVE says
    that takes the message of the same sender, receiver and tag in the same turn; where that names
    no buffer, or any sender, to a buffer of the receiver's that all such messages share.
    """
    operation, owners = program.operation, program.owners
    addresses = program.address.astype(np.int64)
    lengths = program.length.astype(np.int64)
    offsets = addresses.copy()
    sends = np.flatnonzero(operation == SEND_ROW)
    crosses = sends[program.nodes[owners[sends]] != program.nodes[program.peer[sends]]]
    lengths[crosses] = np.maximum(lengths[crosses], SYNC_BYTES)
    addresses[sends[(addresses[sends] == 0) | (program.length[sends] == 0)]] = STAGE_ADDRESS
    offsets[sends] = STAGE_ADDRESS
    receives = np.flatnonzero((operation == RECEIVE_ROW) & (program.peer != ANYBODY))
    sent = _turns(owners[sends], program.peer[sends], program.name[sends])
    wanted = _turns(program.peer[receives], owners[receives], program.name[receives])
    known = dict(zip(map(tuple, wanted.tolist()), receives.tolist(), strict=True))
    for row, key in zip(sends.tolist(), map(tuple, sent.tolist()), strict=True):
        into = known.get(key)
        if into is not None and addresses[into] and lengths[into] >= lengths[row]:
            offsets[row] = addresses[into]
    return addresses, lengths, offsets


def _turns(senders: NDArray[Any], receivers: NDArray[Any], tags: NDArray[Any]) -> NDArray[np.int64]:
    """Sender, receiver and tag of each row, and how many with the same have come before it."""
    keys = np.stack([senders, receivers, tags], 1).astype(np.int64)
    order = np.lexsort((np.arange(len(keys)), keys[:, 2], keys[:, 1], keys[:, 0]))
    arranged = keys[order]
    is_new = np.ones(len(keys), np.bool_)
    is_new[1:] = (arranged[1:] != arranged[:-1]).any(axis=1)
    begins = np.maximum.accumulate(np.where(is_new, np.arange(len(keys)), 0))
    turns = np.empty(len(keys), np.int64)
    turns[order] = np.arange(len(keys)) - begins
    return np.column_stack([keys, turns])
