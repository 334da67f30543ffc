"""The firmware and the kernel of nodes with ports, called from a distance.

What is declared here is called like any step; each is compiled by itself, from the module that has
a function of its name: ``linked.FUNCTIONS``.
"""

from __future__ import annotations

from nicscope.kernel.distant import Declarations

PORTS = Declarations()


@PORTS.question
def could_admit_pieces(machine, n, p, slot):
    """Whether the library could have the pages of the descriptor pinned now."""


@PORTS.function
def admit(machine, n, p, slot):
    """Have the pages of the descriptor pinned and kept; what that takes, in ps."""


@PORTS.function
def admit_piece(machine, n, space, first, pages):
    """Have ``pages`` pages from ``first`` pinned; the time of it, in ps."""


@PORTS.function
def keep_pages(machine, n, space, first, pages, keep):
    """Have the library keep pages pinned for a request (``keep`` 1), or not any more (0)."""


@PORTS.function
def leave_request(machine, n, p, slot):
    """The request has ended: its pages may be unpinned."""


@PORTS.function
def take_buffer(machine, n, p, now):
    """Translate the next buffer of the free queue of port ``p``."""


@PORTS.function
def keep_buffer(machine, n, p, frame):
    """The buffer at the head of the free queue is translated: messages may have it."""


@PORTS.function
def put_ready(machine, n, p, address, frame, key):
    """A translated buffer of port ``p`` waits for a message."""


@PORTS.function
def return_buffer(machine, n, p, status):
    """Give the buffer at the head of the free queue back to its process, unfilled."""


@PORTS.function
def give_up_message(machine, n, tag):
    """The message that arrives by ``tag`` will not be whole: its buffers wait for another."""


@PORTS.function
def go_back(machine, n, slot):
    """The piece in ``slot`` will come again: its message is as it was before that was placed."""


@PORTS.question
def is_sound(machine, d, slot):
    """Whether the payload of the packet in ``slot`` has the checksum that it was sent with."""


@PORTS.function
def check_transfer(machine, n):
    """Count the PCI transfer of ``n`` if the translation that it uses no longer holds."""


@PORTS.function
def choose_source(machine, n):
    """What SERVE would be begun for at ``n`` now, or ``NO_SOURCE``."""


@PORTS.function
def serve_duration(machine, n, source):
    """How long SERVE takes for ``source``, misses aside."""


@PORTS.function
def place_duration(machine, n):
    """How long it takes to find where a payload goes: a lookup, but not of a buffer at hand."""


@PORTS.function
def finish_duration(machine, n):
    """How long it takes to hand a message to its process, at the end of its last packet."""


@PORTS.function
def complete_arrival(machine, d, slot, now):
    """Effect of COMPLETE on the packet in ``slot`` of what has arrived at node ``d``."""


@PORTS.function
def hold(machine, n, key):
    """Count one more user of the page of ``key``."""


@PORTS.function
def release(machine, n, key):
    """One user of the page of ``key`` less; ports that wait for such an end look again."""


@PORTS.function
def steal_cpu(machine, n, duration, now):
    """Take ``duration`` ps from the CPU of ``n``: now if it idles, else from what it does."""


@PORTS.function
def leave_packet(machine, n, place, now):
    """The last byte of the packet at ``place`` of the send ring of ``n`` has left."""


@PORTS.function
def begin_miss(machine, n, who, space, page, receive, ahead, now):
    """Have the miss of ``page`` served; the processor waits, or ``who`` does."""


@PORTS.function
def meet_packet(machine, d, sender, place, now):
    """The header of a packet from ``sender``, at ``place`` of its ring, is in: judge it."""


@PORTS.question
def is_cut_off(machine, s, d, now):
    """Whether a node or a link between ``s`` and ``d`` is dead."""


@PORTS.question
def place_arrival(machine, d, now):
    """Find where the payload of the last packet goes; whether the processor waits for it."""


@PORTS.function
def settle_arrival(machine, d, frame, now):
    """The page of the last packet is translated: its payload may come."""


@PORTS.function
def drop_arrival(machine, d, now):
    """The last packet cannot be taken now; its payload is let pass."""


@PORTS.function
def reject_arrival(machine, d, now):
    """The last packet may not go where it should."""


@PORTS.question
def can_go_on_at_port(machine, n, p):
    """Whether what process ``p`` of node ``n`` waits for at its port can begin."""


@PORTS.function
def begin_at_port(machine, n, p, now):
    """Have the CPU of ``n`` do what process ``p`` asks of its port."""


@PORTS.function
def end_at_port(machine, n, p, now):
    """Effect of what the CPU of ``n`` has done for process ``p`` at its port."""


@PORTS.function
def send_again(machine, n, d):
    """Send the next packet of the window to ``d`` once more."""


@PORTS.function
def send_bare_acknowledgement(machine, n, d):
    """Acknowledge what has come from ``d`` with a packet of its own."""


@PORTS.function
def mind_deadlines(machine, n, now):
    """What is due at ``n`` by now: acknowledgements to send, packets to send again."""


@PORTS.function
def report_sent(machine, n, p, slot, status):
    """Tell the process of port ``p`` how its descriptor in ``slot`` ended."""


@PORTS.function
def report_received(machine, n, p, operation, name, node, length, buffers, offset):
    """Tell the process of port ``p`` of what has come; the report's place."""


@PORTS.function
def end_miss(machine, n, now):
    """The processor of ``n`` has waited: effect of the miss's present stage."""


@PORTS.function
def go_on_with_thread(machine, n, now):
    """Effect of the kernel thread's timer at ``n``."""


@PORTS.function
def serve(machine, n, now):
    """Effect of SERVE, whose time the processor of ``n`` has spent."""


@PORTS.function
def enter_page(machine, n, p, page, frame):
    """The page that port ``p`` sends from is translated; it is held until the next one."""


@PORTS.function
def end_request(machine, n, p, status):
    """The descriptor under way at port ``p`` goes no further; with ``DONE`` a packet tells."""


@PORTS.function
def next_packet(machine, n, p):
    """Make the next packet of the descriptor under way at port ``p``; its page is translated."""


@PORTS.function
def raise_event(machine, n, who, space, page, receive, ahead, when):
    """Append a miss to the queue at ``when``, unless it is there; ``who`` waits if it is a port."""


@PORTS.question
def thread_is_done(machine, n, now):
    """Let the thread go on at ``now``; whether its queue's head is to be filled."""


@PORTS.function
def next_event(machine, n, now):
    """The event at the head of the queue is served; the thread turns to the next, or sleeps."""


@PORTS.function
def ask_page(machine, n, space, page, receive):
    """Frame of ``page`` if the NIC has its translation, else ``MISSED`` or ``NOT_THERE``."""


@PORTS.function
def translated_frame(machine, n, space, page, receive):
    """Frame of ``page`` if it is translated and fit for use, else ``MISSED``; nothing is noted."""


@PORTS.function
def needed_for(machine, n, space, page, receive):
    """What the kernel must do before the NIC may have ``page``, as ``memory.paging`` names it."""


@PORTS.function
def serve_page(machine, n, space, page):
    """Do what the scheme does about a miss; negative if it cannot (``translation.codes``)."""


@PORTS.question
def mend_page(machine, n, space, page, receive):
    """Whether ``page`` is of a line on the NIC that was filled before the page was mapped."""


@PORTS.function
def carry_out(machine, n, receive):
    """Do to the memory what the scheme has decided; how many pages were unpinned."""


@PORTS.function
def provide_for(machine, n, space, page, receive):
    """Bring ``page``, which the kernel thread has waited for."""


@PORTS.question
def has_handle(machine, n, kind, number, again):
    """Whether the NIC of ``n`` has handle ``number``; ``again``: 1 if it was asked for before."""


@PORTS.function
def fill_handle(machine, n, kind, number):
    """The kernel thread copies the host's record to the NIC; one that is not valid is so too."""


@PORTS.function
def forget_handle(machine, n, kind, number):
    """The host's record changes: the NIC keeps no copy of the old one."""


@PORTS.function
def scan_pins(machine, n, now):
    """Unpin what is pinned beyond the high water, if a scan is due; see to the next one."""


@PORTS.function
def go_on_with_script(machine, p, now):
    """What the scripted process ``p`` does next, now that its operation has ended."""


@PORTS.question
def pin_key(machine, n, key, receive):
    """Pin the page of ``key``; whether it could be had, else the garbage page stands in for it."""


@PORTS.question
def could_admit_piece(machine, n, p, first, pages):
    """Whether the library could have these pages pinned now, or will never be able to."""


@PORTS.function
def unpin_pages(machine, n, p, address, length):
    """Have the library unpin what is pinned there and not in use; the time of the one call."""


@PORTS.function
def begin_fetch(machine, n, now):
    """Read entries of the host's table, as soon as the bus is free; the processor waits."""


@PORTS.function
def defer_buffer(machine, n, p):
    """The page of the buffer at the head of the free queue has to be brought first."""


@PORTS.function
def settle_buffer(machine, n, p, page, frame):
    """The page of a buffer that was deferred is there, or cannot be had (``UNUSABLE``)."""


@PORTS.question
def close_port(machine, n, p):
    """Whether nothing uses port ``p`` any more, which is to close; if so it has closed."""


@PORTS.function
def skip_unready(machine, n, p):
    """Give back unfilled the buffers whose turn has come while their pages are out."""


@PORTS.question
def give_way(machine, n, space, page):
    """Whether a buffer that waits for a message was in the way of ``page``, which is to be used."""


@PORTS.function
def serve_in_trap(machine, n, now):
    """Effect of what the CPU has done in a trap."""


@PORTS.function
def begin_handler(machine, n, now):
    """A packet is in the kernel's memory: interrupt, unless the handler runs."""


@PORTS.function
def end_handler(machine, n, now):
    """Effect of the handler's work on one packet, if that has ended; it goes on to the next."""


@PORTS.function
def take_from_kernel(machine, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""


@PORTS.function
def turn_away_arrival(machine, d, now):
    """Transfers leave no entry for the last packet's page: it comes again, but not for ever."""
