"""The second processor of a host: two work at once, and each process is at one of them.

A node's fields of its CPU, and its slot on the agenda, are those of the processor at hand.  What
the other one does is put away beside them.  The one at hand is that whose work ends first, but
within an event, which may be about the other; so one slot is enough, and hosts with one processor
pay for nothing.
"""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.machine import (
    COMPUTING,
    COPYING,
    CPU,
    IDLE,
    INTERRUPTED,
    KINDS,
    NO_PROCESS,
)
from nicscope.kernel.decorators import step

TWO = 2


@step
def turn_to_other(machine, n):
    """Exchange the processors of ``n``: the one at hand is put away, and the other is at hand."""
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
def has_idle_other(node):
    """Whether there is another processor, and it has nothing to do."""
    return node.processors == TWO and node.other == IDLE


@step
def have_first_at_hand(machine, n):
    """Have the processor at hand whose work ends first."""
    if machine.nodes[n].other_until < machine.agenda.times[n * KINDS + CPU]:
        turn_to_other(machine, n)


@step
def process_of_other(node):
    """The process that the other processor works for, or ``NO_PROCESS``."""
    return node.other_process if node.other != IDLE else NO_PROCESS


@step
def interrupt_other(node, duration, now):
    """Have the other processor, which is idle, serve an interrupt."""
    node.other = INTERRUPTED
    node.other_since = now
    node.other_process = NO_PROCESS
    node.other_until = now + duration
    node.cpu_busy += duration


@step
def all_compute(node):
    """Whether every processor computes for a program, which the scheduler leaves it to."""
    if not _computes(node.cpu, node.cpu_process):
        return False
    return node.processors != TWO or _computes(node.other, node.other_process)


@step
def _computes(doing, process):
    return doing in (COMPUTING, COPYING) and process >= 0
