"""The CPU's part of a way in what a process asks of its port: before a doorbell, after a report.

Whether it is flushing or copying is the way's to say; here is which bytes, page by page: those of
a descriptor before it is posted, of a buffer before it is provided, of a message that is reported.
Of a page that is out there is nothing in the caches, and the NIC has it brought.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.machine import ACCESSING, CPU, KINDS, POST, PROVIDE, REPORT
from nicscope.drivers.simulate.ports.posting import is_lost
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.access import LOAD, WINDOW, begin_access
from nicscope.memory.coherence.asks import PROCESSOR
from nicscope.memory.paging.layout import PRESENT
from nicscope.nic.ports import BUFFERS, DONE, INLINE, RECEIVED, SEGMENTS, SEND, WRITE
from nicscope.nic.ways.state import DMA, PUBLISH, begin_move

NO_MORE = -1
OUT = -1  # in place of a physical address


@distant
def begin_errand(machine, n, p, now):
    """Whether the CPU has a part of the way to do before what ``p`` asked for takes effect."""
    if machine.bus.rules[n].way != DMA or is_lost(machine, n, p):
        return False
    errand = machine.bus.errands[n]
    errand.piece = 0
    errand.done = 0
    errand.told = 0
    if not next_piece(machine, n, p, now):
        return False
    machine.nodes[n].cpu = ACCESSING
    machine.nodes[n].cpu_since = now
    return True


@routine
def next_piece(machine, n, p, now):
    """Whether there is another piece for process ``p``; the CPU begins with it."""
    errand = machine.bus.errands[n]
    port = machine.ports.table[n, machine.processes[p].peer]
    page_size = np.int64(1) << machine.ports.rules[0].page_bits
    while True:
        address, count = _piece_of(machine, n, p)
        if count == NO_MORE:
            return False
        if errand.done == count:
            errand.piece += 1
            errand.told += count
            errand.done = 0
            continue
        at = address + errand.done
        size = min(count - errand.done, page_size - (at & (page_size - 1)))
        errand.done += size
        physical = _physical(machine, n, port.space, at)
        if physical != OUT:
            _begin(machine, n, physical, size, now)
            return True


@step
def _begin(machine, n, address, count, now):
    ways = machine.bus.ways
    way = machine.bus.rules[n].way
    begin_move(ways.moves[n, PROCESSOR], way, PUBLISH, address, np.int64(0), count)
    # Of nothing: then the way says what first.
    begin_access(ways.access[n, 0], LOAD, address, 0, 0, WINDOW)
    put(machine.agenda, n * KINDS + CPU, now)


@step
def _physical(machine, n, space, address):
    memory = machine.ports.memory
    shift = memory.config[0].page_shift
    if address < 0 or address >> shift >= memory.entries.shape[2]:
        return np.int64(OUT)
    entry = memory.entries[n, space, address >> shift]
    if entry.state != PRESENT:
        return np.int64(OUT)
    return (np.int64(entry.frame) << shift) + (address & (memory.config[0].page_size - 1))


@step
def _piece_of(machine, n, p):
    """Address and bytes of the piece that the errand is at; ``NO_MORE`` bytes behind the last."""
    operation = machine.processes[p].operation
    if operation == POST:
        return _segment(machine, n, machine.processes[p].peer)
    if operation == PROVIDE and machine.bus.errands[n].piece == 0:
        return machine.processes[p].address, machine.ports.rules[0].buffer
    if operation == REPORT and machine.processes[p].own & 1 == RECEIVED:
        return _filled(machine, n, machine.processes[p].peer)
    return np.int64(0), np.int64(NO_MORE)


@step
def _segment(machine, n, p):
    """Of the descriptor that is posted next, if its bytes are read from memory."""
    ports = machine.ports
    slot = ports.table[n, p].posted % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    piece = machine.bus.errands[n].piece
    is_read = request.operation in (SEND, WRITE) and request.options & INLINE == 0
    is_good = ports.pending[n, p, slot].status == DONE and piece < min(request.segments, SEGMENTS)
    if is_read and is_good:
        segment = ports.segments[n, p, slot, piece]
        room = ports.rules[0].space_bytes
        if 0 <= segment.address < room and 0 <= segment.length <= room - segment.address:
            return segment.address, segment.length
    return np.int64(0), np.int64(NO_MORE)


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
