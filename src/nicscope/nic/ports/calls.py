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
def take_buffer(nics, n, p):
    """Translate the next buffer of the free queue of port ``p``."""


@FIRMWARE.function
def keep_buffer(nics, n, p, frame):
    """The buffer at the head of the free queue is translated: messages may have it."""


@FIRMWARE.function
def put_ready(nics, n, p, address, frame, key):
    """A translated buffer of port ``p`` waits for a message."""


@FIRMWARE.function
def return_buffer(nics, n, p, status):
    """Give the buffer at the head of the free queue back to its process, unfilled."""


@FIRMWARE.function
def give_up_message(nics, n, tag):
    """The message that arrives by ``tag`` will not be whole: its buffers wait for another."""


@FIRMWARE.function
def go_back(nics, n, slot):
    """The piece in ``slot`` will come again: its message is as it was before that was placed."""


@FIRMWARE.function
def choose_source(nics, n):
    """What SERVE would be begun for at ``n`` now, or ``NO_SOURCE``."""


@FIRMWARE.function
def hold_messages(nics, n, fetching):
    """Say whether the oldest packets of ``n`` wait for the rest of their messages."""


@FIRMWARE.function
def serve(nics, n):
    """Effect of SERVE, whose time the processor of ``n`` has spent."""


@FIRMWARE.function
def end_request(nics, n, p, status):
    """The descriptor under way at port ``p`` goes no further; with ``DONE`` a packet tells."""


@FIRMWARE.function
def next_packet(nics, n, p):
    """Make the next packet of the descriptor under way at port ``p``; its page is translated."""


@FIRMWARE.function
def enter_page(nics, n, p, page, frame):
    """The page that port ``p`` sends from is translated; it is held until the next one."""


@FIRMWARE.function
def complete_arrival(nics, d, slot, now):
    """Effect of COMPLETE on the packet in ``slot`` of what has arrived at node ``d``."""


@FIRMWARE.function
def note_on_nic(nics, d, slot, now):
    """All of the packet in ``slot`` is on the NIC: it is confirmed, if it came as it was sent."""


@FIRMWARE.question
def place_arrival(nics, d):
    """Find where the payload of the last packet goes; whether the processor waits for it."""


@FIRMWARE.question
def place_in_receive(nics, d):
    """Find where the payload of the last packet, of a message for a receive, goes."""


@FIRMWARE.question
def go_on_placing(nics, d, frame):
    """Its page is in ``frame``: whether another one has to be waited for."""


@FIRMWARE.function
def fail_receive(nics, d, slot, status):
    """The message of the packet in ``slot``, which came last, cannot go where it should."""


@FIRMWARE.question
def place_by_key(nics, d):
    """Find where the payload of the last packet, of a remote write, goes; whether it must wait."""


@FIRMWARE.question
def place_scattered_answer(nics, d):
    """Find where the payload of the last packet, of an answer, goes; whether that is waited for."""


@FIRMWARE.question
def place_redirected(nics, d):
    """Find where the payload of the last packet, of a redirected store, goes over two pages."""


@FIRMWARE.function
def complete_remote_work(nics, d, slot):
    """A packet of a remote write, or the question of a fetch, is wholly in; what becomes of it."""


@FIRMWARE.function
def begin_reading(nics, n, p):
    """Port ``p`` asks for memory of its peer: the answer goes to the segments of its descriptor."""


@FIRMWARE.function
def end_reading(nics, n, p, slot, status):
    """What port ``p`` has asked of its peer's memory has ended; what waits behind it may go."""


@FIRMWARE.function
def complete_receive(nics, d, slot):
    """A packet of a message for a receive is wholly in; what becomes of it."""


@FIRMWARE.function
def give_up_receive(nics, n, tag):
    """The message that arrives by ``tag`` will not be whole: its receive waits for another."""


@FIRMWARE.function
def go_back_in_receive(nics, d, slot):
    """The packet in ``slot``, of a message for a receive, will come again."""


@FIRMWARE.function
def hand_back_receive(nics, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its receive waits for another."""


@FIRMWARE.function
def flush_receives(nics, n, p):
    """The connection of port ``p`` is over: receives that it has posted end without a message."""


@FIRMWARE.function
def refuse_receive(nics, n, p, status, is_lost):
    """The receive that port ``p`` has posted last is none: it ends at once, before all others."""


@FIRMWARE.function
def let_receives_go(nics, n, p):
    """Port ``p`` closes: of the receives that it has posted nothing is heard any more."""


@FIRMWARE.function
def aim_at_run(nics, n, deposited):
    """Have hostRcv's next transfer go to the run that it is at; payload bytes up to its end."""


@FIRMWARE.function
def break_connection(nics, n, p, state, told, verdict):
    """The connection of port ``p`` ends, if it has one; the port is in ``state`` then."""


@FIRMWARE.function
def end_overrun(nics, n, p):
    """Completions of connected port ``p`` have found no room: its connection ends."""


@FIRMWARE.function
def lose_peer(nics, n, d):
    """The other end of a connection has not answered for long: what was begun ends."""


@FIRMWARE.function
def hear_of_end(nics, d, slot, now):
    """A packet has come by a stream that has ended, here or there; what became of it."""


@FIRMWARE.function
def check_work(nics, n, p):
    """Whether the copied descriptor of a connected port may go: ``DONE``, or how it ends."""


@FIRMWARE.function
def end_work(nics, n, p, status):
    """The descriptor under way at a connected port goes no further: it ends with ``status``."""


@FIRMWARE.function
def settle_arrival(nics, d, frame):
    """The page of the last packet is translated: its payload may come."""


@FIRMWARE.function
def drop_arrival(nics, d):
    """The last packet cannot be taken now; its payload is let pass."""


@FIRMWARE.function
def resume_filled(nics, n, frame):
    """The page that was missed is in ``frame``: its packet may come, or the next one go."""


@FIRMWARE.function
def resume_failed(nics, n, status):
    """The NIC cannot have the page, which ``status`` says why: what missed it ends."""


@FIRMWARE.function
def resume_without_room(nics, n, for_now, now):
    """No entry is to be had: ``for_now``, while transfers use them all; else for good."""


@FIRMWARE.function
def reject_arrival(nics, d, how):
    """The last packet may not go where it should, or there is no place for it, for good."""


@FIRMWARE.function
def turn_away_arrival(nics, d):
    """Transfers leave no entry for the last packet's page: it comes again, but not for ever."""


@FIRMWARE.function
def plan_service(nics, n, source):
    """Plan what SERVE does for ``source``, misses aside."""


@FIRMWARE.function
def plan_placing(nics, n):
    """Plan how it is found where a payload goes: a lookup, but not of a buffer at hand."""


@FIRMWARE.function
def plan_completion(nics, n):
    """Plan how a message is handed to its process, at the end of its last packet."""


@FIRMWARE.function
def send_again(nics, n, d):
    """Send the next packet of the window to ``d`` once more."""


@FIRMWARE.function
def send_bare_acknowledgement(nics, n, d):
    """Acknowledge what has come from ``d`` with a packet of its own."""


@FIRMWARE.function
def mind_deadlines(nics, n, now):
    """What is due at ``n`` by now: acknowledgements to send, packets to send again."""


@FIRMWARE.function
def report_sent(nics, n, p, slot, status):
    """Tell the process of port ``p`` how its descriptor in ``slot`` ended."""


@FIRMWARE.function
def report_received(nics, n, p, operation, name, node, length, buffers, offset):
    """Tell the process of port ``p`` of what has come; the report's place."""


@FIRMWARE.question
def has_handle(nics, n, kind, number, again):
    """Whether the NIC of ``n`` has handle ``number``; ``again``: 1 if it was asked for before."""


@FIRMWARE.function
def fill_handle(nics, n, kind, number):
    """The kernel thread copies the host's record to the NIC; one that is not valid is so too."""


@FIRMWARE.function
def forget_handle(nics, n, kind, number):
    """The host's record changes: the NIC keeps no copy of the old one."""


@FIRMWARE.function
def defer_buffer(nics, n, p):
    """The page of the buffer at the head of the free queue has to be brought first."""


@FIRMWARE.function
def settle_buffer(nics, n, p, page, frame):
    """The page of a buffer that was deferred is there, or cannot be had."""


@FIRMWARE.function
def skip_unready(nics, n, p):
    """Give back unfilled the buffers whose turn has come while their pages are out."""


@FIRMWARE.question
def give_way(nics, n, space, page):
    """Whether a buffer that waits for a message was in the way of ``page``, which is to be used."""


@FIRMWARE.function
def hold(nics, n, key):
    """Count one more user of the page of ``key``."""


@FIRMWARE.function
def release(nics, n, key):
    """One user of the page of ``key`` less; ports that wait for such an end look again."""


# What a driver supplies: the host's tables, its memory, the network.


@FIRMWARE.function
def keep_pages(nics, n, space, first, pages, keep):
    """Have the library keep pages pinned for a request (``keep`` 1), or not any more (0)."""


@FIRMWARE.function
def leave_request(nics, n, p, slot):
    """The request has ended: its pages may be unpinned."""


@FIRMWARE.question
def is_sound(nics, d, slot):
    """Whether the payload of the packet in ``slot`` has the checksum that it was sent with."""


@FIRMWARE.question
def is_sound_on_nic(nics, d, slot):
    """The same, while the payload is still in the NIC's memory."""


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
def take_from_kernel(nics, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""


@FIRMWARE.function
def keep_frame(nics, n, frame):
    """One more pin of its own on a frame whose page has left the NIC."""


@FIRMWARE.function
def leave_frame(nics, n, space, frame):
    """One such pin less: the frame may move when it was the last."""


@FIRMWARE.function
def take_route(nics, n, d, path):
    """What node ``n`` sends to ``d`` goes by that path from now on."""


@FIRMWARE.function
def search_route(nics, n, now):
    """Node ``n`` begins to look for routes to and from the node of its ``searching``."""


@FIRMWARE.function
def break_off(nics, n, d):
    """What node ``n`` is putting on the network for ``d`` ends where it is."""


@FIRMWARE.function
def tell(nics, n, p, ring):
    """A report of port ``p`` is made, which its process sees when it has crossed to the host."""
