"""The PCI engine of a NIC: hostTx and hostRcv, one at a time, slower while the CPU contends.

Its transfers keep the time of the bus, which another master may hold (``processor.py``).

Where a design's way goes over a coherent bus, the engine stands at that bus instead, and what it
moves is a move there (``bus/payloads.py``).
"""

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.flow import begin, change_rate, end_of, moved_by, time_of
from nicscope.drivers.simulate.host import contends
from nicscope.drivers.simulate.observe import DESCRIPTOR, HOST_RCV, HOST_TX, TABLE, log_transfer
from nicscope.drivers.simulate.ports.calls import (
    begin_fetch,
    begin_payload,
    check_transfer,
    end_descriptor_fetch,
    fetched_over_bus,
    on_engine_free,
)
from nicscope.drivers.simulate.ports.state import AWAIT_BUS, has_ports
from nicscope.drivers.simulate.processor import bus_time, when_bus_time
from nicscope.drivers.simulate.records import (
    KINDS,
    PCI,
    PCI_DESCRIPTOR,
    PCI_IDLE,
    PCI_READS,
    PCI_TABLE,
    PCI_WRITES,
)
from nicscope.drivers.simulate.store import deliver, fetch, has_bytes
from nicscope.kernel.decorators import step
from nicscope.nic.delivery import place_in, settle
from nicscope.nic.ports.calls import load_from_program, store_to_program
from nicscope.nic.ports.descriptor import put_atomic_result
from nicscope.nic.ports.layout import REPLY
from nicscope.nic.ports.streams import packets_of


@step
def pci_rate(machine, n):
    """Ps per byte of the node's PCI transfer, as things stand."""
    node = machine.nodes[n]
    costs = machine.costs[n]
    if node.pci == PCI_READS or node.pci == PCI_TABLE:
        if contends(node):
            return node.pci_starts + costs.pci_read_contended_per_byte
        return node.pci_starts + costs.pci_read_per_byte
    if contends(node):
        return node.pci_starts + costs.pci_write_contended_per_byte
    return node.pci_starts + costs.pci_write_per_byte


@step
def begin_pci(machine, n, now, direction, byte_count):
    """Begin a transfer between the host's memory and the NIC's."""
    node = machine.nodes[n]
    costs = machine.costs[n]
    node.pci = direction
    machine.endpoints[n].draining = 1 if direction == PCI_WRITES else 0
    if crosses_bus(machine, n):
        begin_payload(machine, n, byte_count, now)
        if has_ports(machine.ports):
            check_transfer(machine, n)
        return
    start = costs.pci_read_start if direction == PCI_READS else costs.pci_write_start
    node.pci_starts = _further_packets(machine, n, byte_count) * start // byte_count
    flow = machine.pci_flows[n]
    begin(flow, bus_time(node, now), start, byte_count, pci_rate(machine, n))
    flow.begun = now
    if has_ports(machine.ports):
        check_transfer(machine, n)
    put(machine.agenda, n * KINDS + PCI, when_bus_time(node, end_of(flow)))


@step
def _further_packets(machine, n, byte_count):
    """How many packets beside one the transfer that begins is for: of a burst, each has a start.

    Of a transfer to the host its bytes have been counted as taken.
    """
    if not has_ports(machine.ports) or machine.ports.rules[0].burst == 0:
        return np.int64(0)
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if node.pci == PCI_READS:
        return machine.ports.send_heads[n, place_in(node.fetching, endpoint.send_ring)].further
    head = machine.ports.arrival_heads[n, place_in(endpoint.drained, endpoint.receive_ring)]
    if head.further == 0:
        return head.further
    begin = head.offset + endpoint.drain_sunk - byte_count
    return packets_of(machine, n, head.peer, head, begin, byte_count) - 1


@step
def end_pci(machine, n, now):
    """Effect of the end of the node's PCI transfer."""
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    flow = machine.pci_flows[n]
    put(machine.agenda, n * KINDS + PCI, NEVER)
    node.pci_busy += now - flow.begun
    node.pci_starts = 0
    if node.pci == PCI_TABLE:
        node.pci = PCI_IDLE
        log_transfer(machine, TABLE, n, -1, -1, 0, flow.begun, now, 0)
        if crosses_bus(machine, n):
            on_engine_free(machine, n, now)
        return
    if node.pci == PCI_DESCRIPTOR:
        node.pci = PCI_IDLE
        log_transfer(machine, DESCRIPTOR, n, -1, -1, 0, flow.begun, now, flow.total)
        end_descriptor_fetch(machine, n)
        _release_engine(machine, n, now)
        return
    if has_ports(machine.ports):
        check_transfer(machine, n)
    if node.pci == PCI_READS:
        number = _end_fetch(machine, n, flow.total)
        log_transfer(machine, HOST_TX, n, n, number, 0, flow.begun, now, flow.total)
    else:
        endpoint.draining = 0
        packet = machine.arrivals[n, place_in(endpoint.drained, endpoint.receive_ring)]
        log_transfer(
            machine, HOST_RCV, n, packet.sender, packet.number, 0, flow.begun, now, flow.total
        )
        if has_bytes(machine.store) and not crosses_bus(machine, n):
            upto = endpoint.drain_sunk
            begin = upto - flow.total
            deliver(machine.store, n, packet, begin, upto)
            if mirrors_programs(machine):
                store_to_program(machine, n, np.int64(packet.address + begin), flow.total)
        settle(endpoint, machine.arrivals[n], False)
    node.pci = PCI_IDLE
    _release_engine(machine, n, now)


@step
def _end_fetch(machine, n, count):
    """Completes the fetch of the packet that is sent next; returns its number."""
    node = machine.nodes[n]
    place = place_in(node.fetching, machine.endpoints[n].send_ring)
    packet = machine.sends[n, place]
    if has_bytes(machine.store) and not crosses_bus(machine, n):
        fetch_payload(machine, n, place, count)
    node.fetching = -1
    return packet.number


@step
def fetch_payload(machine, n, place, upto):
    """Moves the bytes up to ``upto`` of the payload at ``place`` of the send ring to the NIC."""
    packet = machine.sends[n, place]
    if mirrors_programs(machine) and machine.store.marks[n, 0] == 0 and upto > 0:
        # The whole payload at once: a program may not change it before the request has ended.
        is_answer = np.int64(machine.ports.send_heads[n, place].kind == REPLY)
        address, count = np.int64(packet.address), np.int64(packet.payload)
        load_from_program(machine, n, address, count, is_answer)
    fetch(machine.store, n, packet, upto)
    if has_ports(machine.ports):
        put_atomic_result(machine, n, place)


@step
def mirrors_programs(machine):
    """Whether the hosts' memory stands for that of real processes."""
    return has_ports(machine.ports) and machine.ports.rules[0].mirrors == 1


@step
def _release_engine(machine, n, now):
    """Passes the engine to whoever waits for it, unless it is taken again."""
    if _waits_for_table(machine, n):
        begin_fetch(machine, n, now)
    if crosses_bus(machine, n):
        on_engine_free(machine, n, now)


@step
def _waits_for_table(machine, n):
    """Whether the processor of ``n`` waits to read its host's table by an engine that is idle."""
    if machine.nodes[n].pci != PCI_IDLE or not has_ports(machine.ports):
        return False
    return machine.ports.nodes[n].stage == AWAIT_BUS


@step
def retime_pci(machine, n, now):
    """Sets the PCI transfer to the rate allowed now."""
    node = machine.nodes[n]
    if node.pci == PCI_IDLE or crosses_bus(machine, n):
        return
    flow = machine.pci_flows[n]
    if change_rate(flow, bus_time(node, now), pci_rate(machine, n)):
        put(machine.agenda, n * KINDS + PCI, max(now, when_bus_time(node, end_of(flow))))


@step
def fetched_bytes(machine, n, now):
    """Payload bytes in NIC memory of the packet that hostTx is moving, if any."""
    if crosses_bus(machine, n):
        return fetched_over_bus(machine, n, now)
    return moved_by(machine.pci_flows[n], bus_time(machine.nodes[n], now))


@step
def when_fetched(machine, n, byte):
    """When ``byte`` bytes of what hostTx is moving will be in NIC memory, as things stand."""
    return when_bus_time(machine.nodes[n], time_of(machine.pci_flows[n], byte))


@step
def host_rcv_active(node):
    """Whether a transfer to the host is under way."""
    return node.pci == PCI_WRITES
