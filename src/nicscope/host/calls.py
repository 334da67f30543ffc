"""What the host's half does, called from a distance; ``nic.ports.calls`` is the firmware's."""

from __future__ import annotations

from nicscope.kernel.distant import Declarations
from nicscope.nic.ports.calls import FIRMWARE

HOST = Declarations(behind=FIRMWARE)


@HOST.question
def could_admit_pieces(machine, n, p, slot):
    """Whether the library could have the pages of the descriptor pinned now."""


@HOST.function
def admit(machine, n, p, slot):
    """Pin and keep the pages of the descriptor; the time of it, in ps."""


@HOST.function
def admit_piece(machine, n, space, first, pages):
    """Have ``pages`` pages from ``first`` pinned; the time of it, in ps."""


@HOST.function
def serve_page(machine, n, space, page):
    """Do what the scheme does about a miss; negative if it cannot (``translation.codes``)."""


@HOST.question
def repin_page(machine, n, space, page, receive):
    """Whether ``page`` is of a line on the NIC that was filled before the page was mapped."""


@HOST.function
def apply_pin_actions(machine, n, receive):
    """Apply the scheme's pin actions to the memory; how many pages were unpinned."""


@HOST.function
def fault_in_page(machine, n, space, page, receive):
    """Fault in ``page``, which the kernel thread has waited for."""


@HOST.question
def pin_key(machine, n, key, receive):
    """Pin the page of ``key``; whether it could be had, else the garbage page stands in for it."""


@HOST.question
def could_admit_piece(machine, n, p, first, pages):
    """Whether the library could have these pages pinned now, or will never be able to."""


@HOST.function
def unpin_pages(machine, n, p, address, length):
    """Have the library unpin what is pinned there and not in use; the time of the one call."""


@HOST.function
def deregister_pages(machine, n, p, address, length):
    """Unpin what is registered there in a table, unless something needs it."""


@HOST.function
def drop_page(machine, n, space, page):
    """Have no NIC know a page of ``space`` any more: 1, or 0 while something needs it."""


@HOST.question
def close_port(machine, n, p):
    """Whether nothing uses port ``p`` any more, which is to close; if so it has closed."""


# What a driver supplies: of the way into the NIC, when pages are pinned and requests end.


@HOST.function
def register_frame(machine, n, frame):
    """The NIC of ``n`` keeps a copy of ``frame``, which is pinned, if it has room for it."""


@HOST.function
def deregister_frame(machine, n, frame):
    """The NIC of ``n`` keeps no copy of ``frame`` any more; nothing is pinned there."""


@HOST.function
def free_descriptor_buffer(machine, n, p, slot):
    """Free the NIC buffer of the descriptor in ``slot`` of port ``p``, which has ended."""


@HOST.function
def free_receive_buffers(machine, n, p, number):
    """Free the NIC buffers of receive ``number`` of port ``p``."""


@HOST.function
def free_port_buffers(machine, n, p):
    """Free the NIC buffers of port ``p``, which has closed."""
