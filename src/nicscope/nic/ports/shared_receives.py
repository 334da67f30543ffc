"""Shared queues of receives: a message takes the oldest, whichever port of several it is for.

A port with ``shared`` set is such a queue: its process posts receives to it, as to any port that
takes ONE, and it has no connection.  A port that ``shares`` it draws a receive when a message
begins for which it has none.  From then on the receive is that port's own: it reports the receive,
has it again if the message comes in vain, and flushes it with its connection.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.layout import NAMED, NOBODY, ONE, OWN_PORT
from nicscope.nic.ports.troubles import note_trouble
from nicscope.nic.ports.work_queues import RECEIVES_LOW


@step
def queue_for(nics, n, p, head):
    """The port whose oldest receive the message of ``head`` for port ``p`` takes, if it has one.

    That is ``p`` unless only its shared queue has any, and ``p`` room for one more.
    """
    ports = nics.ports
    port = ports.table[n, p]
    if port.receives_taken != port.receives_posted or port.shares == OWN_PORT:
        return np.int64(p)
    if port.receives_posted - port.read == min(ports.work.receives.shape[2], ports.rules[0].ring):
        return np.int64(p)
    q = np.int64(head.swap if port.shares == NAMED else port.shares)
    if q <= OWN_PORT or q >= ports.table.shape[1]:
        return np.int64(p)
    queue = ports.table[n, q]
    if queue.shared == 0 or queue.open == 0 or queue.takes != ONE or queue.space != port.space:
        return np.int64(p)
    if port.shares == NAMED and queue.group != port.group:
        return np.int64(p)
    return q if queue.receives_taken != queue.receives_posted else np.int64(p)


@routine
def draw_receive(nics, n, p, q):
    """Port ``p`` has the oldest receive of shared queue ``q`` for its own, behind all that it has.

    The process of the queue learns once if few are left.
    """
    ports = nics.ports
    queue = ports.table[n, q]
    port = ports.table[n, p]
    place = place_in(queue.receives_taken, ports.work.receives.shape[2])
    there = place_in(port.receives_posted, ports.work.receives.shape[2])
    drawn = ports.work.receives[n, p, there]
    ports.work.receives[n, p, there] = ports.work.receives[n, q, place]
    ports.work.receives[n, q, place].kept = 0
    for i in range(drawn.segments):
        ports.work.pieces[n, p, there, i] = ports.work.pieces[n, q, place, i]
    drawn.serial = port.receives_posted
    if port.shares == NAMED:
        port.domain = queue.domain  # the memory is that of the queue
    named = port.shares == NAMED and queue.receive_queue != NOBODY
    drawn.queue = queue.receive_queue + 1 if named else 0
    port.receives_posted += 1
    port.reserved += 1
    # A shared queue reports nothing: what is drawn is as read.
    queue.receives_taken += 1
    queue.received += 1
    queue.read += 1
    if queue.receives_posted - queue.receives_taken < queue.limit:
        queue.limit = 0
        note_trouble(nics, n, q, RECEIVES_LOW)
