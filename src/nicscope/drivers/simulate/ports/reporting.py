"""What a process finds at its port: a report, nothing yet, or that nothing will come."""

from __future__ import annotations

from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.machine import AWAIT_QUEUE, REPORT
from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import SENT

GIVEN_BITS = 16  # above these in ``own`` of what is asked of a port: the ``given`` that is meant
GONE = -1  # in ``own`` and ``packet`` of what ended because the port is closed, or another's
LATE = -2  # likewise: of a wait whose end came first


@step
def hears(operation):
    """Whether that is an operation which waits for word from the NIC."""
    return operation in (REPORT, AWAIT_QUEUE)


@step
def has_word(machine, n, p):
    """Whether what process ``p`` of ``n`` waits to hear of is there."""
    process = machine.processes[p]
    if process.operation == AWAIT_QUEUE:
        queue = machine.ports.work.queues[n, process.peer]
        return queue.shown > queue.read
    return has_report(machine, n, p)


@step
def is_overdue(machine, n, p):
    """Whether process ``p`` will not wait any longer for a word that has not come."""
    process = machine.processes[p]
    if process.address == 0 or machine.tally[0].now < process.address:
        return False
    return not has_word(machine, n, p)


@step
def has_report(machine, n, p):
    """Whether the port that process ``p`` of node ``n`` listens at has a report for it."""
    if crosses_bus(machine, n):
        process = machine.processes[p]
        port = machine.ports.table[n, process.peer]
        ring = process.own & 1
        shown = machine.bus.shown[n, process.peer, ring]
        return shown > (port.reaped if ring == SENT else port.read)
    return _has_made(machine, n, p)


@step
def _has_made(machine, n, p):
    """Whether a report has been made for it, which may be on its way over a bus still."""
    process = machine.processes[p]
    port = machine.ports.table[n, process.peer]
    if process.own & 1 == SENT:
        return port.reported > port.reaped
    return port.received > port.read


@step
def is_given_on(machine, n, p):
    """Whether the port that process ``p`` asks something of has become another's."""
    process = machine.processes[p]
    return machine.ports.table[n, process.peer].given != process.own >> GIVEN_BITS


@step
def is_in_vain(machine, n, p):
    """Whether process ``p`` waits for a word that will not come: its port is closed and read."""
    process = machine.processes[p]
    if process.operation == AWAIT_QUEUE:
        return machine.ports.work.queues[n, process.peer].open == 0
    if is_given_on(machine, n, p):
        return True
    is_closed = machine.ports.table[n, process.peer].open == 0
    return is_closed and not _has_made(machine, n, p)
