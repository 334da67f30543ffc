"""What ports send and receive over the bus, and messages staged in the NIC's memory."""

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.bus.moves import end_at_once, interrupt_host, start_move
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.records import PCI_READS
from nicscope.kernel.decorators import copy_bytes, distant, routine, step
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT, READS_AT_ONCE, forget
from nicscope.memory.paging.frames import unpin_frame
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic import coherent
from nicscope.nic.ports import layout
from nicscope.nic.ports.streams import destination_port_of
from nicscope.nic.ways.state import DELIVER, DMA, EDT, FETCH, INTERVENING, RETRYING, nic_of

NO_REQUEST = -1
NO_SERIAL = -1


@routine
def _allocate_tag(machine, n, start, count, owner):
    """Allocates a NIC buffer for the range at ``start`` of the host: its tag, or ``NOWHERE``."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = coherent.free_tag(nic)
    place = coherent.find_buffer_space(nic, count)
    if t == coherent.NOWHERE or place == coherent.NOWHERE:
        return np.int64(coherent.NOWHERE)
    coherent.set_tag(nic, t, start, start + count, place)
    coherent.use_tag(nic, t, owner)
    nic.tags[t].receive = NO_SERIAL
    return t


@routine
def reserve_request_buffer(machine, n, p, count):
    """Reserves a NIC buffer of ``count`` bytes for port ``p``'s next descriptor; False if none."""
    ports = machine.ports
    port = ports.table[n, p]
    slot = port.posted % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    room = machine.bus.rooms[n, p, slot]
    # It stands for no memory of the host: a region behind all of it.
    t = _allocate_tag(machine, n, np.int64(machine.bus.hosts.memory.shape[1]), count, p)
    if t == coherent.NOWHERE:
        return False
    room.tag = t
    room.number = port.posted
    is_stored = request.operation == layout.WRITE and port.takes != layout.WORK_QUEUE
    room.first = request.offset if is_stored else 0
    room.count = count
    return True


@step
def request_buffer_start(machine, n, p):
    """Where on the NIC the message of the next descriptor begins."""
    port = machine.ports.table[n, p]
    room = machine.bus.rooms[n, p, port.posted % machine.ports.rules[0].ring]
    return machine.bus.ways.nics.tags[n, room.tag].nic_start


@distant
def free_descriptor_buffer(machine, n, p, slot):
    """Frees the NIC buffer of the descriptor in ``slot`` of port ``p``, which has ended."""
    room = machine.bus.rooms[n, p, slot]
    if room.number != NO_REQUEST:
        room.number = NO_REQUEST
        coherent.clear_tag(nic_of(machine.bus.ways.nics, n), room.tag)


@routine
def read_request_buffer(machine, n, head, place, count):
    """Copies a packet's bytes from its request's NIC buffer to ``place``; False: not there."""
    if head.kind not in (layout.SEND, layout.WRITE):
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
def stage_arrival(machine, n, packet, head, place, done, count):
    """Stages received bytes in a NIC buffer; False if none is free.

    The buffer's page stays while they do.
    """
    if head.kind != layout.SEND:
        return False
    channel = machine.ports.channels[n, head.name]
    p = np.int64(destination_port_of(machine.ports, n, head))
    nic = nic_of(machine.bus.ways.nics, n)
    if head.runs > 0:
        unit, within = _segment_of_run(machine, n, head, packet.address + done)
        start = packet.address + done - within
        t = _buffer_of_receive(nic, p, serial_of(machine, n, p, head.receive), start)
    else:
        unit = np.int64(channel.unit)
        within = head.offset % unit + done
        start = packet.address + done - within
        t = coherent.tag_covering(nic, start, start + unit)
    if t == coherent.NOWHERE and within == 0:
        t = _allocate_tag(machine, n, start, unit, p)
        if t != coherent.NOWHERE:
            machine.ports.memory.frames[n, head.frame].pins += 1
            if head.runs > 0:
                nic.tags[t].receive = serial_of(machine, n, p, head.receive)
    if t == coherent.NOWHERE:
        return False
    memory = machine.bus.ways.agents.memory[n]
    copy_bytes(memory, nic.tags[t].nic_start + within, memory, place, count)
    nic.tags[t].used = within + count  # they come in order
    return True


@step
def _segment_of_run(machine, n, head, address):
    """Bytes of the receive's segment in the page of the present run.

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
    """Serial that tells this receive from others whose messages wait for the same memory."""
    receives = machine.ports.work.receives[n, p]
    return receives[number % receives.size].serial


@step
def _buffer_of_receive(nic, p, serial, start):
    """Tag of the NIC buffer for the receive's segment at host address ``start``, or ``NOWHERE``."""
    for t in range(nic.tags.size):
        tag = nic.tags[t]
        if tag.valid == 1 and tag.users == p and tag.receive == serial and tag.host_start == start:
            return np.int64(t)
    return np.int64(coherent.NOWHERE)


@step
def staged_piece(machine, n, p, serial, start):
    """Where on the NIC data received for a receive's segment is staged, or ``NOWHERE``."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = _buffer_of_receive(nic, p, serial, start)
    return t if t == coherent.NOWHERE else nic.tags[t].nic_start


@distant
def free_receive_buffers(machine, n, p, number):
    """Frees the NIC buffers of the segments of port ``p``'s receive ``number``, which is done.

    A message that did not reach its end may have taken some.
    """
    nic = nic_of(machine.bus.ways.nics, n)
    serial = serial_of(machine, n, p, number)
    for t in range(nic.tags.size):
        if nic.tags[t].valid == 1 and nic.tags[t].users == p and nic.tags[t].receive == serial:
            _free_tag(machine, n, nic, t)


@step
def staged_buffer(machine, n, address):
    """Where on the NIC data received for the buffer at ``address`` is staged, or ``NOWHERE``."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = coherent.tag_covering(nic, address, address + 1)
    return (
        t if t == coherent.NOWHERE else nic.tags[t].nic_start + (address - nic.tags[t].host_start)
    )


@routine
def free_staged_buffer(machine, n, address):
    """Frees the NIC buffer of the buffer at ``address``, whose bytes the process has taken."""
    nic = nic_of(machine.bus.ways.nics, n)
    t = coherent.tag_covering(nic, address, address + 1)
    if t != coherent.NOWHERE:
        _free_tag(machine, n, nic, t)


@step
def _free_tag(machine, n, nic, t):
    memory = machine.ports.memory
    frame = nic.tags[t].host_start >> memory.config[0].page_shift
    unpin_frame(memory, n, np.int64(memory.frames[n, frame].pinner), frame)
    coherent.clear_tag(nic, t)


@distant
def free_port_buffers(machine, n, p):
    """Has the kernel copy staged data of the closed port ``p`` to host memory; frees its buffers.

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
            _free_tag(machine, n, nic, t)


@distant
def begin_payload(machine, n, count, now):
    """Begins the move of ``count`` payload bytes of the packet that the engine of ``n`` serves."""
    begin(machine.pci_flows[n], now, 0, count, 1)  # for the log
    if machine.nodes[n].pci == PCI_READS:
        _begin_fetch(machine, n, count, now)
    else:
        _begin_delivery(machine, n, count, now)


@step
def _begin_fetch(machine, n, count, now):
    rules = machine.bus.rules[n]
    slot = machine.nodes[n].fetching % machine.endpoints[n].send_ring
    packet = machine.sends[n, slot]
    place = packet.buffer * rules.buffer
    start_move(machine, n, ENGINE_OUT, rules.way, FETCH, packet.address, place, count, now)
    if rules.way in (RETRYING, INTERVENING, EDT):
        return
    head = machine.ports.send_heads[n, slot]
    if rules.way == DMA:
        if head.kind not in (layout.SEND, layout.WRITE) and not _is_nowhere(head):
            interrupt_host(machine, n, ENGINE_OUT, now)  # its process has flushed others
    elif _is_nowhere(head) or read_request_buffer(machine, n, head, place, count):
        end_at_once(machine, n, ENGINE_OUT, now)
    else:
        interrupt_host(machine, n, ENGINE_OUT, now)


@step
def _begin_delivery(machine, n, count, now):
    rules = machine.bus.rules[n]
    endpoint = machine.endpoints[n]
    slot = endpoint.drained % endpoint.receive_ring
    packet = machine.arrivals[n, slot]
    done = endpoint.drain_sunk - count
    place = rules.receives + packet.buffer * rules.buffer + done
    address = packet.address + done
    start_move(machine, n, ENGINE_IN, rules.way, DELIVER, address, place, count, now)
    if rules.way in (RETRYING, INTERVENING, EDT):
        return
    head = machine.ports.arrival_heads[n, slot]
    if rules.way == DMA:
        if not (_is_expected(machine, n, packet, head) or _is_nowhere(head)):
            interrupt_host(machine, n, ENGINE_IN, now)
    elif _is_nowhere(head) or stage_arrival(machine, n, packet, head, place, done, count):
        end_at_once(machine, n, ENGINE_IN, now)
    else:
        interrupt_host(machine, n, ENGINE_IN, now)


@step
def _is_nowhere(head):
    """Whether the packet's bytes are those of the garbage page, which is nobody's."""
    return head.frame == GARBAGE_FRAME


@step
def _is_expected(machine, n, packet, head):
    """Whether the process provided a buffer for this packet's bytes, and no block of it is more.

    Of another block the process may write its part while the engine writes the buffer's.  A piece
    of a receive is such a buffer.
    """
    if head.kind != layout.SEND:
        return False
    block = machine.bus.ways.nics.config[n, 0].block
    if head.runs > 0:
        endpoint = machine.endpoints[n]
        run = machine.ports.work.runs[n, endpoint.drained % endpoint.receive_ring, head.run]
        end = run.address + run.count
        return run.address % block <= run.before and -end % block <= run.after
    unit = machine.ports.channels[n, head.name].unit
    return (packet.address - head.offset % unit) % block == 0 and unit % block == 0


@step
def _blocks_upto(machine, n, count):
    """Blocks that the first ``count`` bytes of what is fetched lie in."""
    block = machine.bus.ways.nics.config[n, 0].block
    within = machine.bus.ways.moves[n, ENGINE_OUT].address % block
    return (within + count + block - 1) // block


@step
def _end_of(machine, n, back):
    """When the transaction ends that was granted ``back`` transactions before the last one."""
    last = machine.bus.timing[n, ENGINE_OUT].transfers - 1
    return machine.bus.ends[n, ENGINE_OUT, (last - back) % READS_AT_ONCE]


@distant
def fetched_over_bus(machine, n, now):
    """Payload bytes in NIC memory of the packet that is fetched."""
    m = machine.bus.ways.moves[n, ENGINE_OUT]
    granted = _blocks_upto(machine, n, m.done) if m.done > 0 else 0
    under_way = 0
    while under_way < min(granted, READS_AT_ONCE) and _end_of(machine, n, under_way) > now:
        under_way += 1
    if under_way == 0:
        return m.done
    block = machine.bus.ways.nics.config[n, 0].block
    return max(0, (granted - under_way) * block - m.address % block)


@distant
def fetched_at(machine, n, count):
    """When ``count`` bytes of it will be there, as far as that is settled, else ``NEVER``."""
    m = machine.bus.ways.moves[n, ENGINE_OUT]
    if m.done < count:
        return NEVER
    back = _blocks_upto(machine, n, m.done) - _blocks_upto(machine, n, count)
    if back >= READS_AT_ONCE:
        return machine.tally[0].now
    return max(machine.tally[0].now, _end_of(machine, n, back))
