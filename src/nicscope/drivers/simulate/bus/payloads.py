"""What ports send and receive, over the bus: a packet's bytes are a move of the NIC's engine.

The engine is one, as on an I/O bus: it fetches or it delivers.  Bytes are in NIC memory when the
transaction that brings them has ended, so the link may take them before the move is over.
"""

from __future__ import annotations

from nicscope.clock import NEVER
from nicscope.drivers.simulate.bus.assisting import summon
from nicscope.drivers.simulate.bus.moving import end_at_once, start_move
from nicscope.drivers.simulate.bus.rooms import put_in, take_out
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.machine import PCI_READS
from nicscope.kernel.decorators import distant, step
from nicscope.memory.coherence.asks import ENGINE_IN, ENGINE_OUT
from nicscope.memory.coherence.watcher import WINDOW
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.ports.layout import SEND, WRITE
from nicscope.nic.ways.state import DELIVER, DMA, EDT, FETCH, INTERVENING, RETRYING


@distant
def begin_payload(machine, n, count, now):
    """Begin the move of ``count`` bytes of the packet that the engine of ``n`` is for."""
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
        if head.kind not in (SEND, WRITE) and not _is_nowhere(head):
            summon(machine, n, ENGINE_OUT, now)  # its process has flushed others
    elif _is_nowhere(head) or take_out(machine, n, head, place, count):
        end_at_once(machine, n, ENGINE_OUT, now)
    else:
        summon(machine, n, ENGINE_OUT, now)


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
            summon(machine, n, ENGINE_IN, now)
    elif _is_nowhere(head) or put_in(machine, n, packet, head, place, done, count):
        end_at_once(machine, n, ENGINE_IN, now)
    else:
        summon(machine, n, ENGINE_IN, now)


@step
def _is_nowhere(head):
    """Whether the packet's bytes are nobody's: those of the garbage page."""
    return head.frame == GARBAGE_FRAME


@step
def _is_expected(machine, n, packet, head):
    """Whether the process provided a buffer for this packet's bytes, and no block of it is more.

    Of another block the process may write its part while the engine writes the buffer's.  A piece
    of a receive is such a buffer.
    """
    if head.kind != SEND:
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
    """When the transaction ends that was granted ``back`` before the last one."""
    last = machine.bus.timing[n, ENGINE_OUT].transfers - 1
    return machine.bus.ends[n, ENGINE_OUT, (last - back) % WINDOW]


@distant
def fetched_over_bus(machine, n, now):
    """Payload bytes in NIC memory of the packet that is fetched."""
    m = machine.bus.ways.moves[n, ENGINE_OUT]
    granted = _blocks_upto(machine, n, m.done) if m.done > 0 else 0
    under_way = 0
    while under_way < min(granted, WINDOW) and _end_of(machine, n, under_way) > now:
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
    if back >= WINDOW:
        return machine.tally[0].now
    return max(machine.tally[0].now, _end_of(machine, n, back))
