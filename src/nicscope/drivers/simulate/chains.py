"""Chains: operations that a program asks for at once, each begun when the one before has ended.

A chain ends with the first operation that answers; those before it say only that they have ended,
so nobody need hear of them.  Each begins when the program could have asked for it: when nothing
more happens at the time at which the one before ended, in the order of processes.
"""

from __future__ import annotations

from nicscope.drivers.simulate.machine import POST, PROVIDE
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.fabric.faults import is_dead
from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import step
from nicscope.nic.delivery import CONTROL_BYTES


@step
def goes_on(machine, p, now):
    """Whether process ``p``, whose operation ends now, is due to begin the next of its chain.

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
    """The operation that process ``p``, which is due, begins now."""
    chained = machine.chained[p]
    place = chained.next
    chained.next += 1
    request = machine.chains[p, place]
    if request.operation == POST:
        copy_bytes(machine.store.control[p], 0, machine.inlined[p, place], 0, CONTROL_BYTES)
    if request.operation in (POST, PROVIDE) and machine.ports.gathered.size > 0:
        _take_pieces(machine, p, place)
    return request


@step
def _take_pieces(machine, p, place):
    """Have the pieces of memory that go with the next operation where the first one's were."""
    gathers, gathered = machine.ports.gathers, machine.ports.gathered
    for i in range(gathers.shape[1]):
        gathers[p, i] = gathered[p, place, i]


@step
def keep_chain(machine, p, first, count):
    """Keep the ``count`` operations from ``outbox[first]`` on: they follow the one that begins."""
    chained = machine.chained[p]
    chained.next = 0
    chained.last = count
    for i in range(count):
        machine.chains[p, i] = machine.outbox[first + i]
