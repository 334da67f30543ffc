"""What a process reads at its port: reports, completions, posts to work queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.records import ANY_REPORT, AWAIT_QUEUE, REPORT
from nicscope.host.calls import free_receive_buffers
from nicscope.kernel.decorators import copy_bytes, kernel, routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import flush_receives, reject_receive
from nicscope.nic.ports.descriptor import address_of, bytes_of
from nicscope.nic.ports.regions import OWN, permits

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Bytes of immediate data, behind them of the key of a descriptor's own memory, and then of what an
# atomic operation swaps.
WORD = 8
STATUS_BITS = 8  # in ``own`` of a PROVIDE: what the library has found wrong with the receive


@step
def write_words(machine, n, p, slot):
    """Write what goes with a descriptor: its words, if it has any, and where it is.

    One piece of its own has no key.
    """
    port = machine.processes[p].peer
    control = machine.store.control[p]
    machine.ports.requests[n, port, slot].immediate = _word(control, 0)
    machine.ports.requests[n, port, slot].swap = _word(control, 2 * WORD)
    machine.ports.segments[n, port, slot, 0].key = 0
    place = machine.ports.work.descriptors[n, port, slot]
    token = np.int64(machine.processes[p].address)
    place.address = address_of(token)
    place.length = bytes_of(token)
    place.key = _word(control, WORD)


@step
def write_gather(machine, n, p, slot):
    """Write the pieces of a descriptor for a connected port, but for those of nothing."""
    ports = machine.ports
    process = machine.processes[p]
    request = ports.requests[n, process.peer, slot]
    request.length = 0
    request.segments = 0
    for i in range(process.payload):
        if ports.gathers[p, i].length != 0:
            ports.segments[n, process.peer, slot, request.segments] = ports.gathers[p, i]
            request.segments += 1


@step
def _word(content, begin):
    word = np.uint64(0)
    for i in range(WORD):
        word |= np.uint64(content[begin + i]) << np.uint64(8 * i)
    return np.int64(word)


@step
def leave_check_to_nic(machine, n, p, slot):
    """Leaves to the NIC the check of addresses that are no memory of the process."""
    pending = machine.ports.pending[n, p, slot]
    if pending.status == layout.NO_RIGHTS:
        pending.status = layout.DONE


@step
def note_posted_descriptor(machine, n, process):
    """Records the descriptor that the NIC has yet to fetch, if it fetches them."""
    ports = machine.ports
    if ports.table[n, process.peer].takes != layout.WORK_QUEUE:
        return
    place = place_in(ports.table[n, process.peer].posted, ports.rules[0].ring)
    ports.work.tokens[n, process.peer, place] = process.address * ports.rules[0].fetches


@step
def has_receive_room(machine, n, p):
    """Whether port ``p`` has room for one more receive, and for its report."""
    ports = machine.ports
    port = ports.table[n, p]
    room = min(ports.work.receives.shape[2], ports.rules[0].ring)
    return port.receives_posted - port.read < room


@routine
def post_receive(machine, n, p, status):
    """Process ``p`` has posted a receive; ``status``: what came of having its pages pinned.

    What its ``own`` says is wrong with the receive itself ends that at once, and so does a
    descriptor that is not in registered memory: ``tag`` is the key of that.
    """
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    place = place_in(port.receives_posted, ports.work.receives.shape[2])
    receive = ports.work.receives[n, process.peer, place]
    receive.cookie = process.packet
    receive.status = status if status != layout.NO_RIGHTS else np.int64(layout.PROTECTION)
    receive.kept = 1
    receive.queue = 0
    receive.serial = port.receives_posted
    receive.segments = 0
    receive.length = 0
    for i in range(process.payload):
        if ports.gathers[p, i].length != 0:
            ports.work.pieces[n, process.peer, place, receive.segments] = ports.gathers[p, i]
            receive.segments += 1
            receive.length += ports.gathers[p, i].length
    port.receives_posted += 1
    port.reserved += 1
    found = process.own & ((1 << STATUS_BITS) - 1)
    if port.shared == 1:
        receive.status = found if found != layout.DONE else receive.status  # who draws it says so
    elif port.state == layout.BROKEN:
        flush_receives(machine, n, np.int64(process.peer))
    elif not _is_readable(machine, n, process):
        reject_receive(machine, n, np.int64(process.peer), np.int64(layout.PROTECTION), np.int64(1))
    elif found != layout.DONE:
        reject_receive(machine, n, np.int64(process.peer), np.int64(found), np.int64(0))


@step
def _is_readable(machine, n, process):
    """Whether the NIC may read the descriptor that a process has posted, if it is in memory."""
    token = np.int64(process.address)
    count = bytes_of(token)
    port, key = np.int64(process.peer), np.int64(process.tag)
    return count == 0 or permits(machine, n, port, key, address_of(token), count, OWN)


@step
def read_work(machine, n, p):
    """Reads how the oldest receive of process ``p`` ended; 1 if immediate data came with it."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    report = ports.reports[
        n, process.peer, layout.RECEIVED, place_in(port.read, ports.rules[0].ring)
    ]
    process.packet = report.cookie
    process.payload = report.length
    process.tag = report.name
    process.address = report.status
    process.duration = report.offset
    process.own = report.operation
    if ports.rules[0].rooms == 1:
        free_receive_buffers(machine, n, np.int64(process.peer), np.int64(port.read))
    process.peer = report.node
    port.read += 1
    return report.buffers


@step
def take_completion(machine, n, process):
    """Has the process learn at which port a request has ended, and on which side."""
    work = machine.ports.work
    queue = work.queues[n, process.peer]
    entry = work.entries[n, process.peer, queue.read % work.entries.shape[2]]
    process.packet = entry.port
    process.tag = entry.side
    queue.read += 1


# Columns of what is written down of each.
PORT, SIDE, COOKIE, STATUS, OPERATION, LENGTH, NAMED_QUEUE, BESIDE, OFFSET, NODE = range(10)
COLUMNS = 10
AT_ONCE = 64


class Collecting(NamedTuple):
    """A machine, and where what is collected on it is written down."""

    machine: Any
    rows: NDArray[np.int64]  # shape (AT_ONCE, COLUMNS)


@kernel
def collect(state: Any, n: int, q: int, most: int) -> Any:
    """Take up to ``most`` completions off queue ``q`` of node ``n`` into ``rows``; how many."""
    work = state.machine.ports.work
    queue = work.queues[n, q]
    taken = 0
    while taken < most and queue.read < queue.shown:
        entry = work.entries[n, q, queue.read % work.entries.shape[2]]
        queue.read += 1
        if entry.port == layout.NOBODY:
            continue  # its port has begun anew since
        state.rows[taken, PORT] = entry.port
        state.rows[taken, SIDE] = entry.side
        if entry.side == layout.SENT:
            _take_sent(state, n, entry.port, taken)
            taken += 1
        elif entry.side == layout.RECEIVED:
            _take_received(state, n, entry.port, entry.number, taken)
            taken += 1
    return taken


@step
def _take_sent(state, n, p, row):
    """Write the next end of a descriptor down that is announced, past those that are not."""
    ports = state.machine.ports
    port = ports.table[n, p]
    while True:
        report = ports.reports[n, p, layout.SENT, place_in(port.reaped, ports.rules[0].ring)]
        port.reaped += 1
        if report.buffers == 0 or port.reaped == port.reported:
            break
    _write_completion(state, report, row)


@step
def _take_received(state, n, p, number, row):
    ports = state.machine.ports
    port = ports.table[n, p]
    report = ports.reports[n, p, layout.RECEIVED, place_in(number, ports.rules[0].ring)]
    port.read += 1
    _write_completion(state, report, row)


@step
def _write_completion(state, report, row):
    state.rows[row, COOKIE] = report.cookie
    state.rows[row, STATUS] = report.status
    state.rows[row, OPERATION] = report.operation
    state.rows[row, LENGTH] = report.length
    state.rows[row, NAMED_QUEUE] = report.name
    state.rows[row, BESIDE] = report.buffers
    state.rows[row, OFFSET] = report.offset
    state.rows[row, NODE] = report.node


@kernel
def discard_completions(machine: Any, n: int, p: int, q: int) -> None:
    """Marks queue ``q``'s unread completions of port ``p``, which is reset, to be skipped."""
    work = machine.ports.work
    queue = work.queues[n, q]
    for number in range(queue.read, queue.written):
        entry = work.entries[n, q, number % work.entries.shape[2]]
        if entry.port == p:
            entry.port = layout.NOBODY


KIND_BITS = 4  # in ``own`` of a POST: of its operation, above which its flags lie

GIVEN_BITS = 16  # above these in ``own`` of what is asked of a port: the ``given`` that is meant
GONE = -1  # in ``own`` and ``packet`` of what ended because the port is closed, or another's
LATE = -2  # likewise: of a wait whose end came first
NO_RING = -1  # a process was told of something by its own node alone


@step
def awaits_report(operation):
    """Whether ``operation`` waits for a report from the NIC."""
    return operation in (REPORT, AWAIT_QUEUE, ANY_REPORT)


@step
def has_awaited_report(machine, n, p):
    """Whether the report that process ``p`` of ``n`` waits for is there."""
    process = machine.processes[p]
    if process.operation == AWAIT_QUEUE:
        queue = machine.ports.work.queues[n, process.peer]
        return queue.shown > queue.read
    if process.operation == ANY_REPORT:
        return has_any_report(machine, n, p)
    return has_report_slot(machine, n, p)


@routine
def has_any_report(machine, n, p):
    """Whether process ``p``, which follows a program trace, has any report or wakeup."""
    if machine.traced.followers[p].is_woken == 1:
        return True
    peer = machine.processes[p].peer
    return _is_report_visible(machine, n, peer, layout.SENT) or _is_report_visible(
        machine, n, peer, layout.RECEIVED
    )


@step
def has_wait_expired(machine, n, p):
    """Whether process ``p``'s wait for a report has expired without one."""
    process = machine.processes[p]
    if process.address == 0 or machine.tally[0].now < process.address:
        return False
    return not has_awaited_report(machine, n, p)


@step
def has_report_slot(machine, n, p):
    """Whether the port that process ``p`` of node ``n`` listens at has a report for it."""
    process = machine.processes[p]
    return _is_report_visible(machine, n, process.peer, process.own & 1)


@step
def _is_report_visible(machine, n, peer, ring):
    """Whether the port's ring has a report that its process can see."""
    if crosses_bus(machine, n):
        port = machine.ports.table[n, peer]
        shown = machine.bus.shown[n, peer, ring]
        return shown > (port.reaped if ring == layout.SENT else port.read)
    return _is_report_made(machine, n, peer, ring)


@step
def _has_report_made(machine, n, p):
    """Whether a report has been made for ``p``, which may still be crossing the bus."""
    process = machine.processes[p]
    return _is_report_made(machine, n, process.peer, process.own & 1)


@step
def _is_report_made(machine, n, peer, ring):
    port = machine.ports.table[n, peer]
    if ring == layout.SENT:
        return port.reported > port.reaped
    return port.received > port.read


@step
def has_new_owner(machine, n, p):
    """Whether the port that process ``p`` uses has a new owner."""
    process = machine.processes[p]
    return machine.ports.table[n, process.peer].given != process.own >> GIVEN_BITS


@step
def will_get_no_report(machine, n, p):
    """Whether the report that process ``p`` waits for cannot come: its port is closed and read."""
    process = machine.processes[p]
    if process.operation == AWAIT_QUEUE:
        return machine.ports.work.queues[n, process.peer].open == 0
    if has_new_owner(machine, n, p):
        return True
    is_closed = machine.ports.table[n, process.peer].open == 0
    return is_closed and not _has_report_made(machine, n, p)


@step
def reap(machine, n, p):
    """Process ``p`` reads how its next descriptor ended."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    report = ports.reports[n, process.peer, layout.SENT, place_in(port.reaped, ports.rules[0].ring)]
    process.packet = report.cookie
    process.tag = report.operation
    process.address = report.status
    if port.takes == layout.WORK_QUEUE:
        process.payload = report.length
    port.reaped += 1


@step
def read_report(machine, n, p):
    """Process ``p`` reads the next report and frees its place for the NIC."""
    ports = machine.ports
    process = machine.processes[p]
    p_port = process.peer
    port = ports.table[n, p_port]
    if port.takes == layout.WORK_QUEUE:
        has_immediate = read_work(machine, n, p)
        process.own |= has_immediate << KIND_BITS
        return
    place = place_in(port.read, ports.rules[0].ring)
    report = ports.reports[n, p_port, layout.RECEIVED, place]
    process.packet = place
    process.payload = report.length
    process.tag = report.name
    process.address = report.status
    process.duration = report.offset
    process.own = report.operation | report.buffers << KIND_BITS
    process.peer = report.node
    if report.buffers == 0:
        inline = ports.report_bytes[n, p_port, place]
        copy_bytes(machine.store.control[p], 0, inline, 0, layout.INLINE_BYTES)
    # From here on the report's place is the NIC's again, at this very moment.
    for i in range(
        min(report.buffers, layout.BUFFERS)
    ):  # the process may have written into the report
        ports.filled[p, i] = ports.report_buffers[n, p_port, place, i]
    port.read += 1
    if port.ahead_waits == layout.AWAITS_READER:
        port.ahead_waits = layout.FREE_TO_GO
        ports.nodes[n].attention = 1


@routine
def read_any(machine, n, p):
    """Process ``p``, which follows a program trace, reads a report: of its descriptors first."""
    follower = machine.traced.followers[p]
    peer = np.int64(machine.processes[p].peer)
    follower.heard = NO_RING
    if _is_report_visible(machine, n, peer, layout.SENT):
        follower.heard = layout.SENT
        reap(machine, n, p)
    elif _is_report_visible(machine, n, peer, layout.RECEIVED):
        follower.heard = layout.RECEIVED
        read_report(machine, n, p)
