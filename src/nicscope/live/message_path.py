"""Serve the rings of all attached programs: the compiled path of each message.

``serve`` takes work requests from programs' rings and posts them as the processes of the machine
would, fires events that move packets, and puts completions into programs' rings, until nothing is
left to do or Python is needed: for a socket or an asynchronous error.  It calls the functions of
rings.c by their addresses; they alone touch memory that programs write.
"""

# ruff: noqa: D103

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.advance import AT_ONCE as EVENTS_AT_ONCE
from nicscope.drivers.simulate.agenda import earliest
from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.drivers.simulate.ports.posting import GATHER
from nicscope.drivers.simulate.ports.reports import GIVEN_BITS, KIND_BITS
from nicscope.drivers.simulate.process import LAST
from nicscope.drivers.simulate.records import CHAIN, KINDS, POST, PROVIDE, TIMER
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.fabric import ANY_QUEUE, HEADER, SPACE
from nicscope.interfaces.verbs_device.queues import PRIVILEGED
from nicscope.kernel.decorators import copy_bytes, kernel, routine, step
from nicscope.kernel.distant import Declarations
from nicscope.live import layout as shared
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout
from nicscope.nic.ports.receive_queue import IS_OF_V4

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine

NODES, AT_ONCE = shared.CONSTANTS["NODES"], shared.CONSTANTS["AT_ONCE"]
SEGMENTS, INLINE_BYTES = shared.CONSTANTS["SEGMENTS"], shared.CONSTANTS["INLINE_BYTES"]
IPV4_BIT = shared.CONSTANTS["IPV4_BIT"]
IS_SEND, IS_RECEIVE, IS_SHARED = range(3)  # kinds of queues of work requests
SLACK_PS = 1_000_000  # by which timers may be ahead of what moves packets
PS_PER_NS = 1000
LOOK_EVERY = 64  # busy rounds between two looks at the sockets
MOVES_AT_ONCE = 1 << 15  # events between two looks at rings: 1024 cost five sixths of the rate
# Of a program that was shown something and gives no sign: when it may be asleep (real time), has
# not reacted (its processor's time after that), and waits for timers or nothing here (real time).
LOOK_NS, REACTION_NS, REST_NS = 50_000, 50_000, 2_000_000_000
MOST_AHEAD_PS = 10**13  # by which a program's own clock may be ahead
LONGEST_NS = 10_000_000  # before Python has a turn in any case
NO_PORT = 1 << 30  # one that no NIC has
NOBODYS = -2  # in place of a request's port: its shared queue has gone, and a queue pair has it
NONE = -1  # in place of a request's opcode: it is no request
# Why ``serve`` returns.
IDLE, ASKED, TROUBLED = 0, 1, 2

NODE = np.dtype(
    [
        ("attached", "i8"),
        ("process", "i8"),  # of the machine
        ("works", "i8"),  # rows of ``work`` in use
        ("queues", "i8"),  # and of ``queues``
        ("left", "i8"),  # 1: a ring holds requests for which the NIC had no place
        ("troubles", "i8"),  # asynchronous errors that Python has been told of
        ("drains", "i8"),  # 1: Python looks after each round whether a queue pair has drained
        ("free", "i8"),  # one more than the first free row of ``pool``, or 0
        ("fresh", "i8"),  # rows of ``pool`` that were ever used
        ("clock", "i8"),  # one more than the program's row of ``clocks``, or 0
    ],
    align=True,
)
WORK = np.dtype([("ring", "i8"), ("port", "i8"), ("kind", "i8")], align=True)
QUEUE = np.dtype([("place", "i8"), ("ring", "i8")], align=True)  # of completions
PORT = np.dtype(  # a queue pair
    [
        ("number", "i8"),  # 0: none
        ("kind", "i8"),
        ("peer", "i8"),  # the number of the other end
        ("sends", "i8"),  # 1: it may send
        ("receives", "i8"),  # 1: it may be given receives
        ("held", "i8"),  # 1: what is posted waits, until an error, as the pair drains
        ("qkey", "i8"),
        ("inline_at", "i8"),  # where requests by value are kept; 0: nowhere
        ("inline_key", "i8"),
        ("inline_room", "i8"),  # bytes of each, a power of two
        ("inline_places", "i8"),
        ("inlined", "i8"),  # requests by value so far
    ],
    align=True,
)
REGION = np.dtype(
    [
        ("key", "i8"),  # of the region in this row, or 0
        ("shift", "i8"),  # from what programs call an address of it to the machine's own
        ("program", "i8"),  # and to the program's own
    ],
    align=True,
)
REQUEST = np.dtype(  # posted, and not known to have ended
    [
        ("wr_id", "i8"),
        ("opcode", "i8"),  # as completions call it
        ("position", "i8"),  # in its ring, from 1 on
        ("ring", "i8"),
        ("port", "i8"),
        ("next", "i8"),  # of a free row: one more than the next, or 0
    ],
    align=True,
)
STATE = np.dtype(
    [
        ("is_idle", "i8"),
        ("idle_since", "i8"),  # ns
        ("paced", "i8"),  # 1: programs' clocks show virtual time, which waits for them
        ("shown_at", "i8"),  # ns: when any of them was last shown something
    ],
    align=True,
)


class Live(NamedTuple):
    """The machine, and what programs have open on it, by node."""

    machine: Machine
    calls: NDArray[np.int64]
    state: NDArray[Any]  # STATE, shape (1,)
    nodes: NDArray[Any]  # NODE
    work: NDArray[Any]  # WORK, shape (nodes, 2 * ports)
    queues: NDArray[Any]  # QUEUE, shape (nodes, queues)
    ports: NDArray[Any]  # PORT, shape (nodes, ports)
    regions: NDArray[Any]  # REGION, shape (nodes, regions)
    pool: NDArray[Any]  # REQUEST, shape (nodes, requests)
    headers: NDArray[Any]  # of receives of datagrams, by row of ``pool``: their first elements
    ways: NDArray[np.int64]  # of datagrams, shape (nodes, nodes)
    operations: NDArray[np.int64]  # by opcode: the NIC's, its options, what completions call it
    statuses: NDArray[np.int64]  # what completions call those of the NIC
    taken: NDArray[Any]  # shape (AT_ONCE,)
    gathered: NDArray[Any]  # shape (AT_ONCE, SEGMENTS)
    inlined: NDArray[np.uint8]  # shape (AT_ONCE, INLINE_BYTES)
    ended: NDArray[Any]  # shape (AT_ONCE,)
    clocks: NDArray[np.int64]  # by process that is paced: its pid, and the time it was shown last


RINGS = Declarations(behind=DRIVER)


# rings.c
@RINGS.question
def has_rung(live, n): ...
@RINGS.function
def waiting(live, n, ring): ...
@RINGS.function
def take(live, n, ring, count, are_sends, most): ...
@RINGS.function
def room(live, n, ring): ...
@RINGS.function
def put(live, n, ring, count): ...
@RINGS.function
def give_up(live, n, ring): ...
@RINGS.function
def put_header(live, n, address, begin, end, source, is_v4, length): ...
@RINGS.function
def settle(live): ...
@RINGS.function
def clock(live): ...
@RINGS.question
def is_asked(live): ...
@RINGS.function
def yield_processor(live): ...
@RINGS.function
def show_time(live, now, idle_since): ...
@RINGS.function
def note_shown(live): ...
@RINGS.question
def waits(live, n): ...
@RINGS.question
def sleeps(live, n): ...
@RINGS.function
def ran(live, n): ...
@RINGS.question
def has_any_rung(live): ...


# The event loop, and what Python does in between: make what the loop wants, and memory for what a
# port's requests have by value.
@RINGS.function
def fire(live, begun, most): ...
@RINGS.function
def supply(live): ...
@RINGS.function
def keep_values(live, n, p): ...


@kernel
def serve(live, patience):
    """Serve all programs until idle for ``patience`` ns, or Python is needed; return why."""
    begun = clock(live)
    quiet_since = begun
    rounds = 0
    while True:
        rounds += 1
        is_busy = serve_once(live)
        state = live.state[0]
        if is_busy:
            state.is_idle = 0
        reasons = _reasons(live, is_busy)
        if reasons != IDLE:
            return reasons
        now = clock(live)
        if now - begun > LONGEST_NS:
            return ASKED
        if is_busy and rounds % LOOK_EVERY != 0:
            continue
        if is_asked(live):
            return ASKED
        if is_busy:
            continue
        if state.is_idle == 0:
            state.is_idle = 1
            state.idle_since = now
            quiet_since = now
        if now - quiet_since > patience:
            return IDLE
        yield_processor(live)


@routine
def serve_once(live):
    """Take posted requests, fire events that move packets, deliver completions."""
    is_busy = _take_all(live)
    if live.state[0].paced == 0:
        is_busy = move(live, np.int64(MOVES_AT_ONCE)) or is_busy
    elif is_busy:
        show_time(live, live.machine.tally[0].now // PS_PER_NS, np.int64(0))
    settle(live)
    return _deliver_all(live) or is_busy


@step
def _take_all(live):
    has_any = False
    for n in range(NODES):
        node = live.nodes[n]
        if node.attached == 0:
            continue
        if has_rung(live, n):
            pass_idle_time(live)
            _follow_clock(live, n)
        elif node.left == 0:
            continue
        has_any = take_work(live, n) or has_any
    return has_any


@step
def _follow_clock(live, n):
    """Advance virtual time to the latest that the posting program of node ``n`` was shown."""
    row = live.nodes[n].clock - 1
    if row < 0:
        return
    tally = live.machine.tally[0]
    then = min(live.clocks[row, 1] * PS_PER_NS, tally.now + MOST_AHEAD_PS)
    if then > tally.now:
        tally.until = then
        while _fire_all(live, np.int64(0)) >= EVENTS_AT_ONCE:
            pass  # there may be more
        tally.now = max(tally.now, then)


@step
def _deliver_all(live):
    has_any = False
    for n in range(NODES):
        if live.nodes[n].attached == 1:
            has_any = deliver(live, n) or has_any
    return has_any


@kernel
def serve_paced(live, patience):
    """As ``serve``, but virtual time advances only while all programs wait.

    A program waits if it has polled in vain since it was last shown anything, sleeps, or runs long
    enough without a sign, as when it spins on memory.  So programs react to each event before the
    next one happens.
    """
    begun = clock(live)
    state = live.state[0]
    tally = live.machine.tally[0]
    rounds = 0
    has_fired = False
    while True:
        rounds += 1
        is_busy = serve_once(live)
        reasons = _reasons(live, is_busy or has_fired)
        has_fired = False
        if reasons != IDLE:
            return reasons
        now = clock(live)
        if now - begun > LONGEST_NS or (rounds % LOOK_EVERY == 0 and is_asked(live)):
            return ASKED
        if is_busy:
            state.is_idle = 0
            _note_shown(live, now)
            continue
        moves, timer = _moves_next(live.machine), _timer_next(live.machine)
        soonest = min(moves, timer)
        is_moving = moves <= timer and moves < NEVER
        since = now - state.shown_at
        if not _all_wait(live, since > LOOK_NS, is_moving) and (is_moving or since < REST_NS):
            if is_asked(live):
                return ASKED
            yield_processor(live)
            continue
        if has_any_rung(live):
            continue  # it has posted between the look at its ring and that at its polls
        if soonest < NEVER:
            state.is_idle = 0
            tally.until = soonest
            _fire_all(live, np.int64(0))
            has_fired = True
            # Before what has happened is there to be seen: nobody sees it earlier than it happened.
            show_time(live, tally.now // PS_PER_NS, np.int64(0))
            written = settle(live) > 0
            if _deliver_all(live) or written:
                _note_shown(live, now)
            continue
        if is_asked(live):
            return ASKED
        if state.is_idle == 0:
            state.is_idle = 1
            state.idle_since = now
            show_time(live, tally.now // PS_PER_NS, now)
        if now - state.idle_since > patience:
            return IDLE
        yield_processor(live)


@step
def _note_shown(live, now):
    show_time(live, live.machine.tally[0].now // PS_PER_NS, np.int64(0))
    live.state[0].shown_at = now
    note_shown(live)


@step
def _all_wait(live, or_sleep, or_spins):
    for n in range(NODES):
        if live.nodes[n].attached == 1 and not waits(live, n):
            if not or_sleep:
                return False
            if not sleeps(live, n) and (not or_spins or ran(live, n) < REACTION_NS):
                return False
    return True


@step
def _reasons(live, is_busy):
    reasons = np.int64(IDLE)
    for n in range(NODES):
        node = live.nodes[n]
        if node.attached == 0:
            continue
        troubles = live.machine.ports.nodes[n].async_errors
        # A queue pair drains as something happens: to look in vain would keep timers from it.
        if node.troubles != troubles or (node.drains == 1 and is_busy):
            node.troubles = troubles
            reasons |= TROUBLED
    return reasons


# Time.


@step
def _moves_next(machine):
    """The time of the earliest event that is not a timer's, or NEVER."""
    times = machine.agenda.times
    first = earliest(machine.agenda)
    if first % KINDS != TIMER:
        return times[first]
    soonest = NEVER
    for slot in range(NODES * KINDS):
        if slot % KINDS != TIMER and times[slot] < soonest:
            soonest = times[slot]
    return soonest


@step
def _timer_next(machine):
    soonest = NEVER
    for n in range(NODES):
        soonest = min(soonest, machine.agenda.times[n * KINDS + TIMER])
    return soonest


@routine
def _fire_all(live, begun):
    """Fire events up to ``tally.until``; supply what programs' operations want."""
    fired = fire(live, begun, EVENTS_AT_ONCE)
    while live.machine.tally[0].wants != 0:
        supply(live)
        fired += fire(live, 0, EVENTS_AT_ONCE)
    return fired


@routine
def move(live, most):
    """Fire events that move packets at once, and timers after as much real time.

    Once ``most`` events have been fired the rest waits, so that programs are looked at in between.
    """
    machine = live.machine
    tally = machine.tally[0]
    fired = np.int64(0)
    while fired < most:
        soonest = _moves_next(machine)
        if soonest >= NEVER:
            break
        tally.until = soonest + SLACK_PS
        fired += _fire_all(live, np.int64(0))
    due = _timer_next(machine)
    state = live.state[0]
    if due < NEVER and state.is_idle == 1:
        now = clock(live)
        if due <= tally.now + (now - state.idle_since) * PS_PER_NS:
            tally.until = due
            fired += _fire_all(live, np.int64(0))
            state.idle_since = now
    return fired > 0


@routine
def pass_idle_time(live):
    """Advance virtual time by the real time for which all programs waited, and end the wait.

    Time that the machine itself takes, also to compile, does not count: no timer may expire
    because of it.
    """
    state = live.state[0]
    if state.is_idle == 0:
        return
    state.is_idle = 0
    machine = live.machine
    now = clock(live)
    tally = machine.tally[0]
    then = tally.now + (now - state.idle_since) * PS_PER_NS
    then = min(then, min(_moves_next(machine), _timer_next(machine)))
    if then > tally.now:
        tally.now = then
    if state.paced == 1:
        show_time(live, tally.now // PS_PER_NS, np.int64(0))


@kernel
def let_packets_move(live):
    """As ``move``, for Python: until no packet moves."""
    has_moved = move(live, np.int64(NEVER))
    settle(live)
    return has_moved


@kernel
def begin_round(live):
    """As ``pass_idle_time``, for Python: before a program's question is answered."""
    pass_idle_time(live)
    return serve_once(live)


# Requests.


@routine
def take_work(live, n):
    """Post the requests in the rings of node ``n``; return whether there were any."""
    node = live.nodes[n]
    node.left = 0
    has_any = False
    for i in range(node.works):
        work = live.work[n, i]
        taken = 0
        while True:
            count = min(waiting(live, n, work.ring), np.int64(CHAIN))
            if count <= 0:
                break
            if taken >= AT_ONCE and work.kind == IS_SEND:
                node.left = 1
                break
            places = _places(live, n, np.int64(work.port), np.int64(work.kind))
            if places <= 0:
                node.left = 1
                break
            most = min(np.int64(CHAIN), places)  # one to a group is one for each of its members
            count = take(
                live, n, work.ring, min(count, places), np.int64(work.kind == IS_SEND), most
            )
            if count <= 0:
                node.left = 1
                break
            taken += count
            if work.kind == IS_SEND and _lacks_memory(live, n, work.port, count):
                keep_values(live, n, work.port)
            _post(live, n, np.int64(work.ring), np.int64(work.port), np.int64(work.kind), count)
            has_any = True
    return has_any


@step
def _places(live, n, p, kind):
    """How many more requests the NIC has places for at port ``p``."""
    ports = live.machine.ports
    port = ports.table[n, p]
    if kind != IS_SEND:
        most = min(ports.work.receives.shape[2], ports.rules[0].ring)
        return most - (port.receives_posted - port.read)
    if live.ports[n, p].held == 1 and port.state != layout.BROKEN:
        return np.int64(0)
    while port.reaped < port.reported:  # what has ended without a completion makes room
        report = ports.reports[n, p, layout.SENT, place_in(port.reaped, ports.rules[0].ring)]
        if report.buffers == 0:
            break
        _release(live, n, report.cookie - 1)
        port.reaped += 1
    return ports.rules[0].ring - (port.posted + port.refused - port.reaped)


@step
def _lacks_memory(live, n, p, count):
    """Whether one of the first ``count`` requests is inline and there is no place for it."""
    most = np.int64(-1)
    for i in range(count):
        most = max(most, np.int64(live.taken[i].inlined))
    return most >= 0 and live.ports[n, p].inline_at == 0


@routine
def _post(live, n, ring, p, kind, count):
    """Have the process of node ``n`` post the first ``count`` requests of ``taken``."""
    process = live.nodes[n].process
    begun = 0
    for i in range(count):
        if kind == IS_SEND:
            begun += _put_send(live, n, ring, p, process, i, begun)
        else:
            begun += _put_receive(live, n, ring, p, kind, process, i, begun)
    if begun == 0:
        return
    machine = live.machine
    tally = machine.tally[0]
    machine.outbox[0].time = begun - 1
    tally.until = LAST
    fired = _fire_all(live, np.int64(1))
    while tally.ended == 0 and fired >= EVENTS_AT_ONCE:
        fired = _fire_all(live, np.int64(0))


@step
def _allocate(live, n):
    """A row of ``pool`` for a request: there are as many as the NIC has places."""
    node = live.nodes[n]
    row = node.free - 1
    if row >= 0:
        node.free = live.pool[n, row].next
        return np.int64(row)
    # The last row is a program's that has lost all others.
    node.fresh = min(node.fresh + 1, np.int64(live.pool.shape[1]))
    return np.int64(node.fresh - 1)


@step
def _release(live, n, row):
    request = live.pool[n, row]
    request.port = -1
    request.next = live.nodes[n].free
    live.nodes[n].free = row + 1


@kernel
def forget_requests(live, n, p):
    """Release what was posted at port ``p`` of node ``n``, which begins anew.

    What it drew from a shared queue makes room there; what others drew from it is nobody's.
    """
    ports = live.machine.ports
    ring, last = ports.rules[0].ring, ports.table[n, p].received
    for number in range(max(last - ring, np.int64(0)), last):
        report = ports.reports[n, p, layout.RECEIVED, place_in(number, ring)]
        row = report.cookie - 1
        report.cookie = 0
        if row >= 0:
            if live.pool[n, row].port not in (p, NOBODYS):
                give_up(live, n, np.int64(live.pool[n, row].ring))
            _release(live, n, row)
    for row in range(live.nodes[n].fresh):
        if live.pool[n, row].port == p and live.ports[n, p].number != 0:
            _release(live, n, row)
        elif live.pool[n, row].port == p:
            live.pool[n, row].port = NOBODYS


@step
def _keep(live, n, i, ring, p, opcode):
    """Store what a completion will report of request ``i`` of ``taken``; return its cookie."""
    taken = live.taken[i]
    row = _allocate(live, n)
    request = live.pool[n, row]
    request.wr_id = taken.wr_id
    request.position = taken.position
    request.opcode = opcode
    request.ring = ring
    request.port = p
    return row + 1


@step
def _shift_of(live, n, key):
    region = live.regions[n, (key >> 8) % live.regions.shape[1]]
    return region.shift if region.key == key else np.int64(0)


@step
def _write_segments(live, n, process, i, place):
    """Write the scatter/gather list of request ``i`` where the driver reads it."""
    ports = live.machine.ports
    for k in range(live.taken[i].pieces):
        piece = live.gathered[i, k]
        address = piece.address + _shift_of(live, n, np.int64(piece.key))
        _write_segment(ports, process, place, k, address, piece.length, piece.key)


@step
def _write_segment(ports, process, place, k, address, length, key):
    if place == 0:
        segment = ports.gathers[process, k]
        segment.address = address
        segment.length = length
        segment.key = key
    else:
        segment = ports.gathered[process, place - 1, k]
        segment.address = address
        segment.length = length
        segment.key = key


@step
def _write_operation(live, n, process, place, operation, p, pieces, cookie):
    request = live.machine.outbox[place]
    request.process = process
    request.operation = operation
    request.time = 0
    request.node = n
    request.peer = p
    request.packet = cookie
    request.payload = pieces
    request.tag = 0
    request.address = 0
    request.duration = 0
    request.own = live.machine.ports.table[n, p].given << GIVEN_BITS


@step
def _put_receive(live, n, ring, p, kind, process, i, place):
    """Enter receive ``i`` as provided; return 0 if its queue pair takes none."""
    if kind == IS_RECEIVE and live.ports[n, p].receives == 0:
        return 0
    cookie = _keep(live, n, i, ring, p, np.int64(0))
    _write_segments(live, n, process, i, place)
    if kind == IS_SHARED or live.ports[n, p].kind == calls.UD:
        for k in range(live.taken[i].pieces):
            live.headers[n, cookie - 1, k] = live.gathered[i, k]
        if live.taken[i].pieces < SEGMENTS:
            live.headers[n, cookie - 1, live.taken[i].pieces].length = 0
    pieces = live.taken[i].pieces
    _write_operation(live, n, process, place, np.int64(PROVIDE), p, pieces, cookie)
    return 1


@routine
def _put_send(live, n, ring, p, process, i, place):
    """Enter request ``i`` as posted; return 0 if its queue pair takes none."""
    taken = live.taken[i]
    port = live.ports[n, p]
    opcode = taken.opcode
    if port.sends == 0:
        return 0  # which the library has seen itself
    # One that is none fails in its turn, as its memory is nobody's.
    is_none = opcode >= live.operations.shape[0] or live.operations[opcode, 0] < 0
    is_none = is_none or (taken.inlined >= 0 and port.inline_at == 0)
    opcode = np.int64(calls.WR_SEND if is_none else opcode)
    operation, options = live.operations[opcode, 0], live.operations[opcode, 1]
    if taken.flags & calls.SIGNALED == 0:
        options |= layout.UNSIGNALLED
    if taken.flags & calls.SOLICITED != 0:
        options |= layout.SOLICITED
    if taken.flags & calls.FENCE != 0:
        options |= layout.FENCED
    name, word, swap, remote = taken.rkey, taken.word, taken.srqn, taken.remote
    pieces = taken.pieces
    if operation == layout.UNBIND:
        name, pieces = taken.word, np.int64(0)
    elif is_none:
        pieces = np.int64(1)
        _write_segment(live.machine.ports, process, place, 0, np.int64(0), pieces, np.int64(-1))
    elif taken.inlined >= 0:
        _keep_inline(live, n, p, process, i, place)
        pieces = np.int64(1)
    else:
        _write_segments(live, n, process, i, place)
    if operation == layout.COMPARE_SWAP or operation == layout.FETCH_ADD:
        word, swap = taken.compare, taken.swap
    elif operation == layout.FETCH:
        word = np.int64(0)
    if port.kind == calls.UD:
        name, remote, swap = _route(live, n, p, i)
        options |= layout.OF_V4 * taken.is_v4
    cookie = _keep(live, n, i, ring, p, NONE if is_none else live.operations[opcode, 2])
    if place == 0:
        _write_words(live.machine.store.control[process], word, swap)
    else:
        _write_words(live.machine.inlined[process, place - 1], word, swap)
    _write_operation(live, n, process, place, np.int64(POST), p, pieces, cookie)
    request = live.machine.outbox[place]
    request.tag = name
    request.duration = remote
    request.own |= operation | options << KIND_BITS | GATHER
    return 1


@step
def _write_words(content, word, swap):
    """Write the operands of a request: its word, a descriptor's key of 0, its swap value."""
    for i in range(8):
        content[i] = np.uint8((word >> (8 * i)) & 0xFF)
        content[8 + i] = 0
        content[16 + i] = np.uint8((swap >> (8 * i)) & 0xFF)


@routine
def _route(live, n, p, i):
    """The port, stream and key that datagram ``i`` uses."""
    taken = live.taken[i]
    port = live.ports[n, p]
    node = np.int64(taken.node)
    found = np.int64(NO_PORT)
    if node >= 0:
        for q in range(live.ports.shape[1]):
            other = live.ports[node, q]
            if other.number == taken.qpn and other.number != 0 and other.kind == calls.UD:
                found = np.int64(q)
                break
    key = np.int64(port.qkey if taken.qkey & PRIVILEGED != 0 else taken.qkey)
    return found, np.int64(live.ways[n, node if node >= 0 else n]), key


@step
def _keep_inline(live, n, p, process, i, place):
    """Copy inline data to registered memory, where it stays until its request has ended."""
    port = live.ports[n, p]
    memory = live.machine.ports.memory
    address = port.inline_at + port.inlined % port.inline_places * port.inline_room
    port.inlined += 1
    size = memory.config[0].page_size
    frame = np.int64(memory.entries[n, SPACE, address // size].frame)
    count = live.taken[i].inlined
    copy_bytes(memory.bytes[n], frame * size + address % size, live.inlined[i], 0, count)
    _write_segment(live.machine.ports, process, place, 0, address, count, port.inline_key)


# Completions.


@routine
def deliver(live, n):
    """Deliver completions to the programs of node ``n``; return whether there were any."""
    has_any = False
    work = live.machine.ports.work
    for q in range(live.nodes[n].queues):
        queue = live.queues[n, q]
        record = work.queues[n, queue.place]
        while record.shown > record.read:
            free = min(room(live, n, queue.ring), np.int64(AT_ONCE))
            if free <= 0:
                break
            count = _collect(live, n, np.int64(queue.place), free)
            if count > 0:
                has_any = True
                put(live, n, queue.ring, count)
    work.queues[n, ANY_QUEUE].read = work.queues[n, ANY_QUEUE].written
    return has_any


@routine
def _collect(live, n, q, most):
    """Move up to ``most`` completions of the NIC's queue ``q`` to ``ended``; return how many."""
    work = live.machine.ports.work
    queue = work.queues[n, q]
    found = 0
    while found < most and queue.read < queue.shown:
        entry = work.entries[n, q, queue.read % work.entries.shape[2]]
        queue.read += 1
        if entry.port == layout.NOBODY:
            continue  # its port has begun anew since
        if entry.side == layout.SENT:
            _collect_sent(live, n, np.int64(entry.port), found)
        elif entry.side == layout.RECEIVED:
            if not _collect_received(live, n, np.int64(entry.port), np.int64(entry.number), found):
                continue
        else:
            continue
        live.ended[found].urgent = entry.urgent
        found += 1
    return found


@step
def _write_end(live, i, wr_id, position, ring):
    ended = live.ended[i]
    ended.wr_id = wr_id
    ended.position = position
    ended.ring = ring
    ended.time = live.machine.tally[0].now // PS_PER_NS
    ended.opcode = 0
    ended.length = 0
    ended.word = 0
    ended.source = 0
    ended.flags = 0


@step
def _collect_sent(live, n, p, i):
    """Collect the next request with a completion; release those before it, which have none."""
    ports = live.machine.ports
    port = ports.table[n, p]
    while True:
        report = ports.reports[n, p, layout.SENT, place_in(port.reaped, ports.rules[0].ring)]
        port.reaped += 1
        if report.buffers == 0 or port.reaped == port.reported:
            break
        _release(live, n, report.cookie - 1)
    request = live.pool[n, report.cookie - 1]
    _write_end(live, i, request.wr_id, request.position, request.ring)
    ended = live.ended[i]
    ended.status = live.statuses[report.status]
    if request.opcode != NONE:
        ended.opcode = request.opcode
    elif ended.status == calls.LOC_PROT_ERR:
        ended.status = calls.LOC_QP_OP_ERR
    ended.length = report.length
    ended.qp_num = live.ports[n, p].number
    _release(live, n, report.cookie - 1)


@step
def _collect_received(live, n, p, number, i):
    """Collect receive ``number``; return false if its shared queue has gone meanwhile."""
    ports = live.machine.ports
    report = ports.reports[n, p, layout.RECEIVED, place_in(number, ports.rules[0].ring)]
    ports.table[n, p].read += 1
    row = report.cookie - 1
    report.cookie = 0
    port = live.ports[n, p]
    request = live.pool[n, row]
    if request.port == NOBODYS:
        _release(live, n, row)
        return False
    _write_end(live, i, request.wr_id, np.int64(0), request.ring)
    ended = live.ended[i]
    ended.opcode = calls.WC_RECV_IMM if report.operation == layout.WRITE else calls.WC_RECV
    ended.status = live.statuses[report.status]
    ended.length = report.length
    ended.qp_num = port.number
    ended.source = port.peer
    if report.buffers & 3 != 0:
        ended.flags = calls.WITH_IMM if report.buffers & 1 != 0 else calls.WITH_INV
        ended.word = report.name
    if port.kind == calls.UD and report.status == layout.DONE:
        is_v4 = np.int64(report.buffers & IS_OF_V4 != 0)
        ended.flags |= calls.WITH_GRH | is_v4 * IPV4_BIT
        ended.source = live.ports[report.node, report.offset].number
        _put_header(live, n, row, report.node, is_v4, report.length - HEADER)
    _release(live, n, row)
    return True


@routine
def _put_header(live, n, row, source, is_v4, length):
    """Write the 40 bytes before a received datagram into its process's memory."""
    done = np.int64(0)
    for k in range(SEGMENTS):
        piece = live.headers[n, row, k]
        if done == HEADER or piece.length == 0:
            break
        region = live.regions[n, (piece.key >> 8) % live.regions.shape[1]]
        count = min(np.int64(HEADER) - done, np.int64(piece.length))
        if region.key == piece.key:
            address = piece.address + region.program
            put_header(live, n, address, done, done + count, source, is_v4, length)
        done += count
