"""The queue of a connected port's receives: posted, reported in their order, handed back, flushed.

The report of a number is of the receive of that number, and has its place from when that is posted.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.calls import break_connection, keep_pages, report_received
from nicscope.nic.ports.layout import BROKEN, CONNECTED, DONE, FLUSHED, RECEIVED, SEND
from nicscope.nic.ports.notices import urge
from nicscope.nic.ports.reports import announce
from nicscope.nic.ports.streams import is_reliable, peer_of, stream_to, taker_of
from nicscope.nic.ports.tallies import tally_told
from nicscope.nic.ports.troubles import note_trouble
from nicscope.nic.ports.work_queues import POSTED_BADLY

NO_NUMBER = -1
# What came with a message, beside it (``report.buffers``).
HAS_WORD = 1
HAS_KEY = 2  # of a window, which stands for nothing any more
IS_SOLICITED = 4


@step
def receive_place(nics, number):
    """Where a port has its receive of that number."""
    return place_in(number, nics.ports.work.receives.shape[2])


@step
def report_receive(nics, n, p, number, operation, status, length, word, has_word):
    """Report the receive of that number, the oldest not reported of port ``p``.

    ``word``: the immediate data that came with the message, if ``has_word``.
    """
    ports = nics.ports
    receive = ports.work.receives[n, p, receive_place(nics, number)]
    leave_receive(nics, n, p, number)
    channel = ports.table[n, p].channel
    peer = np.int64(ports.channels[n, channel].node if channel >= 0 else n)
    place = report_received(nics, n, p, operation, word, peer, length, has_word, 0)
    report = ports.reports[n, p, RECEIVED, place]
    report.cookie = receive.cookie
    report.status = status
    ports.told[n, status] += 1
    ports.port_told[n, p, status] += 1
    tally_told(nics, n, p, RECEIVED, status)
    if receive.queue != 0:
        announce(nics, n, p, RECEIVED, receive.queue - 1)
    if status != DONE or has_word & IS_SOLICITED:
        q = receive.queue - 1 if receive.queue != 0 else ports.table[n, p].receive_queue
        urge(nics, n, np.int64(q))


@routine
def leave_receive(nics, n, p, number):
    """The pages of that receive need not stay pinned for it."""
    work = nics.ports.work
    place = receive_place(nics, number)
    if work.receives[n, p, place].kept == 0:
        return
    work.receives[n, p, place].kept = 0
    bits = nics.ports.rules[0].page_bits
    for i in range(work.receives[n, p, place].segments):
        piece = work.pieces[n, p, place, i]
        room = nics.ports.rules[0].space_bytes
        if not (0 <= piece.address < room and 1 <= piece.length <= room - piece.address):
            continue  # there is no such memory
        first = piece.address >> bits
        pages = ((piece.address + piece.length - 1) >> bits) - first + 1
        keep_pages(nics, n, nics.ports.table[n, p].space, first, pages, 0)


@distant
def hand_back_receive(nics, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its receive waits for another.

    Messages that came later may have taken receives.  It goes behind theirs, so that receives are
    reported in the order of their numbers still.
    """
    ports = nics.ports
    gone = ports.arrival_heads[n, slot]
    p = np.int64(taker_of(ports, n, gone))
    port = ports.table[n, p]
    if gone.receive < port.received:
        return  # it has ended without a message
    move_receive(nics, n, p, np.int64(gone.receive), port.receives_taken - 1)
    port.receives_taken -= 1
    gone.receive = NO_NUMBER


@distant
def refuse_receive(nics, n, p, status, is_lost):
    """The receive that port ``p`` has posted last is none: it ends at once, before all others.

    ``is_lost``: its descriptor could not even be read, which ends any connection.
    """
    port = nics.ports.table[n, p]
    first = np.int64(port.received)
    move_receive(nics, n, p, port.receives_posted - 1, first)
    port.receives_taken += 1
    report_receive(nics, n, p, first, SEND, status, np.int64(0), np.int64(0), np.int64(0))
    if port.state != CONNECTED or port.datagrams == 1:
        if is_lost:
            note_trouble(nics, n, p, POSTED_BADLY)
        return
    stream = stream_to(nics.ports, n, peer_of(nics.ports.channels[n, port.channel]))
    if is_lost or is_reliable(nics.ports, stream):
        break_connection(nics, n, p, BROKEN, POSTED_BADLY, FLUSHED)


@routine
def move_receive(nics, n, p, begin, end):
    """Have the receive of port ``p`` with number ``begin`` be number ``end``.

    Those between have the numbers beside theirs then, and so do the messages that fill them.
    """
    ports = nics.ports
    step = 1 if begin < end else -1
    for number in range(begin, end, step):
        _exchange(nics, n, p, number, number + step)
    for tag in range(ports.channels.shape[1]):
        channel = ports.channels[n, tag]
        if channel.port == p and channel.placed >= 0:
            channel.receive = _number_after(channel.receive, begin, end)
    endpoint = nics.endpoints[n]
    for i in range(endpoint.completed, endpoint.accepted):
        head = ports.arrival_heads[n, place_in(i, endpoint.receive_ring)]
        if head.receive >= 0 and taker_of(ports, n, head) == p:
            head.receive = _number_after(head.receive, begin, end)


@step
def _number_after(number, begin, end):
    """What the receive of that number has when the one of ``begin`` has become ``end``."""
    if number == begin:
        return np.int64(end)
    if begin < number <= end:
        return np.int64(number - 1)
    if end <= number < begin:
        return np.int64(number + 1)
    return np.int64(number)


@step
def _exchange(nics, n, p, number, other):
    work = nics.ports.work
    a, b = receive_place(nics, number), receive_place(nics, other)
    first, second = work.receives[n, p, a], work.receives[n, p, b]
    first.cookie, second.cookie = second.cookie, first.cookie
    first.segments, second.segments = second.segments, first.segments
    first.length, second.length = second.length, first.length
    first.status, second.status = second.status, first.status
    first.kept, second.kept = second.kept, first.kept
    first.queue, second.queue = second.queue, first.queue
    first.serial, second.serial = second.serial, first.serial
    for i in range(work.pieces.shape[3]):
        one, two = work.pieces[n, p, a, i], work.pieces[n, p, b, i]
        one.address, two.address = two.address, one.address
        one.length, two.length = two.length, one.length
        one.key, two.key = two.key, one.key


@distant
def flush_receives(nics, n, p):
    """The connection of port ``p`` is over: receives that it has posted end without a message."""
    port = nics.ports.table[n, p]
    for number in range(port.received, port.receives_posted):
        report_receive(nics, n, p, number, SEND, FLUSHED, np.int64(0), np.int64(0), np.int64(0))
    port.receives_taken = port.receives_posted
    _forget_message(nics, n, p)


@distant
def let_receives_go(nics, n, p):
    """Port ``p`` closes: of the receives that it has posted nothing is heard any more."""
    port = nics.ports.table[n, p]
    for number in range(port.received, port.receives_posted):
        leave_receive(nics, n, p, number)
    port.receives_posted = port.receives_taken = port.received
    port.reserved = port.received
    _forget_message(nics, n, p)


@step
def _forget_message(nics, n, p):
    """No message of port ``p`` is half there."""
    for tag in range(nics.ports.channels.shape[1]):
        if nics.ports.channels[n, tag].port == p:
            nics.ports.channels[n, tag].placed = -1
