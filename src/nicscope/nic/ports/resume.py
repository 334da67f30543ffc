"""Resume what waited for a translation: the miss was served, or cannot be."""

from __future__ import annotations

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.ports import calls, layout
from nicscope.nic.ports.arrivals import NO_PLACE, REFUSED_FOR_GOOD
from nicscope.nic.ports.lookup import cancel_reservation
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.transmit import destination_of, may_send_packet
from nicscope.nic.ports.window import set_deadline


@distant
def resume_filled(nics, n, frame):
    """Resume after a fill: the missed page is in ``frame``."""
    serving = nics.ports.nodes[n]
    who = serving.miss_for
    if who == layout.ARRIVAL:
        calls.accept_arrival(nics, n, frame)
    elif serving.miss_ahead == 1:
        calls.accept_buffer(nics, n, who, frame)
    elif nics.ports.table[n, who].busy == 1:
        calls.set_send_page(nics, n, who, serving.miss_page, frame)
        d = destination_of(nics, n, who)
        if stream_to(nics.ports, n, d).dead == 1:
            calls.end_descriptor(nics, n, who, layout.PEER_DEAD)  # it died over the miss
        elif may_send_packet(nics, n, who):
            calls.next_packet(nics, n, who)


@distant
def resume_failed(nics, n, status):
    """Fail what missed a page that the NIC cannot have, with ``status``."""
    serving = nics.ports.nodes[n]
    who = serving.miss_for
    if who == layout.ARRIVAL:
        calls.reject_arrival(nics, n, NO_PLACE if status == layout.NO_ROOM else REFUSED_FOR_GOOD)
    elif serving.miss_ahead == 1:
        calls.return_buffer(nics, n, who, status)
    else:
        calls.end_descriptor(nics, n, who, status)


@distant
def resume_without_entry(nics, n, for_now, now):
    """Resume without an entry: none is free (``for_now``), or there never will be one."""
    ports = nics.ports
    serving = ports.nodes[n]
    who = serving.miss_for
    if who == layout.ARRIVAL:
        calls.evict_waiting_buffers(nics, n, serving.miss_space, serving.miss_page)
        calls.drop_arrival_without_entry(nics, n)
    elif for_now:
        wait_for_entry(nics, n, who, serving.miss_space, serving.miss_page, serving.miss_ahead, now)
    elif serving.miss_ahead == 1:
        calls.return_buffer(nics, n, who, layout.NO_ROOM)
    else:
        calls.end_descriptor(nics, n, who, layout.NO_ROOM)


@routine
def wait_for_entry(nics, n, p, space, page, ahead, now):
    """Have port ``p``, or its next buffer, wait until a transfer releases an entry."""
    serving = nics.ports.nodes[n]
    if ahead == 1 and not cancel_reservation(nics, n):
        serving.use_blocked += 1
        nics.ports.table[n, p].ahead_waits = layout.AWAITS_USE
    elif ahead == 0 and not calls.evict_waiting_buffers(nics, n, space, page):
        # What is promised to a packet is in the way once: then it is this port's turn.
        waited = nics.ports.table[n, p].until != 0
        if not (waited and cancel_reservation(nics, n)):
            _block_on_entry(nics, n, p, now)
    serving.attention = 1


@step
def _block_on_entry(nics, n, p, now):
    """Block port ``p`` until a transfer ends, at most as long as for a dead peer.

    A message that arrives may hold what it waits for, and come from a node that waits likewise.
    """
    ports = nics.ports
    port = ports.table[n, p]
    if port.until == 0:
        port.until = now + (ports.rules[0].most_retries + 1) * ports.rules[0].time_out
    if port.until <= now:
        calls.end_descriptor(nics, n, p, layout.NO_ROOM)
        return
    set_deadline(nics, n, port.until)
    ports.nodes[n].use_blocked += 1
    port.blocked = layout.AWAITS_USE
