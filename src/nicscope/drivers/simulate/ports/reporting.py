"""Reports to processes: how a descriptor ended, what has come."""

from __future__ import annotations

from nicscope.drivers.simulate.bus.calls import tell_over_bus
from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.ports.calls import leave_request
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import DONE, RECEIVED, SENT

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


@distant
def report_sent(machine, n, p, slot, status):
    """Tell the process of port ``p`` how its descriptor in ``slot`` ended."""
    ports = machine.ports
    port = ports.table[n, p]
    report = ports.reports[n, p, SENT, port.reported % ports.rules[0].ring]
    pending = ports.pending[n, p, slot]
    report.cookie = pending.cookie
    report.status = status
    report.operation = pending.operation
    report.length = 0
    leave_request(machine, n, p, slot)
    port.reported += 1
    ports.told[n, status] += 1
    if status != DONE:
        ports.nodes[n].rejected += 1
    if crosses_bus(machine, n):
        tell_over_bus(machine, n, p, SENT, machine.tally[0].now)


@distant
def report_received(machine, n, p, operation, name, node, length, buffers, offset):
    """Tell the process of port ``p`` of what has come; the report's place."""
    ports = machine.ports
    port = ports.table[n, p]
    place = port.received % ports.rules[0].ring
    report = ports.reports[n, p, RECEIVED, place]
    report.operation = operation
    report.status = DONE
    report.name = name
    report.node = node
    report.length = length
    report.buffers = buffers
    report.offset = offset
    port.received += 1
    if crosses_bus(machine, n):
        tell_over_bus(machine, n, p, RECEIVED, machine.tally[0].now)
    return place
