"""Scattering: a payload goes to several stretches of memory, its runs, one transfer for each.

A packet of a connected port says where in its message it belongs; the pieces of the receive that
the message fills say where that is.  A store that is redirected goes to one piece, where it may
lie over the end of a page.  Each page that a payload touches is looked up and held until
the packet is completed.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import calls
from nicscope.nic.ports.calls import ask_page, fail_receive, release, translated_frame
from nicscope.nic.ports.datagrams import room_of
from nicscope.nic.ports.holding import NO_KEY, holds_entries
from nicscope.nic.ports.layout import ARRIVAL, MISSED, NO_ROOM, NOT_THERE, ONE, PROTECTION
from nicscope.nic.ports.lookup import generation_of, key_of, page_at, until_page_ends
from nicscope.nic.ports.outcome import ask_for_page
from nicscope.nic.ports.region_lookups import look_region_up, packets_in
from nicscope.nic.ports.regions import OWN_STORE, permits
from nicscope.nic.ports.remote_memory import is_barred
from nicscope.nic.ports.streams import stream_to

# What becomes of a payload's places.
LAID = 0  # it has all of them
WAITS = -1  # a translation is on its way
# Else the status with which what it was for ends.


@step
def piece_at(pieces, many, at):
    """The piece that byte ``at`` of a message goes to, and how many bytes of the piece are before.

    ``pieces``: SEGMENT, of which the first ``many`` count and together have more bytes.
    """
    i = 0
    while i < many - 1 and at >= pieces[i].length:
        at -= pieces[i].length
        i += 1
    return i, at


@step
def laid_bytes(nics, d, slot):
    """Bytes of the payload of the packet in ``slot`` whose places are known."""
    ports = nics.ports
    laid = np.int64(0)
    for i in range(ports.arrival_heads[d, slot].runs):
        laid += ports.work.runs[d, slot, i].count
    return laid


@routine
def place_over_pieces(nics, d, slot, p, pieces, many):
    """Find where in ``pieces`` the payload in ``slot`` goes; whether a page has to be waited for.

    They are memory of port ``p``, and hold its message: memory that is registered, if it takes
    ONE.  When that page is there, ``keep_run`` and
    then this once more; a payload for which there is no place has failed then.
    """
    found = _lay(nics, d, slot, p, pieces, many)
    if found == WAITS:
        return True
    if found != LAID:
        fail_receive(nics, d, slot, found)
    return False


@step
def _lay(nics, d, slot, p, pieces, many):
    """Find the places of a payload: ``LAID``, ``WAITS``, or the status of a failure."""
    head = nics.ports.arrival_heads[d, slot]
    payload = nics.arrivals[d, slot].payload
    head.runs = max(head.runs, 0)
    head.space = nics.ports.table[d, p].space
    by_key = nics.ports.table[d, p].takes == ONE
    laid = laid_bytes(nics, d, slot)
    while laid < payload:
        begin = room_of(head) + head.offset + laid
        i, within = piece_at(pieces, many, begin)
        piece = pieces[i]
        if by_key and not permits(nics, d, p, piece.key, piece.address, piece.length, OWN_STORE):
            return np.int64(PROTECTION)
        at = piece.address + within
        count = until_page_ends(nics, at, min(piece.length - within, payload - laid))
        run = nics.ports.work.runs[d, slot, head.runs]
        run.address = at
        run.count = count
        run.before = within
        run.after = piece.length - within - count
        if by_key:
            packets = packets_in(nics, begin, count, within == 0)
            look_region_up(nics, d, piece.key, packets)
        head.page = page_at(nics, at)
        frame = _look_up(nics, d, p, head)
        if frame < 0:
            return frame if frame == WAITS else -frame
        keep_run(nics, d, slot, p, frame)
        laid += count
    stream_to(nics.ports, d, head.peer).missed = -1
    return np.int64(LAID)


@step
def _look_up(nics, d, p, head):
    """The frame of the page that the payload goes to next, ``WAITS``, or less a status."""
    stream = stream_to(nics.ports, d, head.peer)
    space, page = head.space, head.page
    if stream.missed == head.sequence and head.sequence >= 0:
        nics.ports.nodes[d].repeated += 1
        frame = translated_frame(nics, d, space, page, 1)
        if frame == MISSED and stream.hopeless == head.sequence:
            stream.hopeless = -1
            return np.int64(-NO_ROOM)
        if frame == MISSED and is_barred(nics, d, space, page):
            return np.int64(-PROTECTION)
    else:
        frame = ask_page(nics, d, p, space, page, 1)
    if frame == MISSED:
        ask_for_page(nics, d, ARRIVAL, space, page, 1, 0)
        return np.int64(WAITS)
    if frame == NOT_THERE:
        return np.int64(-PROTECTION)
    return frame


@routine
def keep_run(nics, d, slot, p, frame):
    """The page that was looked up for the next run of the packet in ``slot`` is in ``frame``."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    run = ports.work.runs[d, slot, head.runs]
    key = key_of(nics, d, head.space, head.page)
    bits = ports.rules[0].page_bits
    run.address = (frame << bits) + (run.address & ((np.int64(1) << bits) - 1))
    run.frame = frame
    run.generation = generation_of(nics, d, frame)
    run.key = NO_KEY
    ports.owners[d, key] = p
    if holds_entries(nics):
        # Two pages of one payload may want the same entry: the frame is kept, and no entry.
        calls.keep_frame(nics, d, frame)
    else:
        run.key = key
        calls.hold(nics, d, key)
    head.runs += 1


@routine
def let_runs_go(nics, d, slot):
    """The packet in ``slot`` needs its pages no more."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    for i in range(head.runs):
        run = ports.work.runs[d, slot, i]
        if run.key != NO_KEY:
            release(nics, d, run.key)
        elif run.frame != GARBAGE_FRAME:
            calls.leave_frame(nics, d, np.int64(head.space), np.int64(run.frame))
        run.key = NO_KEY
        run.frame = GARBAGE_FRAME


@distant
def aim_at_run(nics, n, deposited):
    """Have hostRcv's next transfer of ``n`` go to the run that it is at; bytes up to its end.

    Of ``deposited`` bytes of the payload no more can go with it.
    """
    endpoint = nics.endpoints[n]
    slot = place_in(endpoint.drained, endpoint.receive_ring)
    runs = nics.ports.work.runs[n, slot]
    i = 0
    begin = np.int64(0)
    while begin + runs[i].count <= endpoint.drain_sunk:
        begin += runs[i].count
        i += 1
    head = nics.ports.arrival_heads[n, slot]
    head.run = i
    head.frame = runs[i].frame
    head.generation = runs[i].generation
    nics.arrivals[n, slot].address = runs[i].address - begin
    return min(deposited, begin + runs[i].count)
