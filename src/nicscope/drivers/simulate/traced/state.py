"""State of processes that follow a program trace: rows, which may begin, miss times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.records import ANY_REPORT, KINDS, TIMER
from nicscope.kernel.decorators import routine, step
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from numpy.typing import NDArray


@routine
def log_miss(machine, delay, processing):
    """Records the times (ps) of one miss: until its service began, and until it ended."""
    traced = machine.traced
    place = traced.rules[0].misses
    traced.rules[0].misses += 1
    if place < traced.misses.shape[0]:
        traced.misses[place, 0] = delay
        traced.misses[place, 1] = processing


# What a row does (``ROW.operation``).
COMPUTE_ROW = 0
FETCH_ROW = 1
DEPOSIT_ROW = 2
SEND_ROW = 3
RECEIVE_ROW = 4
LOCK_ROW = 5
UNLOCK_ROW = 6
BARRIER_ROW = 7
NO_ROW = -1
ANYBODY = -1  # whose message a RECEIVE takes

# What a process does, besides following the next row (``FOLLOWER.doing``).
AT_REST = 0  # it has not begun, or goes no further
COMPUTES = 1
LEADS = 2  # the CPU's part of a row that then goes on otherwise
POSTS_ROW = 3
POSTS_NOTE = 4
COPIES = 5  # a message to a process of its own node
HEARS = 6  # waits for word from its NIC, or from a process of its own node

# Where the time of a process goes; its parts add up to when the last of all processes has ended.
COMPUTE = 0
STOLEN = 1  # computing took so much longer: interrupts, or the CPU was another process's
LIBRARY = 2  # posts, copies, and what was heard when nothing was waited for
FETCH = 3
DEPOSIT = 4
SEND = 5
RECEIVE = 6
LOCK = 7
BARRIER = 8
OVER = 9  # its own rows have ended, others' have not
PART_NAMES = (
    "compute", "stolen", "library", "fetch", "deposit", "send", "receive", "lock", "barrier",
    "over",
)  # fmt: skip
PARTS = len(PART_NAMES)

# What a note between processes says (``NOTE.kind``).
MESSAGE = 0  # of a SEND
GRANT = 1  # a lock is the receiver's
ROUND = 2  # a node has come so far at a barrier
RELEASE = 3  # a lock is nobody's: to its node's memory, where nobody is notified

# How far a row is (``Traced.progress``): a LOCK,
ANSWERED = 1  # the lock's node has said who is before it
GRANTED = 2
# and any.
ENDED = 4

# What cannot be (``TRACED.wrong``).
NOTHING_WRONG = 0
NOT_HELD = 1  # an UNLOCK of what is not the process's
NOT_DELIVERED = 2  # a note could not be posted, and somebody waits for it

SYNC_BYTES = 8  # of what tells of locks and barriers: a word

FOLLOWER = np.dtype(
    [
        ("first", "i8"),  # its rows
        ("last", "i8"),
        ("next", "i8"),  # where each row waits for the one before: the row that begins next
        ("ready", "i8"),  # else the rows that may begin, linked
        ("ready_end", "i8"),
        ("held", "i8"),  # a row that is to be posted, and has had the CPU's part
        ("at", "i8"),  # the row, or note, that the CPU is at
        ("doing", "i8"),
        ("heard", "i8"),  # the ring of the report that was heard last, or -1
        ("is_woken", "i8"),  # 1: a process of its node has something for it
        ("over", "i8"),  # rows that others have ended, linked
        ("over_end", "i8"),
        ("notes", "i8"),  # that it has to post, linked
        ("notes_end", "i8"),
        ("receives", "i8"),  # rows that wait for a message, linked
        ("receives_end", "i8"),
        ("came", "i8"),  # SEND rows whose messages nobody has asked for yet, linked
        ("came_end", "i8"),
        ("outstanding", "i8"),  # descriptors
        ("unread", "i8"),  # notes on their way to it, or there and not read
        ("blocks", "i8"),  # 1: somebody waits until it reads one
        ("wishes", "i8"),  # 1: it waits for another to do so
        ("ended", "i8"),  # rows
        ("failed", "i8"),  # of these
        ("since", "i8"),  # ps: of what it does
        ("waited", "i8"),  # ps that no row has ended yet
        ("ended_at", "i8"),  # ps
        ("alone", "i8"),  # 1: its node has no other process, so that it computes on the node's CPU
    ],
    align=True,
)
NOTE = np.dtype(
    [
        ("kind", "i8"),
        ("row", "i8"),  # the SEND's, or the LOCK's that is granted
        ("to", "i8"),  # a process, or of a RELEASE a way
        ("name", "i8"),  # of a ROUND: the meeting that it is for
        ("turn", "i8"),
        ("link", "i8"),
    ],
    align=True,
)
# From one process to another of another node.
PAIR = np.dtype(
    [
        ("sender", "i8"),
        ("way", "i8"),  # import of its node
        ("first", "i8"),  # notes on their way, linked
        ("last", "i8"),
    ],
    align=True,
)
LOCKING = np.dtype(
    [
        ("node", "i8"),  # in whose memory it lies
        ("holder", "i8"),  # a process, or NO_ROW
        ("first", "i8"),  # LOCK rows that wait, linked
        ("last", "i8"),
    ],
    align=True,
)
# A node of a barrier: its processes meet in its memory, and its speaker hears the other nodes.
MEETING = np.dtype(
    [
        ("begin", "i8"),  # the meetings of its barrier, of which there are so many
        ("nodes", "i8"),
        ("rounds", "i8"),
        ("parties", "i8"),  # of this node
        ("speaker", "i8"),
        ("come", "i8"),  # since the barrier was met last
        ("met", "i8"),  # how often it was
        ("turn", "i8"),
        ("told", "i8"),  # rounds in which the next node has been told, or is to be
        ("first", "i8"),  # BARRIER rows that wait, linked
        ("last", "i8"),
        ("later", "i8"),  # those of a process that waits here already, linked
        ("later_end", "i8"),
    ],
    align=True,
)
TRACED = np.dtype(
    [
        ("depth", "i8"),  # descriptors of a process that may be outstanding
        ("free", "i8"),  # notes that are nobody's, linked
        ("misses", "i8"),  # ever
        ("wrong", "i8"),
        ("wrong_row", "i8"),
        ("wrong_status", "i8"),
        ("sync_address", "i8"),  # of the words by which processes tell each other of locks
    ],
    align=True,
)


class Waits(NamedTuple):
    """Rows that wait for each row: ``places[first[row] : first[row + 1]]``; both empty: none."""

    first: NDArray[np.int64]
    places: NDArray[np.int32]


class Traced(NamedTuple):
    """All arrays of length 0, but the first, where no program trace is followed."""

    rules: NDArray[Any]  # TRACED, shape (1,)
    followers: NDArray[Any]  # FOLLOWER, by process
    times: NDArray[np.int64]  # ps, shape (processes, PARTS)
    took: NDArray[np.int64]  # ps from beginning to end of rows, shape (processes, operations)
    link: NDArray[np.int32]  # by row: the next of the queue that it stands in
    begun: NDArray[np.int64]  # by row: ps, or -1
    ended: NDArray[np.int64]  # by row likewise, if that is kept
    progress: NDArray[np.uint8]  # by row
    needs: NDArray[np.int32]  # by row: how many it waits for; none: each for the one before
    enders: Waits  # who waits for a row's end
    starters: Waits  # and for its beginning
    notes: NDArray[Any]  # NOTE
    pairs: NDArray[Any]  # PAIR
    pair_of: NDArray[np.int32]  # shape (processes, processes): from, to; -1: none
    pair_at: NDArray[np.int32]  # shape (nodes, exports)
    home_ways: NDArray[np.int32]  # shape (processes, nodes): imports of nodes' memory; -1: none
    locks: NDArray[Any]  # LOCKING
    meetings: NDArray[Any]  # MEETING
    meeting_of: NDArray[np.int32]  # shape (barriers, nodes)
    heard: NDArray[np.int64]  # shape (meetings, rounds): rounds heard of ever
    misses: NDArray[np.int64]  # ps, shape (kept, 2): until each was attended to, and then


def no_waits() -> Waits:
    """Nobody waits for anything but the row before."""
    return Waits(np.zeros(0, np.int64), np.zeros(0, np.int32))


def no_traced() -> Traced:
    """No process follows a program trace."""
    return Traced(
        rules=records(1, TRACED),
        followers=records(0, FOLLOWER),
        times=np.zeros((0, PARTS), np.int64),
        took=np.zeros((0, BARRIER_ROW + 1), np.int64),
        link=np.zeros(0, np.int32),
        begun=np.zeros(0, np.int64),
        ended=np.zeros(0, np.int64),
        progress=np.zeros(0, np.uint8),
        needs=np.zeros(0, np.int32),
        enders=no_waits(),
        starters=no_waits(),
        notes=records(0, NOTE),
        pairs=records(0, PAIR),
        pair_of=np.zeros((0, 0), np.int32),
        pair_at=np.zeros((0, 0), np.int32),
        home_ways=np.zeros((0, 0), np.int32),
        locks=records(0, LOCKING),
        meetings=records(0, MEETING),
        meeting_of=np.zeros((0, 0), np.int32),
        heard=np.zeros((0, 0), np.int64),
        misses=np.zeros((0, 2), np.int64),
    )


@step
def is_traced(machine):
    """Whether the machine's processes follow a program trace."""
    return machine.traced.followers.size > 0


@step
def begin_rows(machine, r, now):
    """Begins row ``r``: rows that wait for its begin may become ready."""
    traced = machine.traced
    traced.begun[r] = now
    _satisfy_dependents(machine, traced.starters, r, now)


@routine
def end_row(machine, r, now):
    """Ends row ``r``, as its process knows: rows that wait for its end may become ready."""
    traced = machine.traced
    row = machine.script[r]
    follower = traced.followers[row.process]
    follower.ended += 1
    traced.progress[r] |= ENDED
    machine.scripted[row.process].done += 1
    traced.took[row.process, row.operation] += now - traced.begun[r]
    if traced.ended.size > 0:
        traced.ended[r] = now
    if follower.doing == HEARS:
        traced.times[row.process, _part_of(row.operation)] += follower.waited
        follower.waited = 0
    _satisfy_dependents(machine, traced.enders, r, now)


@step
def _part_of(operation):
    """Where the time goes in which a process waited for the end of such a row."""
    if operation == COMPUTE_ROW:
        return COMPUTE
    if operation == FETCH_ROW:
        return FETCH
    if operation == DEPOSIT_ROW:
        return DEPOSIT
    if operation == SEND_ROW:
        return SEND
    if operation == RECEIVE_ROW:
        return RECEIVE
    if operation == LOCK_ROW:
        return LOCK
    return LIBRARY if operation == UNLOCK_ROW else BARRIER


@step
def _satisfy_dependents(machine, waits, r, now):
    if waits.first.size == 0:
        return
    traced = machine.traced
    p = machine.script[r].process
    for i in range(waits.first[r], waits.first[r + 1]):
        other = np.int64(waits.places[i])
        traced.needs[other] -= 1
        if traced.needs[other] == 0:
            q = machine.script[other].process
            _make_ready(traced, traced.followers[q], other)
            if q != p:
                wake(machine, q, machine.processes[p].node, now)


@step
def _make_ready(traced, follower, r):
    traced.link[r] = NO_ROW
    if follower.ready == NO_ROW:
        follower.ready = r
    else:
        traced.link[follower.ready_end] = r
    follower.ready_end = r


@step
def next_row(machine, p):
    """The row that process ``p`` may begin now, or ``NO_ROW``."""
    traced = machine.traced
    follower = traced.followers[p]
    if traced.needs.size > 0:
        return np.int64(follower.ready)
    if follower.next < follower.last and follower.ended == follower.next - follower.first:
        return np.int64(follower.next)
    return np.int64(NO_ROW)


@step
def take_row(machine, p):
    """Process ``p`` takes the row that ``next_row`` returns."""
    traced = machine.traced
    follower = traced.followers[p]
    if traced.needs.size > 0:
        follower.ready = traced.link[follower.ready]
    else:
        follower.next += 1


@routine
def end_row_remotely(machine, r, p, now):
    """Ends row ``r`` in the course of what process ``p`` does; its own process is notified."""
    traced = machine.traced
    q = machine.script[r].process
    if q == p:
        end_row(machine, r, now)
        return
    follower = traced.followers[q]
    traced.link[r] = NO_ROW
    if follower.over == NO_ROW:
        follower.over = r
    else:
        traced.link[follower.over_end] = r
    follower.over_end = r
    wake(machine, q, machine.processes[p].node, now)


@step
def wake(machine, q, here, now):
    """Wakes process ``q``, if it waits; node ``here`` polls in any case."""
    machine.traced.followers[q].is_woken = 1
    process = machine.processes[q]
    if process.operation == ANY_REPORT and process.node != here:
        put(machine.agenda, process.node * KINDS + TIMER, now)
