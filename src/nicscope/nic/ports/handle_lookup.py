"""What the firmware has to know before it serves a request or a packet, beside translations.

What misses is dropped: a packet comes again by its sender's timer; a descriptor stays in its
queue, which the firmware looks at again once the thread has filled the entry (MI-28 is open).
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE, PROCESS_HANDLE
from nicscope.nic.ports.accounts import count_handle, port_of_arrival
from nicscope.nic.ports.calls import has_handle
from nicscope.nic.ports.layout import FETCH, NOBODY, ONE, WRITE
from nicscope.nic.ports.outcome import ask_for_handle
from nicscope.nic.ports.reservation import note_dropped
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.traffic import NO_HANDLE

# Lookups of one request or packet; when it comes again, those up to the missed one are repeated.
FIRST = 1
SECOND = 2
OWN = -1  # in place of a port: a packet misses, and nobody here waits


@step
def looks_up_handles(nics):
    """Whether buffers and processes are looked up in caches."""
    return nics.ports.rules[0].handles == 1


@routine
def knows_request(nics, n, p):
    """Whether the NIC knows the process of port ``p``, and the buffer that it names next.

    If not, a miss is on its way to the kernel and the port waits.
    """
    ports = nics.ports
    port = ports.table[n, p]
    again = port.polled_again
    if not _has(nics, n, p, PROCESS_HANDLE, p, again >= FIRST, p):
        port.polled_again = max(again, FIRST)
        return False
    request = ports.requests[n, p, place_in(port.taken, ports.rules[0].ring)]
    is_remote = request.operation == WRITE or request.operation == FETCH
    if is_remote and port.takes != ONE:
        number = request.name
        is_one = number >= 0 and number < ports.shared.imports.shape[1]
        if is_one and not _has(nics, n, p, IMPORT_HANDLE, number, again >= SECOND, p):
            port.polled_again = SECOND
            return False
    port.polled_again = 0
    return True


@step
def _has(nics, n, who, kind, number, again, p):
    found = has_handle(nics, n, kind, number, np.int64(again))
    if not again:
        count_handle(nics, n, p, np.int64(0 if found else 1))
    if found:
        return True
    ask_for_handle(nics, n, who, kind, number)
    return False


@routine
def export_for(nics, d, head):
    """Whether what protects the export of ``head`` is known: it is in ``Ports.shown`` then."""
    ports = nics.ports
    number = head.name
    if not looks_up_handles(nics):
        ports.shown[d] = ports.shared.exports[d, number]
        return True
    again = _missed_at(nics, d, head) >= FIRST
    if not _has(nics, d, OWN, EXPORT_HANDLE, number, again, port_of_arrival(nics, d, head)):
        _note_miss(nics, d, head, FIRST)
        return False
    owner = ports.shown[d].port
    if ports.shown[d].valid == 0 or owner == NOBODY:
        return True
    return process_for(nics, d, head, owner)


@routine
def process_for(nics, d, head, p):
    """Whether the process that the packet of ``head`` is for is known to the NIC."""
    if not looks_up_handles(nics):
        return True
    again = _missed_at(nics, d, head) >= SECOND
    if _has(nics, d, OWN, PROCESS_HANDLE, p, again, p):
        return True
    _note_miss(nics, d, head, SECOND)
    return False


@step
def _missed_at(nics, d, head):
    """The lookup that this packet missed when it came before, or 0."""
    stream = stream_to(nics.ports, d, head.peer)
    if head.sequence < 0:
        return np.int64(0)
    if head.sequence == stream.missed:
        return np.int64(SECOND)  # its page
    return np.int64(stream.missed_at) if head.sequence == stream.missed_handle else np.int64(0)


@step
def _note_miss(nics, d, head, which):
    stream = stream_to(nics.ports, d, head.peer)
    before = _missed_at(nics, d, head)
    stream.missed_handle = head.sequence
    stream.missed_at = max(before, which)
    head.why = NO_HANDLE
    note_dropped(nics, d, head.peer, head.sequence)
