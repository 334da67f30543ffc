"""The timer of a node, in virtual time: it fires when the first thing of its ports is due."""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.machine import KINDS, TIMER
from nicscope.kernel.decorators import step


@step
def keep_time(machine, n):
    """Have the timer fire when the firmware wishes, which may have come to wish it earlier."""
    when = machine.ports.nodes[n].deadline
    slot = n * KINDS + TIMER
    if when < machine.agenda.times[slot]:
        put(machine.agenda, slot, when)


@step
def fire_by(machine, n, when):
    """Have the timer fire at ``when`` at the latest."""
    serving = machine.ports.nodes[n]
    serving.deadline = min(serving.deadline, when)
    keep_time(machine, n)
