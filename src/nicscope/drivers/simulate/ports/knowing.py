"""What the firmware has to know before it serves a request or a packet, beside translations.

What misses is dropped: a packet comes again by its sender's timer; a descriptor stays in its
queue, which the firmware looks at again once the thread has filled the entry (MI-28 is open).
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports.calls import has_handle, raise_event
from nicscope.drivers.simulate.ports.promising import note_dropped
from nicscope.drivers.simulate.ports.streams import stream_to
from nicscope.drivers.simulate.ports.traffic import NO_HANDLE
from nicscope.kernel.decorators import routine, step
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE, PROCESS_HANDLE
from nicscope.nic.ports import FETCH, NOBODY, WRITE

# Lookups of one request or packet; when it comes again, those up to the missed one are repeated.
FIRST = 1
SECOND = 2
OWN = -1  # in place of a port: a packet misses, and nobody here waits


@step
def looks_up_handles(machine):
    """Whether buffers and processes are looked up in caches."""
    return machine.ports.rules[0].handles == 1


@routine
def knows_request(machine, n, p, now):
    """Whether the NIC knows the process of port ``p``, and the buffer that it names next.

    If not, a miss is on its way to the kernel and the port waits.
    """
    ports = machine.ports
    port = ports.table[n, p]
    again = port.polled_again
    if not _has(machine, n, p, PROCESS_HANDLE, p, again >= FIRST, now):
        port.polled_again = max(again, FIRST)
        return False
    request = ports.requests[n, p, port.taken % ports.rules[0].ring]
    if request.operation == WRITE or request.operation == FETCH:
        number = request.name
        is_one = number >= 0 and number < ports.imports.shape[1]
        if is_one and not _has(machine, n, p, IMPORT_HANDLE, number, again >= SECOND, now):
            port.polled_again = SECOND
            return False
    port.polled_again = 0
    return True


@step
def _has(machine, n, who, kind, number, again, now):
    if has_handle(machine, n, kind, number, np.int64(again)):
        return True
    raise_event(machine, n, who, kind, number, 0, 0, now)
    return False


@routine
def export_for(machine, d, packet, head, now):
    """Whether what protects the export of ``head`` is known: it is in ``Ports.shown`` then."""
    ports = machine.ports
    number = head.name
    if not looks_up_handles(machine):
        ports.shown[d] = ports.exports[d, number]
        return True
    again = _missed_at(machine, d, packet, head) >= FIRST
    if not _has(machine, d, OWN, EXPORT_HANDLE, number, again, now):
        _note_miss(machine, d, packet, head, FIRST)
        return False
    owner = ports.shown[d].port
    if ports.shown[d].valid == 0 or owner == NOBODY:
        return True
    return process_for(machine, d, packet, head, owner, now)


@routine
def process_for(machine, d, packet, head, p, now):
    """Whether the process that the packet of ``head`` is for is known to the NIC."""
    if not looks_up_handles(machine):
        return True
    again = _missed_at(machine, d, packet, head) >= SECOND
    if _has(machine, d, OWN, PROCESS_HANDLE, p, again, now):
        return True
    _note_miss(machine, d, packet, head, SECOND)
    return False


@step
def _missed_at(machine, d, packet, head):
    """The lookup that this packet missed when it came before, or 0."""
    stream = stream_to(machine.ports, d, packet.sender)
    if head.sequence < 0:
        return np.int64(0)
    if head.sequence == stream.missed:
        return np.int64(SECOND)  # its page
    return np.int64(stream.missed_at) if head.sequence == stream.missed_handle else np.int64(0)


@step
def _note_miss(machine, d, packet, head, which):
    stream = stream_to(machine.ports, d, packet.sender)
    before = _missed_at(machine, d, packet, head)
    stream.missed_handle = head.sequence
    stream.missed_at = max(before, which)
    head.why = NO_HANDLE
    note_dropped(machine, d, packet.sender, head.sequence)
