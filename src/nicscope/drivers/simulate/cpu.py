"""The CPU of a node, as every operation uses it: busy for a time, then a process goes on."""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.chains import goes_on
from nicscope.drivers.simulate.machine import CPU, KINDS, NO_OPERATION
from nicscope.drivers.simulate.ports.calls import go_on_with_script
from nicscope.kernel.decorators import routine, step


@step
def occupy_cpu(machine, n, now, operation, duration):
    """Have the CPU of ``n`` do ``operation`` until ``duration`` ps from now."""
    node = machine.nodes[n]
    node.cpu = operation
    node.cpu_busy += duration
    put(machine.agenda, n * KINDS + CPU, now + duration)


@routine
def end_operation(machine, p, now):
    """The operation of process ``p`` has ended now: its chain, script or program goes on."""
    process = machine.processes[p]
    if machine.scripted[p].depth > 0:
        go_on_with_script(machine, p, now)
        return
    process.operation = NO_OPERATION
    if goes_on(machine, p, now):
        return
    process.time = now
    machine.inbox[machine.tally[0].ended] = process
    machine.inbox[machine.tally[0].ended].process = p
    machine.tally[0].ended += 1
