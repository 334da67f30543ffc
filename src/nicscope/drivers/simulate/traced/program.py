"""A program trace as the driver takes it: rows, pages, who reaches whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay.columns import Stream
from nicscope.drivers.replay.page_numbering import numbering_of
from nicscope.drivers.simulate.traced import state
from nicscope.drivers.translation import line_bits_of
from nicscope.errors import SimulationError
from nicscope.memory.numbering import Numbering, fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.config.design import Design


ROW_NAMES = ("COMPUTE", "FETCH", "DEPOSIT", "SEND", "RECEIVE", "LOCK", "UNLOCK", "BARRIER")
MOST_ADDRESS = 1 << 61  # beyond it lie the pages that the timing itself uses


class WaitedFor(NamedTuple):
    """Which rows of its process each row waits for: ``places[first[row] : first[row + 1]]``."""

    first: NDArray[np.int64]
    places: NDArray[np.uint32]


class OthersWaitedFor(NamedTuple):
    """Which rows of other processes each row waits for: ``rows[first[row] : first[row + 1]]``.

    All are counted through all processes.
    """

    first: NDArray[np.int64]
    rows: NDArray[np.int64]


class Program(NamedTuple):
    """Columns through all processes; those of process p are rows ``first[p]`` to ``first[p + 1]``.

    ``docs/program-traces.md`` says what each means.
    """

    nodes: NDArray[np.int64]  # the node of each process, rising from 0 without a gap
    first: NDArray[np.int64]  # one more than there are processes
    operation: NDArray[np.uint8]  # as ``ROW_NAMES`` has them
    peer: NDArray[np.int32]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]
    name: NDArray[np.int64]
    duration_ns: NDArray[np.uint64]
    after: WaitedFor | None  # that have to have ended; None: each row waits for the one before
    after_start: WaitedFor | None  # that have to have begun; None: there are none
    after_others: OthersWaitedFor | None = None  # other processes' that have to have ended
    after_start_others: OthersWaitedFor | None = None  # and begun

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self.nodes)

    @property
    def node_count(self) -> int:
        """How many there are."""
        return int(self.nodes[-1]) + 1

    @property
    def owners(self) -> NDArray[np.int64]:
        """The process of each row."""
        return np.repeat(np.arange(self.processes), np.diff(self.first))

    def waited_for(self, row: int) -> tuple[list[int], list[int]]:
        """The rows, counted through all processes, after whose ends and beginnings ``row`` is."""
        first = int(self.first[self.owner(row)])
        ends = [row - 1] if self.after is None and row > first else []
        begins: list[int] = []
        for found, own, others in (
            (ends, self.after, self.after_others),
            (begins, self.after_start, self.after_start_others),
        ):
            if own is not None:
                places = own.places[own.first[row] : own.first[row + 1]]
                found += [first + place for place in places.tolist()]
            if others is not None:
                found += others.rows[others.first[row] : others.first[row + 1]].tolist()
        return ends, begins

    def owner(self, row: int) -> int:
        """The process of a row, counted through all processes."""
        return int(np.searchsorted(self.first, row, "right")) - 1

    @property
    def compute_ps(self) -> int:
        """What all COMPUTE rows take together: one processor's time for the whole program."""
        return int(self.duration_ns[self.operation == state.COMPUTE_ROW].sum()) * 1000

    def name_row(self, row: int) -> str:
        """The name of a row, counted through all processes, in messages."""
        process = self.owner(row)
        place = row - int(self.first[process])
        return f"process {process}, row {place} ({self.describe(row)})"

    def describe(self, row: int) -> str:
        """What a row asks for."""
        operation, name, peer = int(self.operation[row]), int(self.name[row]), int(self.peer[row])
        word = ROW_NAMES[operation]
        if operation in (state.FETCH_ROW, state.DEPOSIT_ROW):
            return f"{word} of {int(self.length[row])} bytes, node {peer}"
        if operation == state.SEND_ROW:
            return f"{word} of tag {name} to process {peer}"
        if operation == state.RECEIVE_ROW:
            who = "any process" if peer < 0 else f"process {peer}"
            return f"{word} of tag {name} from {who}"
        return word if operation == state.COMPUTE_ROW else f"{word} {name}"


def check_fits_machine(program: Program) -> None:
    """Return if the machine can do what every row asks.

    Errors: ``SimulationError`` naming the first row that asks for what there is not.
    """
    remote = np.isin(program.operation, (state.FETCH_ROW, state.DEPOSIT_ROW))
    own = remote & (program.peer == program.nodes[program.owners])
    if own.any():
        row = int(np.argmax(own))
        raise SimulationError(
            f"{program.name_row(row)}: that is its own node, to which no link leads; a process "
            "reads and writes its own node's memory in COMPUTE"
        )
    moves = remote | np.isin(program.operation, (state.SEND_ROW, state.RECEIVE_ROW))
    far = moves & (program.address >= np.uint64(MOST_ADDRESS))
    if far.any():
        row = int(np.argmax(far))
        raise SimulationError(
            f"{program.name_row(row)}: address {int(program.address[row]):#x} is not below 2^61; "
            "move the program's memory there"
        )


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
    names, lock_nodes = _numbered_locks(program)
    names, meetings = _numbered_barriers(program, names)
    addresses, lengths, offsets = _buffers(program)
    operation, owners = program.operation, program.owners
    home_ways, pairs = [], []
    remote = np.isin(operation, (state.FETCH_ROW, state.DEPOSIT_ROW))
    home_ways.append(np.stack([owners[remote], program.peer[remote]], 1))
    asks = operation == state.LOCK_ROW
    home_ways.append(np.stack([owners[asks], lock_nodes[names[asks]]], 1))
    sends = operation == state.SEND_ROW
    pairs.append(np.stack([owners[sends], program.peer[sends]], 1))
    pairs.append(_pairs_by_lock(program, names))
    pairs.append(_pairs_by_barrier(program, meetings))
    ways = _unique_rows(np.concatenate(home_ways).astype(np.int64))
    between = _unique_rows(np.concatenate(pairs).astype(np.int64))
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


def _unique_rows(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different ones of ``rows``, rising, as ``numpy.unique`` has them.

    That sorts whole rows as records, which took half the time of a run that is timed.
    """
    arranged = rows[np.lexsort(rows.T[::-1])]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (arranged[1:] != arranged[:-1]).any(axis=1)
    return arranged[is_new]


def _numbered_locks(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Names of rows with locks by number, and the node of each lock.

    A lock lies in the memory of the node that its name, counted round, falls on.
    """
    names = program.name.copy()
    rows = np.isin(program.operation, (state.LOCK_ROW, state.UNLOCK_ROW))
    locks, numbers = np.unique(names[rows], return_inverse=True)
    names[rows] = numbers
    return names, locks % program.node_count


def _numbered_barriers(
    program: Program, names: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[Meeting]]:
    """Row names with barriers numbered too, and the members of each barrier."""
    rows = program.operation == state.BARRIER_ROW
    barriers, numbers = np.unique(names[rows], return_inverse=True)
    names[rows] = numbers
    parties = _unique_rows(np.stack([numbers, program.owners[rows]], 1))
    meetings = []
    for barrier in range(len(barriers)):
        processes = parties[parties[:, 0] == barrier, 1]
        nodes = program.nodes[processes]
        for node in np.unique(nodes).tolist():
            here = processes[nodes == node]
            meetings.append(Meeting(barrier, node, len(here), int(here[0])))
    return names, meetings


def _pairs_by_lock(program: Program, names: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every two processes that ask for the same lock."""
    asks = program.operation == state.LOCK_ROW
    asked = _unique_rows(np.stack([names[asks], program.owners[asks]], 1))
    found = [np.zeros((0, 2), np.int64)]
    ends = np.flatnonzero(np.diff(asked[:, 0])) + 1
    groups = {tuple(each.tolist()) for each in np.split(asked[:, 1], ends)}
    for group in groups:
        processes = np.array(group, np.int64)
        found.append(np.stack(np.meshgrid(processes, processes), -1).reshape(-1, 2))
    return _unique_rows(np.concatenate(found))


def _pairs_by_barrier(program: Program, meetings: list[Meeting]) -> NDArray[np.int64]:
    """Whoever may speak for a node at a barrier, with the speakers whom it may tell."""
    found: set[tuple[int, int]] = set()
    at: dict[int, list[Meeting]] = {}
    for meeting in meetings:
        at.setdefault(meeting.barrier, []).append(meeting)
    rows = program.operation == state.BARRIER_ROW
    comers = np.unique(program.owners[rows])
    by_node: dict[int, list[int]] = {}
    for process in comers.tolist():
        by_node.setdefault(int(program.nodes[process]), []).append(process)
    for here in {tuple((each.node, each.speaker) for each in group) for group in at.values()}:
        for place, (node, _) in enumerate(here):
            for k in range(rounds_of(len(here))):
                _, speaker = here[(place + (1 << k)) % len(here)]
                found.update((process, speaker) for process in by_node[node])
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def rounds_of(nodes: int) -> int:
    """Rounds in which each of ``nodes`` nodes learns that all have arrived at a barrier."""
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
    sends = np.flatnonzero(operation == state.SEND_ROW)
    crosses = sends[program.nodes[owners[sends]] != program.nodes[program.peer[sends]]]
    lengths[crosses] = np.maximum(lengths[crosses], state.SYNC_BYTES)
    addresses[sends[(addresses[sends] == 0) | (program.length[sends] == 0)]] = STAGE_ADDRESS
    offsets[sends] = STAGE_ADDRESS
    receives = np.flatnonzero((operation == state.RECEIVE_ROW) & (program.peer != state.ANYBODY))
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


class Runs(NamedTuple):
    """Runs of pages of one node that others reach; columns of equal length."""

    port: NDArray[np.int64]  # of the process in whose space they are
    first: NDArray[np.int64]
    pages: NDArray[np.int64]


class NodePages(NamedTuple):
    """Of one node."""

    numbering: Numbering  # of every page that it touches
    longest: int  # pages of a request
    pages: int  # that are touched
    exported: Runs


def pages_of_nodes(
    program: Program, wiring: Wiring, ordinals: NDArray[np.int64], exporters: NDArray[np.int64],
    design: Design,
) -> list[NodePages]:  # fmt: skip
    """The pages of each node.

    ``ordinals``: the place of each process on its node; ``exporters``: that of each node's process
    that computes nothing.
    """
    assert design.page_size is not None
    bits = design.page_size.bit_length() - 1
    touched = _touched(program, wiring, ordinals, exporters)
    found = []
    for node in range(program.node_count):
        mine = touched[touched[:, 0] == node]
        first = mine[:, 2] >> bits
        pages = ((mine[:, 2] + mine[:, 3] - 1) >> bits) - first + 1
        stream = Stream(
            mine[:, 1].astype(np.int32),
            first,
            pages.astype(np.int32),
            np.zeros(len(mine), np.uint8),
            mine[:, 3].astype(np.uint32),
        )
        numbering = fitted(numbering_of(stream, line_bits_of(design), (design.prepin or 1) - 1))
        remote = mine[:, 4] == 1
        exported = _runs(mine[remote, 1] + 1, first[remote], pages[remote])
        everything = _runs(mine[:, 1], first, pages)
        longest = int(pages.max(initial=1))
        found.append(NodePages(numbering, longest, int(everything.pages.sum()), exported))
    return found


def _touched(
    program: Program,
    wiring: Wiring,
    ordinals: NDArray[np.int64],
    exporters: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Node, process there, address, bytes, and whether another node reaches it; each once."""
    operation, owners, nodes = program.operation, program.owners, program.nodes
    remote = np.flatnonzero(np.isin(operation, (state.FETCH_ROW, state.DEPOSIT_ROW)))
    sends = np.flatnonzero(operation == state.SEND_ROW)
    sends = sends[nodes[owners[sends]] != nodes[program.peer[sends]]]
    receivers = program.peer[sends]
    moving = np.concatenate([remote, sends])
    mover = owners[moving]
    words = np.arange(program.processes)
    homes = np.arange(program.node_count)
    parts = [
        (nodes[mover], ordinals[mover], wiring.addresses[moving], wiring.lengths[moving], 0),
        (
            program.peer[remote],
            exporters[program.peer[remote]],
            wiring.offsets[remote],
            wiring.lengths[remote],
            1,
        ),
        (nodes[receivers], ordinals[receivers], wiring.offsets[sends], wiring.lengths[sends], 1),
        (nodes, ordinals[words], np.full(len(words), SYNC_ADDRESS), state.SYNC_BYTES, 1),
        (homes, exporters, np.full(len(homes), SYNC_ADDRESS), state.SYNC_BYTES, 1),
    ]
    rows = [
        np.stack(np.broadcast_arrays(*(np.asarray(column, np.int64) for column in part)), 1)
        for part in parts
    ]
    return _unique_rows(np.concatenate(rows))


def _runs(owner: NDArray[np.int64], first: NDArray[np.int64], pages: NDArray[np.int64]) -> Runs:
    """The same pages in as few runs as possible, each page once."""
    order = np.lexsort((first, owner))
    owner, first, end = owner[order], first[order], (first + pages)[order]
    if not len(owner):
        return Runs(owner, first, end)
    # The furthest end so far of the same owner: ends are lifted so that owners do not mix.
    lift = np.cumsum(np.concatenate([[0], owner[1:] != owner[:-1]])) * np.int64(1 << 52)
    reached = np.maximum.accumulate(end + lift) - lift
    begins = np.ones(len(owner), np.bool_)
    begins[1:] = (owner[1:] != owner[:-1]) | (first[1:] > reached[:-1])
    last = np.append(np.flatnonzero(begins)[1:] - 1, len(owner) - 1)
    return Runs(owner[begins], first[begins], reached[last] - first[begins])
