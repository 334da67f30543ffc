"""Messages that wait on a NIC whose memory the CPU reaches, and which does not reach the CPU's.

What a process posts is there before the doorbell, until its request has ended; what comes for a
buffer is there until the process has the report of it.  For what finds no room, and for what no
process has posted, the NIC interrupts its host (``assisting``).
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.frames import forget
from nicscope.memory.paging.pins import unpin_frame
from nicscope.nic.coherent.layout import NOWHERE
from nicscope.nic.coherent.tags import clear_tag, free_tag, room_for, set_tag, tag_over, use_tag
from nicscope.nic.ports.layout import ONE, SEND, WRITE
from nicscope.nic.ports.streams import taker_of
from nicscope.nic.ways.state import nic_of

NO_REQUEST = -1
NO_SERIAL = -1


@routine
def _take(machine, n, start, count, owner):
    """The tag of a new room for what lies, or would, at ``start`` of the host; or ``NOWHERE``."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = free_tag(nic)
    place = room_for(nic, count)
    if t == NOWHERE or place == NOWHERE:
        return np.int64(NOWHERE)
    set_tag(nic, t, start, start + count, place)
    use_tag(nic, t, owner)
    nic.tags[t].receive = NO_SERIAL
    return t


@routine
def take_for_request(machine, n, p, count):
    """Whether the descriptor that port ``p`` posts next has a room for its ``count`` bytes."""
    ports = machine.ports
    port = ports.table[n, p]
    slot = port.posted % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    room = machine.bus.rooms[n, p, slot]
    # It stands for no memory of the host: a region behind all of it.
    t = _take(machine, n, np.int64(machine.bus.hosts.memory.shape[1]), count, p)
    if t == NOWHERE:
        return False
    room.tag = t
    room.number = port.posted
    is_stored = request.operation == WRITE and port.takes != ONE
    room.first = request.offset if is_stored else 0
    room.count = count
    return True


@step
def place_for_request(machine, n, p):
    """Where the message of the descriptor that is posted next begins on the NIC."""
    port = machine.ports.table[n, p]
    room = machine.bus.rooms[n, p, port.posted % machine.ports.rules[0].ring]
    return machine.bus.ways.nics.tags[n, room.tag].nic_start


@distant
def leave_room(machine, n, p, slot):
    """The descriptor in ``slot`` of port ``p`` has ended: so has its room."""
    room = machine.bus.rooms[n, p, slot]
    if room.number != NO_REQUEST:
        room.number = NO_REQUEST
        clear_tag(nic_of(machine.bus.ways.nics, n), room.tag)


@routine
def take_out(machine, n, head, place, count):
    """Whether the bytes of a packet lie in its request's room: then they go to ``place``."""
    if head.kind not in (SEND, WRITE):
        return False
    room = machine.bus.rooms[n, head.from_port, head.slot]
    within = head.offset - room.first
    if room.number != head.cookie or within < 0 or within + count > room.count:
        return False
    memory = machine.bus.ways.agents.memory[n]
    start = machine.bus.ways.nics.tags[n, room.tag].nic_start + within
    copy_bytes(memory, place, memory, start, count)
    return True


@routine
def put_in(machine, n, packet, head, place, done, count):
    """Whether there is room for bytes that have come for a buffer: then they wait there.

    The buffer's page stays while they do.
    """
    if head.kind != SEND:
        return False
    channel = machine.ports.channels[n, head.name]
    p = np.int64(taker_of(machine.ports, n, head))
    nic = nic_of(machine.bus.ways.nics, n)
    if head.runs > 0:
        unit, within = _stretch_of_run(machine, n, head, packet.address + done)
        start = packet.address + done - within
        t = _room_of_receive(nic, p, serial_of(machine, n, p, head.receive), start)
    else:
        unit = np.int64(channel.unit)
        within = head.offset % unit + done
        start = packet.address + done - within
        t = tag_over(nic, start, start + unit)
    if t == NOWHERE and within == 0:
        t = _take(machine, n, start, unit, p)
        if t != NOWHERE:
            machine.ports.memory.frames[n, head.frame].pins += 1
            if head.runs > 0:
                nic.tags[t].receive = serial_of(machine, n, p, head.receive)
    if t == NOWHERE:
        return False
    memory = machine.bus.ways.agents.memory[n]
    copy_bytes(memory, nic.tags[t].nic_start + within, memory, place, count)
    nic.tags[t].used = within + count  # they come in order
    return True


@step
def _stretch_of_run(machine, n, head, address):
    """Bytes of what a receive's piece has in the page of the present run.

    And how many of them are before ``address``.
    """
    endpoint = machine.endpoints[n]
    run = machine.ports.work.runs[n, endpoint.drained % endpoint.receive_ring, head.run]
    page = np.int64(1) << machine.ports.rules[0].page_bits
    before = min(run.before, run.address % page)
    after = min(run.after, -(run.address + run.count) % page)
    return before + run.count + after, before + address - run.address


@step
def serial_of(machine, n, p, number):
    """What tells the receive of that number from others whose messages wait for the same memory."""
    receives = machine.ports.work.receives[n, p]
    return receives[number % receives.size].serial


@step
def _room_of_receive(nic, p, serial, start):
    """The room for what a receive has at ``start`` of the host, or ``NOWHERE``."""
    for t in range(nic.tags.size):
        tag = nic.tags[t]
        if tag.valid == 1 and tag.users == p and tag.receive == serial and tag.host_start == start:
            return np.int64(t)
    return np.int64(NOWHERE)


@step
def place_for_piece(machine, n, p, serial, start):
    """Where on the NIC that waits what has come for a receive's piece, or ``NOWHERE``."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = _room_of_receive(nic, p, serial, start)
    return t if t == NOWHERE else nic.tags[t].nic_start


@distant
def leave_receive_rooms(machine, n, p, number):
    """Port ``p`` is done with the receive of that number: so are rooms that stand for its pieces.

    A message that did not reach its end may have taken some.
    """
    nic = nic_of(machine.bus.ways.nics, n)
    serial = serial_of(machine, n, p, number)
    for t in range(nic.tags.size):
        if nic.tags[t].valid == 1 and nic.tags[t].users == p and nic.tags[t].receive == serial:
            _leave(machine, n, nic, t)


@step
def place_for_buffer(machine, n, address):
    """Where on the NIC that waits what has come for the buffer there, or ``NOWHERE``."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = tag_over(nic, address, address + 1)
    return t if t == NOWHERE else nic.tags[t].nic_start + (address - nic.tags[t].host_start)


@routine
def leave_buffer(machine, n, address):
    """What had come for the buffer at ``address`` is the process's now."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = tag_over(nic, address, address + 1)
    if t != NOWHERE:
        _leave(machine, n, nic, t)


@step
def _leave(machine, n, nic, t):
    memory = machine.ports.memory
    frame = nic.tags[t].host_start >> memory.config[0].page_shift
    unpin_frame(memory, n, np.int64(memory.frames[n, frame].pinner), frame)
    clear_tag(nic, t)


@distant
def leave_rooms(machine, n, p):
    """Port ``p`` has closed: the kernel moves what has come for its buffers to their memory.

    That takes no time on the bus, as all that the kernel does there beside the caches.
    """
    memory = machine.ports.memory
    nic = nic_of(machine.bus.ways.nics, n)
    for t in range(nic.tags.size):
        tag = nic.tags[t]
        if tag.valid == 1 and tag.users == p and tag.host_end <= memory.bytes.shape[1]:
            forget(memory.caches, n, tag.host_start, tag.used)
            source = machine.bus.ways.agents.memory[n]
            copy_bytes(memory.bytes[n], tag.host_start, source, tag.nic_start, tag.used)
            _leave(machine, n, nic, t)
