"""The event loop: fire what is earliest, let everything that it touches go on, and again."""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import NEVER, earliest, put
from nicscope.drivers.simulate.firmware import look, take_effect, wait_for_bytes_to_drain
from nicscope.drivers.simulate.flow import change_rate
from nicscope.drivers.simulate.host import (
    end_host_work,
    end_timer,
    look_for_host_work,
    schedule_copy,
)
from nicscope.drivers.simulate.link import (
    abort,
    end_flow,
    flow_if_awaited,
    go_on,
    retime_link,
    sending,
)
from nicscope.drivers.simulate.machine import (
    COPYING,
    CPU,
    FLOWING,
    KINDS,
    LINK,
    PCI,
    PCI_IDLE,
    PROCESSOR,
    TIMER,
    WATCHDOG,
)
from nicscope.drivers.simulate.operations import take_operation
from nicscope.drivers.simulate.pci import end_pci, retime_pci
from nicscope.fabric.paths import NOBODY
from nicscope.jit import kernel, step


@kernel
def advance(machine, begun, most):
    """Take ``outbox[:begun]``, then fire events, at most ``most``; how many it fired.

    Programs go on at the time at which an operation of theirs ends, so nothing later is fired; all
    that ended at that time are in ``inbox[:ended]``.  With ``begun`` of -1 every node looks first.
    """
    tally = machine.tally[0]
    tally.ended = 0
    if begun < 0:
        for n in range(machine.nodes.size):
            _go_on(machine, n, n, 0)
    for i in range(begun):
        take_operation(machine, machine.outbox[i])
    for i in range(begun):
        n = machine.processes[machine.outbox[i].process].node
        _go_on(machine, n, n, tally.now)
    fired = 0
    while fired < most:
        slot = earliest(machine.agenda)
        now = machine.agenda.times[slot]
        if now == NEVER or (tally.ended > 0 and now > tally.now):
            break
        tally.now = now
        _fire(machine, slot // KINDS, slot % KINDS, now)
        fired += 1
    tally.events += fired
    return fired


@step
def _fire(machine, n, kind, now):
    node = machine.nodes[n]
    peer = n
    # An event of a flow belongs to both ends.
    if kind in (LINK, WATCHDOG):
        peer = sending(machine, n).destination
    if kind == PROCESSOR:
        take_effect(machine, n, now)
    elif kind == CPU:
        end_host_work(machine, n, now)
    elif kind == PCI:
        end_pci(machine, n, now)
    elif kind == LINK:
        if node.link == FLOWING:
            end_flow(machine, n, now)
        else:
            go_on(machine, n, now)
    elif kind == WATCHDOG:
        abort(machine, n, now)
    elif kind == TIMER:
        end_timer(machine, n, now)
    else:
        put(machine.agenda, n * KINDS + kind, NEVER)
    _go_on(machine, n, peer, now)


@step
def _go_on(machine, n, peer, now):
    """Let the CPU look, start flows that may start, set rates that may differ, let firmware look.

    Of the peer's node only the network side can have changed.
    """
    look_for_host_work(machine, n, now)
    flow_if_awaited(machine, n, now)
    source = machine.nodes[n].source
    if source != NOBODY and flow_if_awaited(machine, source, now):
        peer = source
    retime_pci(machine, n, now)
    _retime_copy(machine, n, now)
    ends = 1 if n == peer else 2
    here = n
    for _ in range(ends):
        _retime_links(machine, here, now)
        here = peer
    here = n
    for _ in range(ends):
        look(machine, here, now)
        here = peer


@step
def _retime_links(machine, n, now):
    if retime_link(machine, n, now):
        wait_for_bytes_to_drain(machine, sending(machine, n).destination)
    source = machine.nodes[n].source
    if source != NOBODY and retime_link(machine, source, now):
        wait_for_bytes_to_drain(machine, n)


@step
def _retime_copy(machine, n, now):
    if machine.nodes[n].cpu != COPYING:
        return
    costs = machine.costs[n]
    rate = costs.block_copy_per_byte
    if machine.nodes[n].pci != PCI_IDLE:
        rate = costs.block_copy_contended_per_byte
    if change_rate(machine.copy_flows[n], now, rate):
        schedule_copy(machine, n)
