"""What the firmware of ports calls from a distance: its own pieces, and what a driver supplies.

What is declared here is called like any step; each is compiled by itself.  A driver links the
functions themselves: the firmware's, from the modules beside this one, and its own for the rest,
which is all that the firmware knows of a host and of a network.
"""

from __future__ import annotations

from nicscope.kernel.distant import Declarations

FIRMWARE = Declarations()


# Pieces of the firmware.


@FIRMWARE.function
def translate_buffer(nics, n, p):
    """Translate the next buffer of the free queue of port ``p``."""


@FIRMWARE.function
def accept_buffer(nics, n, p, frame):
    """Take the translated buffer at the head of the free queue; messages may use it."""


@FIRMWARE.function
def add_ready_buffer(nics, n, p, address, frame, key):
    """Append a translated buffer to the ready buffers of port ``p``."""


@FIRMWARE.function
def return_buffer(nics, n, p, status):
    """Return the buffer at the head of the free queue to its process, unfilled."""


@FIRMWARE.function
def abandon_message(nics, n, tag):
    """Abandon the message arriving by ``tag``: its buffers are ready for another."""


@FIRMWARE.function
def undo_placement(nics, n, slot):
    """Undo the placement of the packet in ``slot``, which will be retransmitted."""


@FIRMWARE.function
def choose_source(nics, n):
    """The source that SERVE at ``n`` would serve next, or ``NO_SOURCE``."""


@FIRMWARE.function
def update_store_and_forward(nics, n, fetching):
    """Update whether the oldest packets of ``n`` wait for the rest of their messages."""


@FIRMWARE.function
def serve(nics, n):
    """Do what SERVE at ``n`` was begun for; the processor has spent its time."""


@FIRMWARE.function
def end_descriptor(nics, n, p, status):
    """End the current descriptor of port ``p``; after ``DONE`` its last packet completes it."""


@FIRMWARE.function
def next_packet(nics, n, p):
    """Make the next packet of port ``p``'s current descriptor, whose page is translated."""


@FIRMWARE.function
def set_send_page(nics, n, p, page, frame):
    """Hold the translated page that port ``p`` sends from until it moves to the next one."""


@FIRMWARE.function
def complete_arrival(nics, d, slot, now):
    """Complete the packet in ``slot`` of the receive ring of node ``d``."""


@FIRMWARE.function
def acknowledge_on_nic(nics, d, slot, now):
    """Acknowledge the packet in ``slot``, all on the NIC, if its checksum is right."""


@FIRMWARE.question
def place_arrival(nics, d):
    """Place the payload of the last packet; whether it waits for a translation."""


@FIRMWARE.question
def place_in_receive(nics, d):
    """Place the payload of the last packet in the receive of its message."""


@FIRMWARE.question
def continue_placement(nics, d, frame):
    """Its page is in ``frame``: whether another one has to be waited for."""


@FIRMWARE.function
def fail_receive(nics, d, slot, status):
    """Fail the message of the packet in ``slot``, the last to arrive: it cannot be placed."""


@FIRMWARE.question
def place_by_key(nics, d):
    """Place the payload of a remote write by key; whether it waits for a translation."""


@FIRMWARE.question
def place_scattered_answer(nics, d):
    """Scatter the payload of a remote read's answer; whether it waits for a translation."""


@FIRMWARE.question
def place_redirected(nics, d):
    """Place the payload of a redirected store that crosses a page boundary."""


@FIRMWARE.function
def complete_remote_work(nics, d, slot):
    """Complete a packet of a remote write, or the request of a fetch; its status."""


@FIRMWARE.function
def start_remote_read(nics, n, p):
    """Start a remote read of port ``p``: its answer is scattered over its segments."""


@FIRMWARE.function
def finish_remote_read(nics, n, p, slot, status):
    """Complete a remote read or atomic of port ``p``; fenced requests behind it may start."""


@FIRMWARE.function
def complete_receive(nics, d, slot):
    """Complete a packet of a message for a receive; its status."""


@FIRMWARE.function
def abandon_receive(nics, n, tag):
    """Abandon the message arriving by ``tag``: its receive waits for another."""


@FIRMWARE.function
def undo_receive_placement(nics, d, slot):
    """The packet in ``slot``, of a message for a receive, will come again."""


@FIRMWARE.function
def repost_receive(nics, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its receive waits for another."""


@FIRMWARE.function
def flush_receives(nics, n, p):
    """Flush the posted receives of port ``p``, whose connection has ended."""


@FIRMWARE.function
def reject_receive(nics, n, p, status, is_lost):
    """Reject the newest receive of port ``p``: it completes at once, before all others."""


@FIRMWARE.function
def discard_receives(nics, n, p):
    """Discard the posted receives of port ``p``, which closes, without reports."""


@FIRMWARE.function
def select_segment(nics, n, deposited):
    """Point hostRcv's next transfer at its current segment; the payload bytes left of it."""


@FIRMWARE.function
def break_connection(nics, n, p, state, told, verdict):
    """Break the connection of port ``p``, if it has one, and put the port into ``state``."""


@FIRMWARE.function
def break_overrun_connection(nics, n, p):
    """Break the connection of port ``p``, whose completion queue was full."""


@FIRMWARE.function
def on_peer_dead(nics, n, d):
    """Break the connection to ``d``, which is dead: what was begun completes with an error."""


@FIRMWARE.function
def on_disconnect(nics, d, slot, now):
    """Handle a packet of a stream that has ended, here or at the peer; its outcome."""


@FIRMWARE.function
def check_work_request(nics, n, p):
    """Check the copied work request of a connected port: ``DONE``, or a status."""


@FIRMWARE.function
def end_work_request(nics, n, p, status):
    """End the current work request of a connected port with ``status``."""


@FIRMWARE.function
def accept_arrival(nics, d, frame):
    """Accept the payload of the last packet: its page is translated."""


@FIRMWARE.function
def drop_arrival(nics, d):
    """Drop the last packet for now; its payload is discarded."""


@FIRMWARE.function
def resume_filled(nics, n, frame):
    """Resume after a fill: the missed page is in ``frame``."""


@FIRMWARE.function
def resume_failed(nics, n, status):
    """Fail what missed a page that the NIC cannot have, with ``status``."""


@FIRMWARE.function
def resume_without_entry(nics, n, for_now, now):
    """Resume without an entry: none is free (``for_now``), or there never will be one."""


@FIRMWARE.function
def reject_arrival(nics, d, how):
    """Reject the last packet for good: access is denied, or there is no place for it."""


@FIRMWARE.function
def drop_arrival_without_entry(nics, d):
    """Drop the last packet, for whose page no entry is free, until its retries are exceeded."""


@FIRMWARE.function
def plan_service(nics, n, source):
    """Plan the steps of SERVE for ``source``, misses aside."""


@FIRMWARE.function
def plan_placing(nics, n):
    """Plan the placement of a payload: its lookups, unless its buffer was translated ahead."""


@FIRMWARE.function
def plan_completion(nics, n):
    """Plan the delivery of a message to its process, with its last packet."""


@FIRMWARE.function
def retransmit_next(nics, n, d):
    """Retransmit the next packet of the window to ``d``."""


@FIRMWARE.function
def send_bare_acknowledgement(nics, n, d):
    """Send ``d`` an acknowledgement in a packet of its own."""


@FIRMWARE.function
def fire_timers(nics, n, now):
    """Fire the due timers of ``n``: acknowledge, retransmit, and give up dead peers."""


@FIRMWARE.function
def report_sent(nics, n, p, slot, status):
    """Complete the descriptor of port ``p`` in ``slot`` with ``status``."""


@FIRMWARE.function
def report_received(nics, n, p, operation, name, node, length, buffers, offset):
    """Report an arrival to the process of port ``p``; the place of the report."""


@FIRMWARE.question
def has_handle(nics, n, kind, number, again):
    """Whether the NIC of ``n`` has handle ``number``; ``again``: 1 if it was asked for before."""


@FIRMWARE.function
def fill_handle(nics, n, kind, number):
    """Fill a handle from the host's table, even one that is not valid."""


@FIRMWARE.function
def invalidate_handle(nics, n, kind, number):
    """Invalidate the NIC's copy of a handle whose record on the host changes."""


@FIRMWARE.function
def defer_buffer(nics, n, p):
    """Defer the buffer at the head of the free queue: its page is still to be brought in."""


@FIRMWARE.function
def resolve_deferred_buffer(nics, n, p, page, frame):
    """Resolve a deferred buffer: its page has been brought in, or cannot be."""


@FIRMWARE.function
def return_unready_buffers(nics, n, p):
    """Return unfilled the buffers at the head whose pages are not in memory."""


@FIRMWARE.question
def evict_waiting_buffers(nics, n, space, page):
    """Evict ready buffers whose entries block ``page``, which a transfer needs; if any did."""


@FIRMWARE.function
def hold(nics, n, key):
    """Count one more user of the page of ``key``."""


@FIRMWARE.function
def release(nics, n, key):
    """Count one user less of the page of ``key``; wake ports that wait for that."""


# What a driver supplies: the host's tables, its memory, the network.


@FIRMWARE.function
def keep_pages(nics, n, space, first, pages, keep):
    """Have the library keep pages pinned for a request (``keep`` 1), or not any more (0)."""


@FIRMWARE.function
def release_request_pages(nics, n, p, slot):
    """Release the pages of a request that has ended: they may be unpinned."""


@FIRMWARE.question
def has_valid_checksum(nics, d, slot):
    """Whether the payload of the packet in ``slot`` has the checksum that it was sent with."""


@FIRMWARE.question
def has_valid_checksum_on_nic(nics, d, slot):
    """Whether the payload in ``slot``, still in NIC memory, has the checksum it was sent with."""


@FIRMWARE.function
def ask_page(nics, n, p, space, page, receive):
    """Frame of ``page`` if the NIC has its translation, else ``MISSED`` or ``NOT_THERE``."""


@FIRMWARE.function
def translated_frame(nics, n, space, page, receive):
    """Frame of ``page`` if it is translated and fit for use, else ``MISSED``; nothing is noted."""


@FIRMWARE.function
def needed_for(nics, n, space, page, receive):
    """What the kernel must do before the NIC may have ``page``, as ``memory.paging`` names it."""


@FIRMWARE.function
def copy_from_kernel(nics, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""


@FIRMWARE.function
def add_frame_pin(nics, n, frame):
    """One more pin of its own on a frame whose page has left the NIC."""


@FIRMWARE.function
def drop_frame_pin(nics, n, space, frame):
    """Drop such a pin: after the last one the frame may move."""


@FIRMWARE.function
def set_route(nics, n, d, path):
    """Set the path of what node ``n`` sends to ``d``."""


@FIRMWARE.function
def search_route(nics, n, now):
    """Start the search for routes between node ``n`` and the node of its ``searching``."""


@FIRMWARE.function
def abort_transmission(nics, n, d):
    """Abort the packet that node ``n`` is transmitting to ``d``."""


@FIRMWARE.function
def post_report(nics, n, p, ring):
    """Post a report of port ``p``, which its process sees when it has crossed to the host."""
