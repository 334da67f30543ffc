"""What a process finds at its port: a report, nothing yet, or that nothing will come."""

from __future__ import annotations

from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.machine import AWAIT_QUEUE, REPORT
from nicscope.drivers.simulate.ports.work_posting import read_work
from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.layout import (
    AWAITS_READER,
    BUFFERS,
    FREE_TO_GO,
    INLINE_BYTES,
    ONE,
    RECEIVED,
    SENT,
)

KIND_BITS = 4  # in ``own`` of a POST: of its operation, above which its flags lie

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


@step
def reap(machine, n, p):
    """Process ``p`` reads how its next descriptor ended."""
    ports = machine.ports
    process = machine.processes[p]
    port = ports.table[n, process.peer]
    report = ports.reports[n, process.peer, SENT, place_in(port.reaped, ports.rules[0].ring)]
    process.packet = report.cookie
    process.tag = report.operation
    process.address = report.status
    if port.takes == ONE:
        process.payload = report.length
    port.reaped += 1


@step
def read_report(machine, n, p):
    """Process ``p`` reads what has come next; the report's place is the NIC's again."""
    ports = machine.ports
    process = machine.processes[p]
    p_port = process.peer
    port = ports.table[n, p_port]
    if port.takes == ONE:
        has_word = read_work(machine, n, p)
        process.own |= has_word << KIND_BITS
        return
    place = place_in(port.read, ports.rules[0].ring)
    report = ports.reports[n, p_port, RECEIVED, place]
    process.packet = place
    process.payload = report.length
    process.tag = report.name
    process.address = report.status
    process.duration = report.offset
    process.own = report.operation | report.buffers << KIND_BITS
    process.peer = report.node
    if report.buffers == 0:
        inline = ports.report_bytes[n, p_port, place]
        copy_bytes(machine.store.control[p], 0, inline, 0, INLINE_BYTES)
    # From here on the report's place is the NIC's again, at this very moment.
    for i in range(min(report.buffers, BUFFERS)):  # the process may have written into the report
        ports.filled[p, i] = ports.report_buffers[n, p_port, place, i]
    port.read += 1
    if port.ahead_waits == AWAITS_READER:
        port.ahead_waits = FREE_TO_GO
        ports.nodes[n].attention = 1
