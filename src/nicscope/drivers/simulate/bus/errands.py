"""The CPU's part of a way in what a process asks of its port: up to a doorbell, after a report.

The doorbell is an uncached store, behind whatever stores are still being combined.  Whether what
comes before it is flushing or copying is the way's to say; here is which bytes, page by page: those
of a descriptor before it is posted, of a buffer before it is provided, of a message that is
reported.  Of a page that is out there is nothing in the caches, and the NIC has it brought.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.descriptors import hand_descriptor
from nicscope.drivers.simulate.bus.engine import await_engine, is_engine_free
from nicscope.drivers.simulate.bus.rooms import (
    leave_buffer,
    leave_room,
    place_for_buffer,
    place_for_piece,
    place_for_request,
    serial_of,
    take_for_request,
)
from nicscope.drivers.simulate.bus.stretches import (
    NO_WORK,
    OUT,
    begin_stretch,
    physical_of,
    turn_to,
)
from nicscope.drivers.simulate.bus.telling import (
    BYTES,
    ENTRY_BYTES,
    entry_address,
    report_address,
)
from nicscope.drivers.simulate.machine import (
    ACCESSING,
    AWAIT_QUEUE,
    CPU,
    KINDS,
    POST,
    PROVIDE,
    REPORT,
)
from nicscope.drivers.simulate.ports.posting import is_lost
from nicscope.drivers.simulate.ports.reporting import has_word, hears
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.access import DOORBELL, LOAD, SCRATCH, begin_access
from nicscope.memory.coherence.asks import PROCESSOR
from nicscope.nic.coherent.layout import NOWHERE
from nicscope.nic.ports.layout import BUFFERS, DONE, INLINE, ONE, RECEIVED, SEND, WRITE
from nicscope.nic.ports.lookup import until_page_ends
from nicscope.nic.ports.scatter import piece_at
from nicscope.nic.ways.state import (
    CNI,
    COLLECT,
    DMA,
    EDT,
    INTERVENING,
    NO_CALL,
    PUBLISH,
    RETRYING,
)

NO_MORE = -1


@distant
def begin_errand(machine, n, p, now):
    """Whether the CPU has a part of the way to do before what ``p`` asked for takes effect."""
    if is_lost(machine, n, p):
        return False
    errand = machine.bus.errands[n]
    errand.piece = 0
    errand.done = 0
    errand.told = 0
    errand.written = 0
    errand.handed = 0
    errand.rung = 0
    errand.work = NO_WORK
    if not _moves(machine, n, p):
        errand.piece = NO_MORE
    if not next_part(machine, n, p, now):
        return False
    machine.nodes[n].cpu = ACCESSING
    machine.nodes[n].cpu_since = now
    return True


@step
def _moves(machine, n, p):
    """Whether the CPU may have bytes to flush or to move for this operation."""
    way = machine.bus.rules[n].way
    if machine.processes[p].operation == AWAIT_QUEUE:
        return False
    if way == DMA:
        return True
    return way not in (RETRYING, INTERVENING, EDT) and _has_room(machine, n, p)


@routine
def next_part(machine, n, p, now):
    """Whether the CPU has more to do, which it begins.

    A report to read, pieces to move, the doorbell to ring.
    """
    errand = machine.bus.errands[n]
    if errand.rung == 0 and hears(machine.processes[p].operation):
        errand.rung = 1
        turn_to(machine, n, ACCESSING, now)
        _read_word(machine, n, p, now)
        return True
    if hand_descriptor(machine, n, p, now):
        return True
    if errand.piece != NO_MORE and _next_piece(machine, n, p, now):
        return True
    errand.piece = NO_MORE
    if errand.rung == 1 or not _rings(machine, n, p):
        return False
    errand.rung = 1
    turn_to(machine, n, ACCESSING, now)
    ways = machine.bus.ways
    zero, count = np.int64(0), ways.nics.config[n, 0].doorbell_bytes
    ways.moves[n, PROCESSOR].call = NO_CALL
    begin_access(ways.access[n, 0], DOORBELL, zero, zero, count, SCRATCH)
    put(machine.agenda, n * KINDS + CPU, now)
    return True


@step
def _read_word(machine, n, p, now):
    """Load what the NIC has written, or will; its bytes go nowhere that a program sees."""
    process = machine.processes[p]
    count = np.int64(BYTES)
    if process.operation == AWAIT_QUEUE:
        number = machine.ports.work.queues[n, process.peer].read
        address = entry_address(machine, n, process.peer, number)
        count = np.int64(ENTRY_BYTES)
    else:
        port = machine.ports.table[n, process.peer]
        ring = process.own & 1
        number = port.read if ring == RECEIVED else port.reaped
        address = report_address(machine, n, process.peer, ring, number)
    machine.bus.ways.moves[n, PROCESSOR].call = NO_CALL
    begin_access(machine.bus.ways.access[n, 0], LOAD, address, 0, count, SCRATCH)
    put(machine.agenda, n * KINDS + CPU, now)


@step
def _rings(machine, n, p):
    """Whether the NIC is to be told: not of what the library could not have pinned."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    if port.open == 0 or process.operation not in (POST, PROVIDE):
        return False
    slot = port.posted % ports.rules[0].ring
    return process.operation == PROVIDE or ports.pending[n, process.peer, slot].status == DONE


@step
def _has_room(machine, n, p):
    """Whether what is posted has a room on the NIC now, or what is reported may lie in some."""
    operation = machine.processes[p].operation
    if operation == POST:
        port = machine.processes[p].peer
        total = _message_bytes(machine, n, port)
        return total > 0 and take_for_request(machine, n, port, total)
    return operation == REPORT


@step
def _message_bytes(machine, n, p):
    """Bytes of the descriptor that port ``p`` posts next, if they are read from memory."""
    total = np.int64(0)
    for i in range(machine.ports.segments.shape[3]):
        _, count = _segment(machine, n, p, i)
        total += max(count, 0)
    return total


@routine
def _next_piece(machine, n, p, now):
    """Whether there is another piece for process ``p``; the CPU begins with it."""
    errand = machine.bus.errands[n]
    port = machine.ports.table[n, machine.processes[p].peer]
    page_size = np.int64(1) << machine.ports.rules[0].page_bits
    while True:
        address, count = _piece_of(machine, n, p)
        if count == NO_MORE:
            return False
        if errand.done == count:
            _end_piece(machine, n, p, address)
            errand.piece += 1
            errand.told += count
            errand.done = 0
            continue
        at = address + errand.done
        size = min(count - errand.done, page_size - (at & (page_size - 1)))
        begun = errand.told + errand.done
        errand.done += size
        physical = physical_of(machine, n, port.space, at)
        if machine.bus.rules[n].way == CNI and not is_engine_free(machine, n):
            errand.done -= size
            await_engine(machine, n)
            return True
        if machine.bus.rules[n].way == DMA:
            if physical != OUT:
                begin_stretch(machine, n, PUBLISH, physical, np.int64(0), size, now)
                return True
        elif machine.processes[p].operation == REPORT:
            place = _waiting_place(machine, n, p, physical)
            if place != NOWHERE:
                begin_stretch(machine, n, COLLECT, physical, place, size, now)
                return True
        elif physical == OUT:  # the NIC asks for it when it is there
            leave_room(machine, n, machine.processes[p].peer, _slot(machine, port))
            return False
        else:
            place = place_for_request(machine, n, machine.processes[p].peer) + begun
            begin_stretch(machine, n, PUBLISH, physical, place, size, now)
            return True


@step
def _waiting_place(machine, n, p, physical):
    """Where on the NIC that waits what is reported next to process ``p`` and belongs there."""
    if physical == OUT:
        return np.int64(NOWHERE)
    port = machine.processes[p].peer
    if not _takes_one(machine, n, p):
        return place_for_buffer(machine, n, physical)
    serial = serial_of(machine, n, port, machine.ports.table[n, port].read)
    return place_for_piece(machine, n, port, serial, physical)


@step
def _slot(machine, port):
    return port.posted % machine.ports.rules[0].ring


@step
def _end_piece(machine, n, p, address):
    """The CPU is done with a piece: what it collected need not wait on the NIC any more."""
    if _takes_one(machine, n, p):
        return  # all of its receive when that has been read
    if machine.bus.rules[n].way != DMA and machine.processes[p].operation == REPORT:
        space = machine.ports.table[n, machine.processes[p].peer].space
        physical = physical_of(machine, n, space, address)
        if physical != OUT:
            leave_buffer(machine, n, physical)


@step
def _piece_of(machine, n, p):
    """Address and bytes of the piece that the errand is at; ``NO_MORE`` bytes behind the last."""
    operation = machine.processes[p].operation
    if operation == POST:
        return _segment(machine, n, machine.processes[p].peer, machine.bus.errands[n].piece)
    if operation == PROVIDE and _takes_one(machine, n, p):
        return _gathered(machine, p, machine.bus.errands[n].piece)
    if operation == PROVIDE and machine.bus.errands[n].piece == 0:
        return machine.processes[p].address, machine.ports.rules[0].buffer
    if operation == REPORT and machine.processes[p].own & 1 == RECEIVED and has_word(machine, n, p):
        if _takes_one(machine, n, p):
            return _scattered(machine, n, machine.processes[p].peer)
        return _filled(machine, n, machine.processes[p].peer)
    return np.int64(0), np.int64(NO_MORE)


@step
def _segment(machine, n, p, piece):
    """Of the descriptor that is posted next, if its bytes are read from memory."""
    ports = machine.ports
    slot = ports.table[n, p].posted % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    is_read = request.operation in (SEND, WRITE) and request.options & INLINE == 0
    most = min(request.segments, ports.segments.shape[3])
    is_good = ports.pending[n, p, slot].status == DONE and piece < most
    if is_read and is_good:
        segment = ports.segments[n, p, slot, piece]
        room = ports.rules[0].space_bytes
        if 0 <= segment.address < room and 0 <= segment.length <= room - segment.address:
            return segment.address, segment.length
    return np.int64(0), np.int64(NO_MORE)


@step
def _takes_one(machine, n, p):
    """Whether the port that process ``p`` asks something of takes a receive for each message."""
    return machine.ports.table[n, machine.processes[p].peer].takes == ONE


@step
def _gathered(machine, p, piece):
    """Of the receive that process ``p`` posts."""
    if piece < machine.processes[p].payload:
        room = machine.ports.rules[0].space_bytes
        given = machine.ports.gathers[p, piece]
        if 0 <= given.address < room and 0 <= given.length <= room - given.address:
            return given.address, given.length
    return np.int64(0), np.int64(NO_MORE)


@step
def _scattered(machine, n, p):
    """Of the message in the report that is read next, what its receive's pieces have of it.

    Page by page, as each may have its room.
    """
    ports = machine.ports
    number = ports.table[n, p].read
    report = ports.reports[n, p, RECEIVED, number % ports.rules[0].ring]
    told = machine.bus.errands[n].told
    if report.operation != SEND or told >= report.length:
        return np.int64(0), np.int64(NO_MORE)
    place = number % ports.work.receives.shape[2]
    pieces = ports.work.pieces[n, p, place]
    i, within = piece_at(pieces, ports.work.receives[n, p, place].segments, told)
    address = pieces[i].address + within
    left = min(pieces[i].length - within, report.length - told)
    return address, until_page_ends(machine, address, left)


@step
def _filled(machine, n, p):
    """Of the message in the report that is read next, what each buffer has of it."""
    ports = machine.ports
    place = ports.table[n, p].read % ports.rules[0].ring
    report = ports.reports[n, p, RECEIVED, place]
    errand = machine.bus.errands[n]
    left = report.length - errand.told
    if report.operation != SEND or errand.piece >= min(report.buffers, BUFFERS) or left <= 0:
        return np.int64(0), np.int64(NO_MORE)
    address = ports.report_buffers[n, p, place, errand.piece]
    return address, min(left, ports.rules[0].buffer)
