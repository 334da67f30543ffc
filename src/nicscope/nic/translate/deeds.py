"""What was done to real pages and to the NIC's entries, written down for whoever must follow.

Steps name pages by dense numbers and put such a number where a frame belongs.  A driver with real
memory goes through ``host.deeds[:host.deed_count[0]]`` after each call, in order: it pins and
unpins the pages and overwrites each number filled in with the frame (``write_frame``).  A replay
has no deeds (None) and nothing is written down.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.memory.pinning import pin, unpin
from nicscope.nic.cache import hold
from nicscope.nic.layout import IN_USE
from nicscope.nic.translate.book import note_pins, note_unpin

# ``key`` is a page's number: its unit's number, and within a line the place of the page.
PIN = 1
UNPIN = 2
FILL = 3  # ``place`` is the index into ``nic.frames``
DROP = 4  # an entry left the NIC; of a line, ``key`` is the first page


@step
def note_deed(host, what, key, place):
    """Write down one deed, if deeds are written down at all."""
    _write_down(host.deeds, host.deed_count, what, key, place)


@step
def _write_down(deeds, count, what, key, place):
    if deeds is not None and deeds.size != 0:
        deed = deeds[count[0]]
        deed.what = what
        deed.key = key
        deed.place = place
        count[0] += 1


@step
def clear_deeds(host):
    """Every deed has been followed."""
    host.deed_count[0] = 0


@step
def has_room_for_deed(deeds, count):
    """Whether one more can be written down, or none need be."""
    if deeds is None:
        return True
    return deeds.size == 0 or count[0] < deeds.size


@step
def pin_page(host, book, process, page, uses):
    """Pin and count one page, used ``uses`` times so far."""
    pin(host.pinning, process, page, uses)
    note_pins(book, 1)
    note_deed(host, PIN, page, -1)


@step
def unpin_page(host, book, process, page):
    """Unpin and count one page."""
    unpin(host.pinning, process, page)
    note_unpin(book)
    note_deed(host, UNPIN, page, -1)


@step
def fill_frame(nic, host, place, page):
    """Let ``page`` stand for its frame at ``place``, until ``write_frame`` knows better."""
    _write_page(nic.frames, place, page)
    note_deed(host, FILL, page, place)


@step
def _write_page(frames, place, page):
    if frames is not None:
        frames[place] = page


@step
def protect_if_used(nic, in_use, entry, unit):
    """Protect a newly filled ``entry`` if a transfer uses the unit already."""
    if in_use is not None and in_use[unit] != 0:
        hold(nic, entry)


@step
def write_frame(nic, place, frame):
    """Follow a FILL: ``frame`` is the physical frame; whether the entry is in use stays."""
    if nic.uses.size > 0:
        nic.frames[place] = frame
    else:
        nic.frames[place] = (nic.frames[place] & IN_USE) | frame
