"""What processes ask of ports with work queues: gathers, receives of several pieces, reports."""

from __future__ import annotations

import numpy as np

from nicscope.host.calls import leave_receive_rooms
from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.calls import flush_receives, refuse_receive
from nicscope.nic.ports.layout import BROKEN, DONE, NO_RIGHTS, ONE, PROTECTION, RECEIVED
from nicscope.nic.ports.regions import OWN, permits
from nicscope.nic.ports.tokens import address_of, bytes_of

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
def leave_to_nic(machine, n, p, slot):
    """What is no memory of the process is no registered memory either: that is the NIC's to say."""
    pending = machine.ports.pending[n, p, slot]
    if pending.status == NO_RIGHTS:
        pending.status = DONE


@step
def note_token(machine, n, process):
    """Note which descriptor the NIC has yet to fetch, if it fetches them."""
    ports = machine.ports
    if ports.table[n, process.peer].takes != ONE:
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
    receive.status = status if status != NO_RIGHTS else np.int64(PROTECTION)
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
        receive.status = found if found != DONE else receive.status  # who draws it says so
    elif port.state == BROKEN:
        flush_receives(machine, n, np.int64(process.peer))
    elif not _is_readable(machine, n, process):
        refuse_receive(machine, n, np.int64(process.peer), np.int64(PROTECTION), np.int64(1))
    elif found != DONE:
        refuse_receive(machine, n, np.int64(process.peer), np.int64(found), np.int64(0))


@step
def _is_readable(machine, n, process):
    """Whether the NIC may read the descriptor that a process has posted, if it is in memory."""
    token = np.int64(process.address)
    count = bytes_of(token)
    port, key = np.int64(process.peer), np.int64(process.tag)
    return count == 0 or permits(machine, n, port, key, address_of(token), count, OWN)


@step
def read_work(machine, n, p):
    """What process ``p`` reads of how its oldest receive ended; 1 if a word came with it."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    report = ports.reports[n, process.peer, RECEIVED, place_in(port.read, ports.rules[0].ring)]
    process.packet = report.cookie
    process.payload = report.length
    process.tag = report.name
    process.address = report.status
    process.duration = report.offset
    process.own = report.operation
    if ports.rules[0].rooms == 1:
        leave_receive_rooms(machine, n, np.int64(process.peer), np.int64(port.read))
    process.peer = report.node
    port.read += 1
    return report.buffers


@step
def take_entry(machine, n, process):
    """The process knows at which port something has ended, and on which side."""
    work = machine.ports.work
    queue = work.queues[n, process.peer]
    entry = work.entries[n, process.peer, queue.read % work.entries.shape[2]]
    process.packet = entry.port
    process.tag = entry.side
    queue.read += 1
