"""The network side: netTx and netRcv in lockstep over a held path, and faults on the way."""

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.flow import NO_RATE, begin, change_rate, end_of, moved_by
from nicscope.drivers.simulate.observe import NET_RCV, NET_TX, keep_message, log_transfer
from nicscope.drivers.simulate.ports.calls import capture_packet, receive_header
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.drivers.simulate.records import (
    FLOWING,
    HEADING,
    KINDS,
    LINK,
    LINK_IDLE,
    PATHS,
    PCI_IDLE,
    QUEUED,
    STALLED,
    STARTING,
    WATCHDOG,
)
from nicscope.drivers.simulate.store import carry, copy_control, has_bytes
from nicscope.drivers.simulate.wire import (
    arriving_flight,
    begin_payload_arrival,
    end_arrival,
    enter_wire,
    is_far_end,
    leaves_by_wire,
    want_flight,
)
from nicscope.fabric.faults import CORRUPTED, LOST, fate, is_dead
from nicscope.fabric.paths import (
    NOBODY,
    acquire,
    leave_queue,
    link_of,
    needs_path,
    path_length,
    path_to,
    release,
)
from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.nic.aal5 import framing_of
from nicscope.nic.delivery import CONTROL, CONTROL_BYTES, NOTHING, PAYLOAD, place_in
from nicscope.nic.ports.cells import bytes_of_header, pdu_bytes
from nicscope.nic.transfers import accept_header, end_transmission

PORTS = 2  # of a NIC's memory
CUT_OFF = 16  # beside what ``fabric.faults`` names


@step
def is_cut_off(machine, s, d, now):
    """Whether a node or a link between ``s``, whose packet is on its path, and ``d`` is dead."""
    deaths = machine.ports.deaths
    if is_dead(deaths.nodes, s, now) or is_dead(deaths.nodes, d, now):
        return True
    if s == d:
        return False  # it goes over no link
    carrier = machine.nodes[d].source  # itself, or the far end of its wire
    for place in range(path_length(machine.paths, carrier)):  # that the packet is on
        if is_dead(deaths.links, link_of(machine.paths, carrier, place), now):
            return True
    return False


@step
def classify_packet(machine, packet, arrival, now):
    """Decides, once its header is in, the fate of a packet that no port checks."""
    if is_cut_off(machine, packet.sender, packet.destination, now):
        arrival.fate = CUT_OFF
        return
    befell = fate(machine.ports.faults[0], packet.sender, packet.number, 0)
    if befell & LOST:
        arrival.fate = LOST
    elif befell & CORRUPTED:
        arrival.fate = CORRUPTED


@step
def count_corrupted(node, packet):
    """Counts for the observer a packet that the firmware drops as the network corrupted it."""
    node.lost += packet.fate == LOST
    node.corrupted += packet.fate == CORRUPTED
    node.cut_off += packet.fate == CUT_OFF


@step
def place_sending(machine, s):
    """Where in the send ring of ``s`` the packet is that netTx is about."""
    endpoint = machine.endpoints[s]
    return place_in(endpoint.sent, endpoint.send_ring)


@step
def sending(machine, s):
    """The packet that netTx of ``s`` is about."""
    if is_far_end(machine, s):
        return machine.wire.packets[arriving_flight(machine, s)]
    return machine.sends[s, place_sending(machine, s)]


@step
def accepted_last(machine, d):
    """The packet that ``d`` accepted last."""
    endpoint = machine.endpoints[d]
    return machine.arrivals[d, place_in(endpoint.accepted - 1, endpoint.receive_ring)]


@step
def accepted_bytes(machine, d, now):
    """Payload bytes in NIC memory of the packet that was accepted last."""
    node = machine.nodes[d]
    arrived = machine.endpoints[d].arrived
    s = node.source
    if s == NOBODY or machine.nodes[s].link != FLOWING or machine.nodes[s].link_control == 1:
        return arrived
    return arrived + _moved(machine, s, now)


@step
def _moved(machine, s, now):
    """Bytes that a flow of ``s`` has moved, its padding and trailer aside."""
    return min(moved_by(machine.link_flows[s], now), machine.nodes[s].link_bytes)


@step
def header_bytes(machine, s):
    """Bytes that go before the payload of the packet that netTx of ``s`` is about.

    A link of cells tells a message's tag in the header of each, and its length in the trailer: what
    a U-Net descriptor holds is all that goes in them besides.
    """
    if machine.costs[s].cell_bytes > 0 and has_ports(machine.ports):
        head = machine.ports.send_heads[s, place_sending(machine, s)]
        return bytes_of_header(machine.ports, s, head, machine.endpoints[s].control_bytes)
    return np.int64(machine.endpoints[s].control_bytes)


@step
def _frame(machine, s, control):
    """Bytes of padding and trailer that follow a transfer of ``s``, whose cells are counted.

    None but behind the last bytes of what is sent as one.  Of a burst: what the headers of its
    packets, and their ways through switches, take, but for the first.
    """
    costs = machine.costs[s]
    has_bursts = has_ports(machine.ports) and machine.ports.rules[0].burst > 0
    if costs.cell_bytes == 0 and not has_bursts:
        return np.int64(0)
    endpoint = machine.endpoints[s]
    packet = sending(machine, s)
    last = packet.payload if control == 0 else np.int64(0)
    if endpoint.sunk != last or (control == 1 and packet.payload > 0):
        return np.int64(0)
    if has_bursts:
        head = machine.ports.send_heads[s, place_sending(machine, s)]
        way = machine.paths.routes.hops[machine.paths.path[s]] * costs.switch_hop
        return head.further * (endpoint.control_bytes + way // costs.link_per_byte)
    data = np.int64(endpoint.control_bytes + packet.payload)
    if has_ports(machine.ports):
        head = machine.ports.send_heads[s, place_sending(machine, s)]
        data = pdu_bytes(machine.ports, s, head, packet.payload, endpoint.control_bytes)
    if data < 0:
        return np.int64(0)
    framing = framing_of(data, costs.cell_bytes, costs.trailer_bytes)
    machine.nodes[s].cells += (data + framing) // costs.cell_bytes
    return framing


@step
def begin_link(machine, s, now, control, byte_count):
    """Begins a netTx transfer with its start-up.

    What begins with it is a packet's way, whose path must have been made when that ends.  Of a
    later transfer a start-up that takes no time is no event.
    """
    node = machine.nodes[s]
    if control == 1 and needs_path(machine.paths, s, sending(machine, s).destination):
        machine.tally[0].wants |= PATHS
    if control == 1 and leaves_by_wire(machine, s):
        want_flight(machine)
    node.link = STARTING
    node.link_control = control
    node.link_bytes = byte_count
    node.link_framing = _frame(machine, s, control)
    node.link_begun = now
    if control == 0 and machine.costs[s].link_start == 0:
        node.link = STALLED
    else:
        put(machine.agenda, s * KINDS + LINK, now + machine.costs[s].link_start)


@step
def end_link_stage(machine, s, now):
    """Ends a netTx transfer's start-up, or the way of its head."""
    node = machine.nodes[s]
    put(machine.agenda, s * KINDS + LINK, NEVER)
    if node.link == STARTING and node.link_control == 1:
        d = sending(machine, s).destination
        machine.paths.path[s] = path_to(machine.paths, s, d)
        machine.paths.held[s] = 0
        node.link = QUEUED
        _take_links(machine, s, now)
        return
    if node.link == HEADING and not leaves_by_wire(machine, s):
        machine.nodes[sending(machine, s).destination].source = s
    node.link = STALLED


@routine
def _take_links(machine, s, now):
    whole = acquire(machine.paths, s)
    watch_path(machine, s, now)
    if whole:
        node = machine.nodes[s]
        node.link = HEADING
        hops = machine.paths.routes.hops[machine.paths.path[s]]
        put(machine.agenda, s * KINDS + LINK, now + hops * machine.costs[s].switch_hop)


@step
def watch_path(machine, s, now):
    """Set the watchdog once the sender holds its first link."""
    slot = s * KINDS + WATCHDOG
    limit = machine.costs[s].link_watchdog
    if limit > 0 and machine.paths.held[s] > 0 and machine.agenda.times[slot] == NEVER:
        put(machine.agenda, slot, now + limit)


@step
def start_if_receive_posted(machine, s, now):
    """Starts a stalled transfer if its receiver has posted a receive; whether it has.

    A wire takes what comes.
    """
    node = machine.nodes[s]
    if node.link != STALLED:
        return False
    if not leaves_by_wire(machine, s):
        posted = machine.endpoints[sending(machine, s).destination].posted
        if posted != (CONTROL if node.link_control == 1 else PAYLOAD):
            return False
    node.link = FLOWING
    begin(machine.link_flows[s], now, 0, node.link_bytes + node.link_framing, NO_RATE)
    return True


@step
def end_flow(machine, s, now):
    """Effect of a netTx transfer's last byte."""
    node = machine.nodes[s]
    endpoint = machine.endpoints[s]
    packet = sending(machine, s)
    d = packet.destination
    control = node.link_control
    put(machine.agenda, s * KINDS + LINK, NEVER)
    node.link = LINK_IDLE
    if not is_far_end(machine, s):
        node.link_busy += now - node.link_begun
        log_transfer(
            machine, NET_TX, s, s, packet.number, control, node.link_begun, now, node.link_bytes
        )
        if machine.ports.rules[0].captures == 1 and endpoint.sunk == packet.payload:
            capture_packet(machine, s, place_sending(machine, s), now)
    if control == 1:
        endpoint.control_sent = 1
    if leaves_by_wire(machine, s):
        if control == 1:
            machine.wire.header_left[s] = now
        if endpoint.sunk == packet.payload:
            enter_wire(machine, s, header_bytes(machine, s), now)
            _release_path(machine, s, now)
        return
    receiver = machine.endpoints[d]
    if control == 1:
        _accept(machine, s, packet, now)
    else:
        receiver.arrived += node.link_bytes
        carry_bytes(machine, d, receiver.arrived)
    if control == 1 or endpoint.sunk == packet.payload:
        begun = machine.nodes[d].receive_begun
        moved = node.link_bytes if control == 1 else packet.payload
        log_transfer(machine, NET_RCV, d, packet.sender, packet.number, control, begun, now, moved)
        receiver.posted = NOTHING
    if endpoint.sunk == packet.payload:
        receiver.open = 0
        if accepted_last(machine, d).fate != 0:  # the CRC behind its last byte says so
            _corrupt(machine, packet)
        _release_path(machine, s, now)
    elif control == 1 and accepted_last(machine, d).fate & ~CORRUPTED != 0:
        remove_packet(machine, s, now)
    elif control == 1 and is_far_end(machine, s):
        begin_payload_arrival(machine, s, now)


@step
def _corrupt(machine, packet):
    """Marks ``packet`` corrupted: its receiver will drop it."""
    accepted_last(machine, packet.destination).broken = 1
    packet.broken = 1
    keep_message(machine, packet, -1)


@step
def carry_bytes(machine, d, upto):
    """Have the first ``upto`` payload bytes of the packet that ``d`` accepted last at ``d``."""
    s = machine.nodes[d].source
    if not has_bytes(machine.store) or s == NOBODY:
        return
    accepted = accepted_last(machine, d)
    if is_far_end(machine, s):
        carry(machine.store, machine.wire.payloads[arriving_flight(machine, s)], d, accepted, upto)
    else:
        sent = machine.store.send_buffers[s, sending(machine, s).buffer]
        carry(machine.store, sent, d, accepted, upto)


@step
def _accept(machine, s, packet, now):
    """Accepts the header of ``packet``, which netTx of ``s`` has sent, at its destination."""
    d = packet.destination
    receiver = machine.endpoints[d]
    far = is_far_end(machine, s)
    place = arriving_flight(machine, s) if far else place_sending(machine, s)
    slot = accept_header(receiver, machine.arrivals[d], packet)
    if has_bytes(machine.store):
        store = machine.store
        if far:
            copy_bytes(store.arriving[d, slot], 0, machine.wire.control[place], 0, CONTROL_BYTES)
        else:
            copy_control(store.send_ring, place, store.arriving, slot, s, d)
        if 0 <= packet.tag < receiver.tags:
            address = store.payload_table[d, packet.tag]
            machine.arrivals[d, slot].address = address
            receiver.mapped = 1 if address >= 0 else 0
        store.marks[d, 1] = 0
    if has_ports(machine.ports):
        receive_header(machine, d, s, place, now)
    elif machine.ports.rules[0].faults == 1:
        classify_packet(machine, packet, machine.arrivals[d, slot], now)


@step
def _release_path(machine, s, now):
    """Releases the path of the packet of ``s``, which has left the network, to waiting senders."""
    endpoint = machine.endpoints[s]
    receiver = machine.nodes[sending(machine, s).destination]
    if receiver.source == s:
        receiver.source = NOBODY
    end_transmission(endpoint)
    if is_far_end(machine, s):
        end_arrival(machine, s, now)
        return
    put(machine.agenda, s * KINDS + WATCHDOG, NEVER)
    while machine.paths.held[s] > 0:
        heir = release(machine.paths, s)
        if heir != NOBODY:
            _take_links(machine, heir, now)


@routine
def abort(machine, s, now):
    """Fires the watchdog: takes the packet of ``s`` off the network; its receiver drops it."""
    machine.nodes[s].aborted += 1
    if machine.endpoints[s].control_sent == 1 and not leaves_by_wire(machine, s):
        accepted_last(machine, sending(machine, s).destination).fate = 0  # it was not that
    remove_packet(machine, s, now)


@step
def remove_packet(machine, s, now):
    """Removes the packet of ``s`` from the network; its receiver drops what has arrived."""
    node = machine.nodes[s]
    endpoint = machine.endpoints[s]
    packet = sending(machine, s)
    d = packet.destination
    receiver = machine.endpoints[d]
    moved = np.int64(0)
    if node.link == FLOWING:
        moved = _moved(machine, s, now)
    if node.link == QUEUED:
        leave_queue(machine.paths, s)
    if node.link != LINK_IDLE:
        node.link_busy += now - node.link_begun
        log_transfer(
            machine, NET_TX, s, s, packet.number, node.link_control, node.link_begun, now, moved
        )
    is_heard = endpoint.control_sent == 1 and not leaves_by_wire(machine, s)
    node.unheard += 1 - is_heard
    if is_heard:
        receiver.arrived += moved
        if receiver.posted == PAYLOAD:
            begun = machine.nodes[d].receive_begun
            log_transfer(
                machine, NET_RCV, d, packet.sender, packet.number, 0, begun, now, receiver.arrived
            )
            receiver.posted = NOTHING
        receiver.awaited = 0
        receiver.open = 0
        _corrupt(machine, packet)
    else:
        packet.broken = 1
        keep_message(machine, packet, -1)
    node.link = LINK_IDLE
    put(machine.agenda, s * KINDS + LINK, NEVER)
    _release_path(machine, s, now)


@step
def retime_link(machine, s, now):
    """Sets the rate of netTx of ``s`` to what the link and both NIC memories allow now.

    Whether its rate changed.
    """
    if machine.nodes[s].link != FLOWING:
        return False
    flow = machine.link_flows[s]
    rate = np.int64(machine.costs[s].link_per_byte)
    if not is_far_end(machine, s):
        rate = max(rate, memory_share(machine, s))
    if not leaves_by_wire(machine, s):
        rate = max(rate, memory_share(machine, sending(machine, s).destination))
    if not change_rate(flow, now, rate):
        return False
    put(machine.agenda, s * KINDS + LINK, end_of(flow))
    return True


@step
def memory_share(machine, n):
    """Ps per byte that NIC memory leaves to each link engine of ``n``; the PCI comes first.

    An engine has one of the memory's two ports at most, half of its speed (Trapeze, 2: a block of
    dual-ported RAM, clocked as the bus).
    """
    node = machine.nodes[n]
    byte = machine.costs[n].nic_memory_per_byte
    flows = np.int64(node.link == FLOWING)
    if node.source != NOBODY and machine.nodes[node.source].link == FLOWING:
        flows += 1
    if node.pci == PCI_IDLE or crosses_bus(machine, n):
        # Transactions of a bus are too short to slow a link.  Two engines have a port each.
        return PORTS * byte
    pci = machine.pci_flows[n].rate
    return max(PORTS * byte, flows * (byte * pci // (pci - byte)))
