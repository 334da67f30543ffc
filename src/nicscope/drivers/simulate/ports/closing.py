"""A port closes: what it was to do ends, and what it alone used is forgotten (U-Net/MM 4.2)."""

from __future__ import annotations

from nicscope.drivers.simulate.ports.calls import (
    carry_out,
    end_request,
    report_sent,
)
from nicscope.drivers.simulate.ports.holding import release_buffer
from nicscope.drivers.simulate.ports.state import ABANDONED
from nicscope.drivers.translation.asking import page_of_key
from nicscope.drivers.translation.cluster import translation_of
from nicscope.drivers.translation.codes import UNET_MM
from nicscope.drivers.translation.unet_mm import forget_unet_mm
from nicscope.jit import distant, step
from nicscope.nic.delivery import MISSING
from nicscope.nic.ports import CLOSED, FREE_TO_GO, NOBODY, SEND


@distant
def close_port(machine, n, p):
    """Whether nothing uses port ``p`` any more, which is to close; if so it has closed.

    From the first call on the firmware takes nothing of the port and lets nothing in; transfers
    that have begun end first, so the caller comes again until they have.
    """
    ports = machine.ports
    port = ports.table[n, p]
    port.open = 0
    if machine.nodes[n].task == MISSING and ports.nodes[n].miss_for == p:
        return False
    if port.busy == 1:
        end_request(machine, n, p, CLOSED)
    while port.taken < port.posted:
        slot = port.taken % ports.rules[0].ring
        port.taken += 1
        report_sent(machine, n, p, slot, CLOSED)
    if _is_moving(machine, n, p):
        return False
    _let_buffers_go(machine, n, p)
    _abandon(machine, n, p)
    if ports.rules[0].scheme == UNET_MM:
        _forget(machine, n, p)
    return True


@step
def _is_moving(machine, n, p):
    """Whether a packet to or from the port is under way here."""
    ports = machine.ports
    endpoint = machine.endpoints[n]
    for i in range(endpoint.finished, endpoint.written):
        if ports.send_heads[n, i % endpoint.send_ring].from_port == p:
            return True
    for i in range(endpoint.completed, endpoint.accepted):
        head = ports.arrival_heads[n, i % endpoint.receive_ring]
        known = head.kind == SEND and head.name >= 0 and head.name < ports.channels.shape[1]
        if known and ports.channels[n, head.name].port == p:
            return True
    return False


@step
def _let_buffers_go(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    for i in range(port.ready_out, port.ready_in):
        release_buffer(machine, n, ports.ready[n, p, i % ports.ready.shape[2]].key)
    port.ready_out = port.ready_in
    port.free_taken = port.free_posted
    for tag in range(ports.channels.shape[1]):
        channel = ports.channels[n, tag]
        if channel.port == p:
            for i in range(channel.buffers):
                release_buffer(machine, n, ports.filling[n, tag, i].key)
            channel.buffers = 0
            port.filling = 0
            channel.placed = -1
            channel.port = NOBODY


@step
def _abandon(machine, n, p):
    """What the kernel thread was to bring for the port is not wanted any more."""
    serving = machine.ports.nodes[n]
    for i in range(serving.handled, serving.queued):
        event = machine.ports.events[n, i % machine.ports.events.shape[1]]
        if event.port == p:
            event.port = ABANDONED
    port = machine.ports.table[n, p]
    port.blocked = FREE_TO_GO
    port.ahead_waits = 0


@step
def _forget(machine, n, p):
    """Translations that this port used last leave the NIC, and their pages are unpinned."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    for key in range(ports.owners.shape[1]):
        if ports.owners[n, key] != p or host.in_use[key] != 0:
            continue
        ports.owners[n, key] = NOBODY
        space, page = page_of_key(host, book, key)
        forget_unet_mm(nic, host, book, space, page, key)
        carry_out(machine, n, 0)
