"""What a process finds at its port: a report, nothing yet, or that nothing will come."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.machine import ANY_REPORT, AWAIT_QUEUE, REPORT
from nicscope.drivers.simulate.ports.work_posting import read_work
from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
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
NO_RING = -1  # a process was told of something by its own node alone


@step
def hears(operation):
    """Whether that is an operation which waits for word from the NIC."""
    return operation in (REPORT, AWAIT_QUEUE, ANY_REPORT)


@step
def has_word(machine, n, p):
    """Whether what process ``p`` of ``n`` waits to hear of is there."""
    process = machine.processes[p]
    if process.operation == AWAIT_QUEUE:
        queue = machine.ports.work.queues[n, process.peer]
        return queue.shown > queue.read
    if process.operation == ANY_REPORT:
        return has_any_word(machine, n, p)
    return has_report(machine, n, p)


@routine
def has_any_word(machine, n, p):
    """Whether process ``p``, which follows a program trace, has been told of anything."""
    if machine.traced.followers[p].is_woken == 1:
        return True
    peer = machine.processes[p].peer
    return _is_shown(machine, n, peer, SENT) or _is_shown(machine, n, peer, RECEIVED)


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
    process = machine.processes[p]
    return _is_shown(machine, n, process.peer, process.own & 1)


@step
def _is_shown(machine, n, peer, ring):
    """Whether there is a report on that ring of a port which its process can see."""
    if crosses_bus(machine, n):
        port = machine.ports.table[n, peer]
        shown = machine.bus.shown[n, peer, ring]
        return shown > (port.reaped if ring == SENT else port.read)
    return _is_made(machine, n, peer, ring)


@step
def _has_made(machine, n, p):
    """Whether a report has been made for it, which may be on its way over a bus still."""
    process = machine.processes[p]
    return _is_made(machine, n, process.peer, process.own & 1)


@step
def _is_made(machine, n, peer, ring):
    port = machine.ports.table[n, peer]
    if ring == SENT:
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


@routine
def read_any(machine, n, p):
    """Process ``p``, which follows a program trace, reads what has come: ends of its own first."""
    follower = machine.traced.followers[p]
    peer = np.int64(machine.processes[p].peer)
    follower.heard = NO_RING
    if _is_shown(machine, n, peer, SENT):
        follower.heard = SENT
        reap(machine, n, p)
    elif _is_shown(machine, n, peer, RECEIVED):
        follower.heard = RECEIVED
        read_report(machine, n, p)
