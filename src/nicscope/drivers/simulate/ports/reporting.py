"""What a process finds at its port: a report, nothing yet, or that nothing will come."""

from __future__ import annotations

from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import SENT

GIVEN_BITS = 16  # above these in ``own`` of what is asked of a port: the ``given`` that is meant
GONE = -1  # in ``own`` and ``packet`` of what ended because the port is closed, or another's


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
    """Whether process ``p`` waits for a report that will not come: its port is closed and read."""
    if is_given_on(machine, n, p):
        return True
    is_closed = machine.ports.table[n, machine.processes[p].peer].open == 0
    return is_closed and not _has_made(machine, n, p)
