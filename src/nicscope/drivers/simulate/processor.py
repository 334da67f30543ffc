"""The CPU of a node: one processor or two, chains of operations, other bus masters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.ports.calls import run_script_process
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.drivers.simulate.records import (
    CPU,
    IDLE,
    INTERRUPTED,
    KINDS,
    NO_OPERATION,
    NO_PROCESS,
    POST,
    PROVIDE,
)
from nicscope.errors import SimulationError
from nicscope.fabric.faults import is_dead
from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.nic.delivery import CONTROL_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@step
def continues_chain(machine, p, now):
    """Whether process ``p``, whose operation ends now, has a next operation in its chain.

    Not if it was refused, nor on a node that has died: of that the program hears.
    """
    chained = machine.chained[p]
    process = machine.processes[p]
    if chained.next == chained.last or process.own < 0:
        return False
    if has_ports(machine.ports) and is_dead(machine.ports.deaths.nodes, process.node, now):
        return False
    place = machine.tally[0].due
    while place > 0 and machine.due[place - 1] > p:
        machine.due[place] = machine.due[place - 1]
        place -= 1
    machine.due[place] = p
    machine.tally[0].due += 1
    return True


@step
def next_of_chain(machine, p):
    """The operation that process ``p`` begins now, the next of its chain."""
    chained = machine.chained[p]
    place = chained.next
    chained.next += 1
    request = machine.chains[p, place]
    if request.operation == POST:
        copy_bytes(machine.store.control[p], 0, machine.inlined[p, place], 0, CONTROL_BYTES)
    if request.operation in (POST, PROVIDE) and machine.ports.gathered.size > 0:
        _load_segments(machine, p, place)
    return request


@step
def _load_segments(machine, p, place):
    """Copies the segments of the chain's next operation to where the first one's were."""
    gathers, gathered = machine.ports.gathers, machine.ports.gathered
    for i in range(gathers.shape[1]):
        gathers[p, i] = gathered[p, place, i]


@step
def keep_chain(machine, p, first, count):
    """Saves the ``count`` operations from ``outbox[first]`` on: they follow the one that begins."""
    chained = machine.chained[p]
    chained.next = 0
    chained.last = count
    for i in range(count):
        machine.chains[p, i] = machine.outbox[first + i]


@step
def occupy_cpu(machine, n, now, operation, duration):
    """Have the CPU of ``n`` do ``operation`` until ``duration`` ps from now."""
    node = machine.nodes[n]
    node.cpu = operation
    node.cpu_busy += duration
    put(machine.agenda, n * KINDS + CPU, now + duration)


@routine
def end_operation(machine, p, now):
    """Ends the operation of process ``p`` now; its chain, script or program continues."""
    process = machine.processes[p]
    if machine.scripted[p].depth > 0:
        run_script_process(machine, p, now)
        return
    process.operation = NO_OPERATION
    if continues_chain(machine, p, now):
        return
    process.time = now
    machine.inbox[machine.tally[0].ended] = process
    machine.inbox[machine.tally[0].ended].process = p
    machine.tally[0].ended += 1


TWO = 2


@step
def swap_processors(machine, n):
    """Swaps the processors of ``n``: saves the active one and makes the other active."""
    node, slot = machine.nodes[n], n * KINDS + CPU
    serving = machine.ports.nodes[n]
    doing, since, process = node.cpu, node.cpu_since, node.cpu_process
    interrupted, stolen, until = node.interrupted, serving.stolen, machine.agenda.times[slot]
    node.cpu, node.cpu_since, node.cpu_process = node.other, node.other_since, node.other_process
    node.interrupted, serving.stolen = node.other_interrupted, node.other_stolen
    put(machine.agenda, slot, node.other_until)
    node.other, node.other_since, node.other_process = doing, since, process
    node.other_interrupted, node.other_stolen, node.other_until = interrupted, stolen, until


@step
def is_second_idle(node):
    """Whether there is a second processor and it is idle."""
    return node.processors == TWO and node.other == IDLE


@step
def select_first_to_end(machine, n):
    """Makes the processor active whose work ends first."""
    if machine.nodes[n].other_until < machine.agenda.times[n * KINDS + CPU]:
        swap_processors(machine, n)


@step
def process_of_second(node):
    """The process that the second processor works for, or ``NO_PROCESS``."""
    return node.other_process if node.other != IDLE else NO_PROCESS


@step
def interrupt_second(node, duration, now):
    """Has the second processor, which is idle, serve an interrupt."""
    node.other = INTERRUPTED
    node.other_since = now
    node.other_process = NO_PROCESS
    node.other_until = now + duration
    node.cpu_busy += duration


LONGEST_PERIOD_PS = 10**12


class OtherMaster(msgspec.Struct, frozen=True):
    """It holds the bus of ``node`` for the first ``hold_ps`` of every ``period_ps``, from 0 on."""

    node: int
    hold_ps: int
    period_ps: int

    def check(self, nodes: int) -> None:
        """Refuse, with ``SimulationError``, what no cluster of ``nodes`` could have."""
        if not 0 <= self.node < nodes:
            raise SimulationError(f"no node {self.node} for another master; there are {nodes}")
        if not 0 < self.hold_ps < self.period_ps <= LONGEST_PERIOD_PS:
            raise SimulationError(
                f"another master holds a bus for more than 0 ps and less than its period, which is "
                f"at most {LONGEST_PERIOD_PS} ps: got {self.hold_ps} of {self.period_ps} ps"
            )


def place_masters(nodes: NDArray[Any], masters: Sequence[OtherMaster]) -> None:
    """Adds ``masters``, at most one for each node, to the buses of ``nodes`` (NODE)."""
    for each in masters:
        each.check(len(nodes))
        nodes["held"][each.node] = each.hold_ps
        nodes["held_every"][each.node] = each.period_ps
    if len({each.node for each in masters}) < len(masters):
        raise SimulationError("a bus can have one other master; add up what they hold it for")


@step
def bus_time(node, now):
    """For how long the bus has been free of the other master by ``now`` (ps)."""
    if node.held == 0:
        return now
    rounds = now // node.held_every
    return rounds * (node.held_every - node.held) + max(0, now % node.held_every - node.held)


@step
def when_bus_time(node, spent):
    """When the bus will have been free of the other master for ``spent`` ps."""
    if node.held == 0 or spent <= 0 or spent >= NEVER:
        return spent
    free = node.held_every - node.held
    rounds = (spent - 1) // free
    return rounds * node.held_every + node.held + spent - rounds * free


@step
def across_bus(node, now, duration):
    """How long an access of ``duration`` ps to the bus takes from ``now`` on."""
    if node.held == 0:
        return duration
    return max(0, when_bus_time(node, bus_time(node, now) + duration) - now)
