"""Descriptors of connected ports: gathers of registered memory, to the one peer."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import break_connection, report_sent
from nicscope.nic.ports.descriptor import WORD_BYTES
from nicscope.nic.ports.regions import (
    OWN,
    bind,
    is_descriptor_readable,
    lookup_region,
    packets_in,
    permits,
    unbind,
)
from nicscope.nic.ports.streams import (
    has_datagram_stream,
    is_reliable,
    number_datagram,
    peer_of,
    stream_to,
)
from nicscope.nic.ports.window import abort_message
from nicscope.nic.ports.work_queues import (
    POSTED_BADLY,
    fail_after_predecessors,
    has_open_predecessor,
    local_error_verdict,
)

LAST_ADDRESS = 2**63 - 1


@distant
def check_work_request(nics, n, p):
    """Check the copied work request of connected port ``p``: ``DONE``, or a status."""
    ports = nics.ports
    port = ports.table[n, p]
    port.total = 0
    if port.state != layout.CONNECTED or port.stopped != 0:
        return np.int64(layout.FLUSHED)
    if not is_descriptor_readable(nics, n, p, port.slot):
        # At any level: what is posted cannot be known any more.
        ports.pending[n, p, port.slot].status = layout.PROTECTION
        break_connection(nics, n, p, layout.BROKEN, POSTED_BADLY, layout.FLUSHED)
        return np.int64(layout.PROTECTION)
    if port.operation in (layout.BIND, layout.UNBIND):
        return _execute_locally(nics, n, p)
    if port.datagrams == 1 and not has_datagram_stream(nics, n, port):
        return np.int64(layout.BAD_DESCRIPTOR)
    segments = ports.current[n, p]
    stream = _stream_of(nics, n, port)
    if not _is_valid(port, segments) or not _is_for_level(ports, port, stream):
        return np.int64(layout.BAD_DESCRIPTOR)
    for i in range(port.segments):
        segment = segments[i]
        if not permits(nics, n, p, segment.key, segment.address, segment.length, OWN):
            return np.int64(layout.PROTECTION)
        _look_up_own(nics, n, port, segment)
        port.total += segment.length
    if port.total > port.longest or (port.atomic != 0 and port.total != WORD_BYTES):
        return np.int64(layout.TOO_LONG)
    if _is_denied(port):
        return np.int64(layout.REMOTE_PROTECTION)
    if port.operation != layout.SEND and port.offset > LAST_ADDRESS - port.total:
        return np.int64(layout.REMOTE_PROTECTION)  # it would lie around the end of all addresses
    channel = ports.channels[n, port.channel]
    if stream.dead == 1:
        return np.int64(layout.PEER_DEAD)
    channel.sent += 1
    port.message = number_datagram(nics, n, port) if port.datagrams == 1 else channel.sent
    ports.pending[n, p, port.slot].length = port.total
    return np.int64(layout.DONE)


@step
def _look_up_own(nics, n, port, segment):
    """Look up the region that ``port`` sends from; a fetch looks its own up on arrival."""
    if port.operation != layout.FETCH:
        packets = packets_in(nics, port.total, segment.length, True)
        lookup_region(nics, n, segment.key, packets)


@step
def _is_for_level(ports, port, stream):
    """Whether the service level of ``stream`` allows the descriptor of ``port``."""
    if port.operation == layout.FETCH and not is_reliable(ports, stream):
        return False  # nobody would learn that the question is lost
    return port.atomic == 0 or ports.rules[0].exchanges == 1


@step
def _is_denied(port):
    """Whether a VI is denied a fetch: its own end has to permit it, too."""
    if port.operation != layout.FETCH or port.atomic != 0 or port.by_verbs == 1:
        return False
    return port.rights & layout.MAY_FETCH == 0


@step
def _execute_locally(nics, n, p):
    """Execute the copied bind request of connected port ``p``, which needs no packet."""
    port = nics.ports.table[n, p]
    found = bind(nics, n, p) if port.operation == layout.BIND else unbind(nics, n, p, port.name)
    if found == layout.DONE:
        port.busy = 0
        nics.ports.nodes[n].attention = 1
        report_sent(nics, n, p, np.int64(port.slot), np.int64(layout.DONE))
    return np.int64(found)


@step
def _is_valid(port, segments):
    """Whether operation and lengths of a copied descriptor are valid."""
    if (
        port.operation < layout.SEND
        or port.operation > layout.FETCH
        or port.options & layout.INLINE
    ):
        return False
    if port.segments < 0 or port.segments > segments.shape[0]:
        return False
    shortest = np.int64(1)
    for i in range(port.segments):
        shortest = min(shortest, segments[i].length)
    return shortest == 1


@distant
def end_work_request(nics, n, p, status):
    """End the current work request of connected port ``p`` with ``status``.

    A refusal ends a reliable connection: what was posted behind it must not arrive without it.
    """
    ports = nics.ports
    port = ports.table[n, p]
    slot = np.int64(port.slot)
    if status == layout.NO_RIGHTS:
        status = np.int64(layout.PROTECTION)  # the page has gone, though its region has not
    is_refused = status not in (layout.FLUSHED, layout.CLOSED, layout.PEER_DEAD)
    if is_refused and port.by_verbs == 1:
        port.stopped = 1
    if port.datagrams == 1:
        report_sent(nics, n, p, slot, status)  # of a message of which a part has left none is made
        return
    if is_refused and is_reliable(ports, _stream_of(nics, n, port)):
        pending = ports.pending[n, p, slot]
        pending.status = status
        if port.by_verbs == 1 and has_open_predecessor(ports, n, p, slot):
            fail_after_predecessors(nics, n, p, slot, status)
            return
        break_connection(nics, n, p, layout.BROKEN, POSTED_BADLY, local_error_verdict(port))
        if pending.busy == 0:
            return  # it has been reported, in its turn
    elif (
        port.operation in (layout.SEND, layout.WRITE)
        and port.done > 0
        and status != layout.PEER_DEAD
    ):
        abort_message(nics, n, np.int64(port.channel), port.message)
    report_sent(nics, n, p, slot, status)


@step
def _stream_of(nics, n, port):
    """The stream of the connection of ``port``, which has one."""
    if port.datagrams == 1:
        return stream_to(nics.ports, n, port.offset)
    return stream_to(nics.ports, n, peer_of(nics.ports.channels[n, port.channel]))
