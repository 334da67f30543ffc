"""Reports to processes: how a descriptor ended, what has come."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.calls import break_connection, leave_request, tell
from nicscope.nic.ports.layout import (
    BROKEN,
    CONNECTED,
    DONE,
    NOBODY,
    ONE,
    RECEIVED,
    SENT,
    UNSIGNALLED,
)
from nicscope.nic.ports.notices import enter, notify, urge
from nicscope.nic.ports.tallies import tally_told
from nicscope.nic.ports.troubles import note_trouble
from nicscope.nic.ports.verdicts import own_verdict
from nicscope.nic.ports.work_queues import POSTED_BADLY, QUEUE_FULL

CONDEMNED = 2  # of a port that is ``stopped``: its connection ends, too


@distant
def report_sent(nics, n, p, slot, status):
    """Tell the process of port ``p`` how its descriptor in ``slot`` ended.

    Those of a connected port are told in the order in which they were posted, whatever the network
    makes of it.
    """
    ports = nics.ports
    if ports.table[n, p].takes != ONE:
        _tell_sent(nics, n, p, slot, status)
        return
    pending = ports.pending[n, p, slot]
    pending.over = 1
    pending.status = status
    number = pending.number
    if _is_open(ports, n, p, number - 1):
        return
    fails = False
    while _is_open(ports, n, p, number) and ports.pending[n, p, slot].over == 1:
        told = np.int64(ports.pending[n, p, slot].status)
        fails = fails or told != DONE
        _tell_sent(nics, n, p, slot, told)
        number += 1
        slot = place_in(number, ports.rules[0].ring)
    if fails and is_condemned(ports, n, p):
        ports.table[n, p].stopped = 1
        break_connection(nics, n, p, BROKEN, POSTED_BADLY, own_verdict(ports.table[n, p]))


@step
def is_condemned(ports, n, p):
    """Whether the connection of port ``p`` ends when what it has refused to send is told."""
    port = ports.table[n, p]
    return port.stopped == CONDEMNED and port.state == CONNECTED


@step
def condemn(nics, n, p, slot, status):
    """The descriptor in ``slot`` ends badly behind others, which end first as they would have."""
    nics.ports.table[n, p].stopped = CONDEMNED
    report_sent(nics, n, p, slot, status)


@step
def comes_behind(ports, n, p, slot):
    """Whether the end of a descriptor before that in ``slot`` is still to be told."""
    return _is_open(ports, n, p, ports.pending[n, p, slot].number - 1)


@step
def _is_open(ports, n, p, number):
    """Whether the end of descriptor ``number`` of port ``p`` is still to be told."""
    pending = ports.pending[n, p, place_in(number, ports.rules[0].ring)]
    return pending.busy == 1 and pending.number == number


@routine
def _tell_sent(nics, n, p, slot, status):
    ports = nics.ports
    port = ports.table[n, p]
    report = ports.reports[n, p, SENT, place_in(port.reported, ports.rules[0].ring)]
    pending = ports.pending[n, p, slot]
    report.cookie = pending.cookie
    report.status = status
    report.operation = pending.operation
    report.length = 0
    pending.over = 0
    if port.takes == ONE and status == DONE:
        report.length = pending.length
    leave_request(nics, n, p, slot)
    port.reported += 1
    ports.told[n, status] += 1
    tally_told(nics, n, p, SENT, status)
    ports.port_told[n, p, status] += 1
    if status != DONE:
        ports.nodes[n].rejected += 1
    if ports.rules[0].tells == 1:
        tell(nics, n, p, SENT)
    is_quiet = port.takes == ONE and status == DONE and pending.options & UNSIGNALLED != 0
    report.buffers = 1 if is_quiet else 0
    if port.send_queue != NOBODY and not is_quiet:
        announce(nics, n, p, SENT, port.send_queue)
        if status != DONE:
            urge(nics, n, np.int64(port.send_queue))


@distant
def report_received(nics, n, p, operation, name, node, length, buffers, offset):
    """Tell the process of port ``p`` of what has come; the report's place."""
    ports = nics.ports
    port = ports.table[n, p]
    place = place_in(port.received, ports.rules[0].ring)
    report = ports.reports[n, p, RECEIVED, place]
    report.operation = operation
    report.status = DONE
    report.name = name
    report.node = node
    report.length = length
    report.buffers = buffers
    report.offset = offset
    port.received += 1
    if ports.rules[0].tells == 1:
        tell(nics, n, p, RECEIVED)
    if port.receive_queue != NOBODY:
        announce(nics, n, p, RECEIVED, port.receive_queue)
    return place


@distant
def announce(nics, n, p, side, q):
    """Enter into completion queue ``q`` that work at port ``p`` has ended; a full one takes none.

    The report has been told before, so whoever finds the entry finds it too.
    """
    if enter(nics, n, p, side, q):
        notify(nics, n, p, side, nics.ports.work.queues[n, q].notices)
    else:
        _overrun(nics, n, p)


@step
def _overrun(nics, n, p):
    """A completion of port ``p`` found no room: its process is told, and its connection ends.

    That ends when the firmware has its next turn: whoever reports is in the middle of something.
    What is reported meanwhile, and what then ends as flushed, is found at the port itself.
    """
    port = nics.ports.table[n, p]
    if port.overrun == 1 or port.state == BROKEN:
        return
    note_trouble(nics, n, p, QUEUE_FULL)
    if port.state == CONNECTED:
        port.overrun = 1
        nics.ports.nodes[n].cuts += 1
