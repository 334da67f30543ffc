"""The event loop: fire the earliest event, update everything it touches, repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import earliest, put
from nicscope.drivers.simulate.bus.state import has_bus, is_moving
from nicscope.drivers.simulate.firmware import look, rest, run_tasks, wait_for_bytes_to_drain
from nicscope.drivers.simulate.flow import change_rate
from nicscope.drivers.simulate.host import (
    contends,
    end_host_work,
    end_timer,
    schedule_copy,
    schedule_host_work,
    take_operations,
)
from nicscope.drivers.simulate.link import (
    abort,
    end_flow,
    end_link_stage,
    retime_link,
    sending,
    start_if_receive_posted,
)
from nicscope.drivers.simulate.machine import continue_run
from nicscope.drivers.simulate.observe import account_time
from nicscope.drivers.simulate.pci import end_pci, retime_pci
from nicscope.drivers.simulate.ports.calls import fire_bus, resume_move
from nicscope.drivers.simulate.records import (
    BUS,
    BUS_KINDS,
    COPYING,
    CPU,
    ENGINE,
    FLOWING,
    KINDS,
    LINK,
    PCI,
    PCI_DESCRIPTOR,
    PCI_IDLE,
    PCI_READS,
    PCI_WRITES,
    PROCESSOR,
    RECEIVE_READY,
    SEND_READY,
    TIMER,
    WATCHDOG,
)
from nicscope.drivers.simulate.wire import is_far_end, leaves_by_wire, node_behind
from nicscope.fabric.paths import NOBODY
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.entry import bound, portion
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT, REPORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.fabric.topology import Topology

OF_BUS = KINDS
ALL_LOOK = -1  # in place of a number of operations: every node looks first
AT_ONCE = 1 << 20  # events between two chances to be interrupted, a few times a second
INTERPRETED_AT_ONCE = 1 << 12  # as compiled code is taken up between two calls only
LOOK = -1  # in place of a kind: nothing has happened, but the node looks
UNFINISHED = -2  # in place of a kind: what ``tally.unfinished`` has left of a processor's event
# What an event may have changed, so that this has to be looked at again.
NOTHING = 0
HERE = 1  # what the firmware of the node reads
THERE = 2  # what that of the other end reads
RATES = 4  # what the rates of transfers depend on, at either end


@kernel
def advance(machine, begun, most):
    """Take ``begun`` operations of ``outbox``, then fire events, at most ``most``; how many.

    Programs go on at the time at which an operation of theirs ends, so nothing later is fired; all
    that ended at that time are in ``inbox[:ended]``.  Those of chains that go on are taken here, if
    no program has to be asked as well.  With ``begun`` of -1 every node looks first.  With
    ``tally.wants`` it has stopped early, and goes on when ``growth`` has seen to that.  Nothing
    later than ``tally.until`` is fired.  Call this through ``bound``.
    """
    tally = machine.tally[0]
    looks = machine.wire.summary[0].nodes
    if tally.wants == 0:
        tally.ended = 0
        if begun >= 0:
            looks = take_operations(machine, begun)
    else:
        looks = 0
    tally.wants = 0
    looked = 0
    fired = 0
    # One call of ``_fire``, not three: all that it does is inlined wherever it is called.
    while looked < looks or (fired < most and tally.wants == 0):
        if tally.unfinished > 0:
            n, kind, now = tally.unfinished - 1, UNFINISHED, tally.now
        elif looked < looks:
            n, kind, now = _first_poll(machine, begun, looked), LOOK, tally.now
            looked += 1
        else:
            n, kind, now = _first_event(machine)
            if now > tally.now and tally.ended == 0 and tally.due > 0:
                looked, looks = 0, take_operations(machine, 0)
                continue
            if now > tally.until or (tally.ended > 0 and now > tally.now):
                break
            if machine.account.size > 0:
                account_time(machine, tally.now, now)
            tally.now = now
            fired += 1
        _fire(machine, n, kind, now)
    tally.events += fired
    return fired


@step
def _first_poll(machine, begun, place):
    """The node whose firmware is polled at place ``place``, before any event is fired."""
    if begun < 0:
        return np.int64(place)
    return machine.processes[machine.begun[place]].node


@step
def _first_event(machine):
    """Node, kind and time of the next event; at equal times the lower node, then the lower kind.

    Kinds of a bus are numbered from ``OF_BUS`` on.
    """
    slot = earliest(machine.agenda)
    n, kind, now = slot // KINDS, slot % KINDS, machine.agenda.times[slot]
    if has_bus(machine.bus):
        slot = earliest(machine.bus.agenda)
        when = machine.bus.agenda.times[slot]
        node, which = slot // BUS_KINDS, slot % BUS_KINDS
        first = node < n or (node == n and which == BUS)
        if when < now or (when == now and first):
            return node, OF_BUS + which, when
    return n, kind, now


@step
def _fire(machine, n, kind, now):
    node = machine.nodes[n]
    pci, contended = node.pci, contends(node)
    peer = n
    changed = HERE
    ended = False  # a transfer between host and NIC
    if kind in (PROCESSOR, UNFINISHED):
        run_tasks(machine, n, now, kind == PROCESSOR)
        if machine.tally[0].unfinished > 0:
            return
        changed = NOTHING if kind == PROCESSOR else RATES  # its firmware has just looked
    elif kind == CPU:
        end_host_work(machine, n, now)
    elif kind == PCI:
        if is_moving(machine, n, ENGINE_OUT):
            resume_move(machine, n, ENGINE_OUT, now)
            ended = _reads(node) and not is_moving(machine, n, ENGINE_OUT)
        else:
            ended = True
    elif kind in (LINK, WATCHDOG):
        if leaves_by_wire(machine, n):
            changed = _fire_link(machine, n, kind, now)  # which is not felt at the other end
        else:
            peer = sending(machine, n).destination  # an event of a flow belongs to both ends
            changed = _fire_link(machine, n, kind, now)
            n = node_behind(machine, n)
    elif kind == TIMER:
        end_timer(machine, n, now)
    elif kind in (SEND_READY, RECEIVE_READY):
        put(machine.agenda, n * KINDS + kind, NEVER)
    elif kind == OF_BUS + BUS:
        fire_bus(machine, n, now)
        return  # whoever goes on does so by a slot of its own
    elif kind != LOOK:
        resume_move(machine, n, ENGINE_IN if kind == OF_BUS + ENGINE else REPORT, now)
        ended = node.pci == PCI_WRITES and not is_moving(machine, n, ENGINE_IN)
    if ended:
        end_pci(machine, n, now)
    if kind not in (LINK, SEND_READY, RECEIVE_READY):  # which end nothing that a CPU waits for
        schedule_host_work(machine, n, now)
    # A copy may end and the next one begin at once, which has no rate yet.
    if node.pci != pci or contends(node) != contended or node.cpu == COPYING:
        changed |= RATES
    _resume_node(machine, n, peer, now, changed)


@step
def _reads(node):
    """Whether the engine reads the host's memory for the NIC."""
    return node.pci == PCI_READS or node.pci == PCI_DESCRIPTOR


@step
def _fire_link(machine, n, kind, now):
    """Carries out an event of the link on which ``n`` sends; returns what it has changed."""
    if kind == WATCHDOG:
        abort(machine, n, now)
        return HERE | THERE | RATES
    if machine.nodes[n].link == FLOWING:
        end_flow(machine, n, now)
        return HERE | THERE | RATES
    end_link_stage(machine, n, now)
    return NOTHING


@step
def _resume_node(machine, n, peer, now, changed):
    """Starts flows that can start, updates transfer rates, and polls the firmware of both nodes.

    Of the peer's node only the network side can have changed.
    """
    if start_if_receive_posted(machine, n, now):
        changed |= HERE | RATES
    source = machine.nodes[n].source
    if source != NOBODY and start_if_receive_posted(machine, source, now):
        if not is_far_end(machine, source):
            peer = source
        changed |= HERE | RATES
    if changed & RATES:
        retime_pci(machine, n, now)
        _retime_copy(machine, n, now)
        _retime_links(machine, n, peer, now)
    here, mine = n, changed & HERE
    for _ in range(1 if n == peer else 2):
        if mine:
            look(machine, here, now)
        else:
            rest(machine, here)
        here, mine = peer, changed & THERE


@step
def _retime_links(machine, n, peer, now):
    """Updates the rates of all that ``n`` and ``peer`` send and receive, each transfer once."""
    source = machine.nodes[n].source
    _retime_sender(machine, n, now)
    if source != NOBODY:
        _retime_sender(machine, source, now)
    if peer != n:
        if peer != source:
            _retime_sender(machine, peer, now)
        other = machine.nodes[peer].source
        if other != NOBODY and other != n:
            _retime_sender(machine, other, now)


@step
def _retime_sender(machine, s, now):
    if retime_link(machine, s, now):
        wait_for_bytes_to_drain(machine, sending(machine, s).destination)


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


class EventLoop:
    """The event loop of one machine, as plain Python code enters it."""

    def __init__(self, machine: Machine, topology: Topology) -> None:
        self.machine = machine
        self.topology = topology
        self.enter: Callable[[int, int], int] = bound(advance, machine)
        self.outbox = machine.outbox.view(np.uint8).data
        self.inbox = machine.inbox.view(np.uint8).data
        self.ended = machine.tally["ended"].data
        self.wants = machine.tally["wants"].data

    @property
    def now(self) -> int:
        """Time (ps) of the last event."""
        return int(self.machine.tally[0]["now"])

    def look(self) -> None:
        """Has every node look for work, as something was changed beside operations."""
        self.fire(ALL_LOOK, 0)

    def fire(self, begun: int, most: int) -> int:
        """Begins ``begun`` operations of the outbox and fires up to ``most`` events; how many.

        Fewer only if an operation has ended, or none are left.
        """
        fired = self.enter(begun, most)
        if self.wants[0]:
            fired += continue_run(self.enter, self.machine, self.topology, most - fired)
        return fired

    def run_until_ended(self, fired: int) -> bool:
        """Fires events, of which ``fired`` of ``AT_ONCE`` have been, until an operation has ended.

        False if none ever can.
        """
        if self.wants[0]:
            fired += continue_run(self.enter, self.machine, self.topology, AT_ONCE - fired)
        while not self.ended[0]:
            if fired < AT_ONCE:
                return False
            fired = self.fire(0, AT_ONCE)
        return True

    def portion(self) -> int:
        """How many events are fired before Python may be interrupted, or compiled code be had."""
        return portion(self.enter, AT_ONCE, INTERPRETED_AT_ONCE)
