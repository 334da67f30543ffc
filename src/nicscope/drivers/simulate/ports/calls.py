"""The firmware and the kernel of nodes with ports, from a distance: see ``nicscope.distant``.

Each of these is compiled by itself; ``linked.FUNCTIONS`` has them in the order of the numbers here.
"""

from __future__ import annotations

from nicscope.distant import call
from nicscope.jit import step

CALLS = 72


@step
def could_admit_pieces(machine, n, p, slot):
    """Whether the library could have the pages of the descriptor pinned now."""
    return call(machine, 0, (n, p, slot)) & 1 == 1


@step
def admit(machine, n, p, slot):
    """Have the pages of the descriptor pinned and kept; what that takes, in ps."""
    return call(machine, 1, (n, p, slot))


@step
def admit_piece(machine, n, space, first, pages):
    """Have ``pages`` pages from ``first`` pinned; the time of it, in ps."""
    return call(machine, 2, (n, space, first, pages))


@step
def keep_pages(machine, n, space, first, pages, keep):
    """Have the library keep pages pinned for a request (``keep`` 1), or not any more (0)."""
    return call(machine, 3, (n, space, first, pages, keep))


@step
def leave_request(machine, n, p, slot):
    """The request has ended: its pages may be unpinned."""
    return call(machine, 4, (n, p, slot))


@step
def take_buffer(machine, n, p, now):
    """Translate the next buffer of the free queue of port ``p``."""
    return call(machine, 5, (n, p, now))


@step
def keep_buffer(machine, n, p, frame):
    """The buffer at the head of the free queue is translated: messages may have it."""
    return call(machine, 6, (n, p, frame))


@step
def put_ready(machine, n, p, address, frame, key):
    """A translated buffer of port ``p`` waits for a message."""
    return call(machine, 7, (n, p, address, frame, key))


@step
def return_buffer(machine, n, p, status):
    """Give the buffer at the head of the free queue back to its process, unfilled."""
    return call(machine, 8, (n, p, status))


@step
def give_up_message(machine, n, tag):
    """The message that arrives by ``tag`` will not be whole: its buffers wait for another."""
    return call(machine, 9, (n, tag))


@step
def go_back(machine, n, slot):
    """The piece in ``slot`` will come again: its message is as it was before that was placed."""
    return call(machine, 10, (n, slot))


@step
def is_sound(machine, d, slot):
    """Whether the payload of the packet in ``slot`` has the checksum that it was sent with."""
    return call(machine, 11, (d, slot)) & 1 == 1


@step
def check_transfer(machine, n):
    """Count the PCI transfer of ``n`` if the translation that it uses no longer holds."""
    return call(machine, 12, (n,))


@step
def choose_source(machine, n):
    """What SERVE would be begun for at ``n`` now, or ``NO_SOURCE``."""
    return call(machine, 13, (n,))


@step
def serve_duration(machine, n, source):
    """How long SERVE takes for ``source``, misses aside."""
    return call(machine, 14, (n, source))


@step
def place_duration(machine, n):
    """How long it takes to find where a payload goes: a lookup, but not of a buffer at hand."""
    return call(machine, 15, (n,))


@step
def finish_duration(machine, n):
    """How long it takes to hand a message to its process, at the end of its last packet."""
    return call(machine, 16, (n,))


@step
def complete_arrival(machine, d, slot, now):
    """Effect of COMPLETE on the packet in ``slot`` of what has arrived at node ``d``."""
    return call(machine, 17, (d, slot, now))


@step
def hold(machine, n, key):
    """Count one more user of the page of ``key``."""
    return call(machine, 18, (n, key))


@step
def release(machine, n, key):
    """One user of the page of ``key`` less; ports that wait for such an end look again."""
    return call(machine, 19, (n, key))


@step
def steal_cpu(machine, n, duration, now):
    """Take ``duration`` ps from the CPU of ``n``: now if it idles, else from what it does."""
    return call(machine, 20, (n, duration, now))


@step
def leave_packet(machine, n, place, now):
    """The last byte of the packet at ``place`` of the send ring of ``n`` has left."""
    return call(machine, 21, (n, place, now))


@step
def begin_miss(machine, n, who, space, page, receive, ahead, now):
    """Have the miss of ``page`` served; the processor waits, or ``who`` does."""
    return call(machine, 22, (n, who, space, page, receive, ahead, now))


@step
def meet_packet(machine, d, sender, place, now):
    """The header of a packet from ``sender``, at ``place`` of its ring, is in: judge it."""
    return call(machine, 23, (d, sender, place, now))


@step
def is_cut_off(machine, s, d, now):
    """Whether a node or a link between ``s`` and ``d`` is dead."""
    return call(machine, 24, (s, d, now)) & 1 == 1


@step
def place_arrival(machine, d, now):
    """Find where the payload of the last packet goes; whether the processor waits for it."""
    return call(machine, 25, (d, now)) & 1 == 1


@step
def settle_arrival(machine, d, frame, now):
    """The page of the last packet is translated: its payload may come."""
    return call(machine, 26, (d, frame, now))


@step
def drop_arrival(machine, d, now):
    """The last packet cannot be taken now; its payload is let pass."""
    return call(machine, 27, (d, now))


@step
def reject_arrival(machine, d, now):
    """The last packet may not go where it should."""
    return call(machine, 28, (d, now))


@step
def can_go_on_at_port(machine, n, p):
    """Whether what process ``p`` of node ``n`` waits for at its port can begin."""
    return call(machine, 29, (n, p)) & 1 == 1


@step
def begin_at_port(machine, n, p, now):
    """Have the CPU of ``n`` do what process ``p`` asks of its port."""
    return call(machine, 30, (n, p, now))


@step
def end_at_port(machine, n, p, now):
    """Effect of what the CPU of ``n`` has done for process ``p`` at its port."""
    return call(machine, 31, (n, p, now))


@step
def send_again(machine, n, d):
    """Send the next packet of the window to ``d`` once more."""
    return call(machine, 32, (n, d))


@step
def send_bare_acknowledgement(machine, n, d):
    """Acknowledge what has come from ``d`` with a packet of its own."""
    return call(machine, 33, (n, d))


@step
def mind_deadlines(machine, n, now):
    """What is due at ``n`` by now: acknowledgements to send, packets to send again."""
    return call(machine, 34, (n, now))


@step
def report_sent(machine, n, p, slot, status):
    """Tell the process of port ``p`` how its descriptor in ``slot`` ended."""
    return call(machine, 35, (n, p, slot, status))


@step
def report_received(machine, n, p, operation, name, node, length, buffers, offset):
    """Tell the process of port ``p`` of what has come; the report's place."""
    return call(machine, 36, (n, p, operation, name, node, length, buffers, offset))


@step
def end_miss(machine, n, now):
    """The processor of ``n`` has waited: effect of the miss's present stage."""
    return call(machine, 37, (n, now))


@step
def go_on_with_thread(machine, n, now):
    """Effect of the kernel thread's timer at ``n``."""
    return call(machine, 38, (n, now))


@step
def serve(machine, n, now):
    """Effect of SERVE, whose time the processor of ``n`` has spent."""
    return call(machine, 39, (n, now))


@step
def enter_page(machine, n, p, page, frame):
    """The page that port ``p`` sends from is translated; it is held until the next one."""
    return call(machine, 40, (n, p, page, frame))


@step
def end_request(machine, n, p, status):
    """The descriptor under way at port ``p`` goes no further; with ``DONE`` a packet tells."""
    return call(machine, 41, (n, p, status))


@step
def next_packet(machine, n, p):
    """Make the next packet of the descriptor under way at port ``p``; its page is translated."""
    return call(machine, 42, (n, p))


@step
def raise_event(machine, n, who, space, page, receive, ahead, when):
    """Append a miss to the queue at ``when``, unless it is there; ``who`` waits if it is a port."""
    return call(machine, 43, (n, who, space, page, receive, ahead, when))


@step
def thread_is_done(machine, n, now):
    """Let the thread go on at ``now``; whether its queue's head is to be filled."""
    return call(machine, 44, (n, now)) & 1 == 1


@step
def next_event(machine, n, now):
    """The event at the head of the queue is served; the thread turns to the next, or sleeps."""
    return call(machine, 45, (n, now))


@step
def ask_page(machine, n, space, page, receive):
    """Frame of ``page`` if the NIC has its translation, else ``MISSED`` or ``NOT_THERE``."""
    return call(machine, 46, (n, space, page, receive))


@step
def translated_frame(machine, n, space, page, receive):
    """Frame of ``page`` if it is translated and fit for use, else ``MISSED``; nothing is noted."""
    return call(machine, 47, (n, space, page, receive))


@step
def needed_for(machine, n, space, page, receive):
    """What the kernel must do before the NIC may have ``page``, as ``memory.paging`` names it."""
    return call(machine, 48, (n, space, page, receive))


@step
def serve_page(machine, n, space, page):
    """Do what the scheme does about a miss; negative if it cannot (``translation.codes``)."""
    return call(machine, 49, (n, space, page))


@step
def mend_page(machine, n, space, page, receive):
    """Whether ``page`` is of a line on the NIC that was filled before the page was mapped."""
    return call(machine, 50, (n, space, page, receive)) & 1 == 1


@step
def carry_out(machine, n, receive):
    """Do to the memory what the scheme has decided; how many pages were unpinned."""
    return call(machine, 51, (n, receive))


@step
def provide_for(machine, n, space, page, receive):
    """Bring ``page``, which the kernel thread has waited for."""
    return call(machine, 52, (n, space, page, receive))


@step
def has_handle(machine, n, kind, number, again):
    """Whether the NIC of ``n`` has handle ``number``; ``again``: 1 if it was asked for before."""
    return call(machine, 53, (n, kind, number, again)) & 1 == 1


@step
def fill_handle(machine, n, kind, number):
    """The kernel thread copies the host's record to the NIC; one that is not valid is so too."""
    return call(machine, 54, (n, kind, number))


@step
def forget_handle(machine, n, kind, number):
    """The host's record changes: the NIC keeps no copy of the old one."""
    return call(machine, 55, (n, kind, number))


@step
def scan_pins(machine, n, now):
    """Unpin what is pinned beyond the high water, if a scan is due; see to the next one."""
    return call(machine, 56, (n, now))


@step
def go_on_with_script(machine, p, now):
    """What the scripted process ``p`` does next, now that its operation has ended."""
    return call(machine, 57, (p, now))


@step
def pin_key(machine, n, key, receive):
    """Pin the page of ``key``; whether it could be had, else the garbage page stands in for it."""
    return call(machine, 58, (n, key, receive)) & 1 == 1


@step
def could_admit_piece(machine, n, p, first, pages):
    """Whether the library could have these pages pinned now, or will never be able to."""
    return call(machine, 59, (n, p, first, pages)) & 1 == 1


@step
def unpin_pages(machine, n, p, address, length):
    """Have the library unpin what is pinned there and not in use; the time of the one call."""
    return call(machine, 60, (n, p, address, length))


@step
def begin_fetch(machine, n, now):
    """Read entries of the host's table, as soon as the bus is free; the processor waits."""
    return call(machine, 61, (n, now))


@step
def defer_buffer(machine, n, p):
    """The page of the buffer at the head of the free queue has to be brought first."""
    return call(machine, 62, (n, p))


@step
def settle_buffer(machine, n, p, page, frame):
    """The page of a buffer that was deferred is there, or cannot be had (``UNUSABLE``)."""
    return call(machine, 63, (n, p, page, frame))


@step
def close_port(machine, n, p):
    """Whether nothing uses port ``p`` any more, which is to close; if so it has closed."""
    return call(machine, 64, (n, p)) & 1 == 1


@step
def skip_unready(machine, n, p):
    """Give back unfilled the buffers whose turn has come while their pages are out."""
    return call(machine, 65, (n, p))


@step
def give_way(machine, n, space, page):
    """Whether a buffer that waits for a message was in the way of ``page``, which is to be used."""
    return call(machine, 66, (n, space, page)) & 1 == 1


@step
def serve_in_trap(machine, n, now):
    """Effect of what the CPU has done in a trap."""
    return call(machine, 67, (n, now))


@step
def begin_handler(machine, n, now):
    """A packet is in the kernel's memory: interrupt, unless the handler runs."""
    return call(machine, 68, (n, now))


@step
def end_handler(machine, n, now):
    """Effect of the handler's work on one packet, if that has ended; it goes on to the next."""
    return call(machine, 69, (n, now))


@step
def take_from_kernel(machine, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""
    return call(machine, 70, (d, slot))


@step
def turn_away_arrival(machine, d, now):
    """Transfers leave no entry for the last packet's page: it comes again, but not for ever."""
    return call(machine, 71, (d, now))
