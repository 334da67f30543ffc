"""CPU interrupts: they extend the operation they interrupt."""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.processor import interrupt_second, is_second_idle
from nicscope.drivers.simulate.records import CPU, IDLE, INTERRUPTED, KINDS
from nicscope.kernel.decorators import distant


@distant
def interrupt_cpu(machine, n, duration, now):
    """Takes ``duration`` ps from a CPU of ``n``: now if it idles, else from its operation."""
    node = machine.nodes[n]
    if node.cpu == IDLE:
        node.cpu = INTERRUPTED
        node.cpu_since = now
        node.cpu_process = -1
        node.cpu_busy += duration
        put(machine.agenda, n * KINDS + CPU, now + duration)
    elif is_second_idle(node):
        interrupt_second(node, duration, now)
    else:
        machine.ports.nodes[n].stolen += duration
