"""The two designs without a translation cache: a copied buffer area, and static registration."""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.pinning import PINNED
from nicscope.nic.layout import FRAME_BITS
from nicscope.nic.translate.book import MISS, REJECTED, fill_frame, note_pins, pin_page

NO_PAGE = -1


@step
def copy_request(host, book, process, length):
    """Copy ``length`` bytes through the process's pinned area (U-Net; U-Net/MM 4).

    False if they do not fit in.
    """
    owner = host.pinning.processes[process]
    if owner.pinned == 0:
        owner.pinned = book.orders[0].area_pages
        book.counts[0].pin_calls += 1
        note_pins(book, book.orders[0].area_pages)
    if length > book.orders[0].area_bytes:
        book.counts[0].rejected += 1
        return False
    book.counts[0].bytes_copied += length
    return True


@step
def begin_registering(host, process):
    """A request of ``process`` begins: neighbours registered before it took a call of their own."""
    host.run_ends[process] = NO_PAGE


@step
def ask_static(nic, host, key):
    """Frame of a registered page, or ``MISS``."""
    if host.pinning.state[key] & PINNED == 0:
        return np.int64(MISS)
    return np.int64(nic.frames[host.table_entries[key]] & FRAME_BITS)


@step
def serve_static(nic, host, book, process, page, key):
    """Pin ``page``, for ever, and give it the table's next entry (VMMC, VIA).

    Neighbours that one request registers take one call.  ``REJECTED`` if the table is full.
    """
    registers = nic.registers[0]
    entry = registers.filled
    if entry == nic.config[0].entries:
        book.counts[0].rejected += 1
        return np.int64(REJECTED)
    registers.filled += 1
    _take_entry(nic, host, book, process, page, key, entry)
    return np.int64(key)


@step
def _take_entry(nic, host, book, process, page, key, entry):
    """Pin ``page``, for which ``entry`` stands from now on."""
    host.table_entries[key] = entry
    if host.run_ends[process] != page:
        book.counts[0].pin_calls += 1
    host.run_ends[process] = page + 1
    pin_page(host, book, process, key, 1)
    fill_frame(nic, host, entry, key)


@step
def serve_freed_entry(nic, host, book, process, page, key):
    """Pin ``page`` and give it the entry freed last; false if there is none."""
    registers = nic.registers[0]
    entry = registers.evicted - 1
    if entry < 0:
        return False
    registers.evicted = np.int64(nic.frames[entry])
    _take_entry(nic, host, book, process, page, key, entry)
    return True


@step
def free_entry(nic, host, key):
    """Free the entry of a page that has been deregistered."""
    entry = np.int64(host.table_entries[key])
    nic.frames[entry] = nic.registers[0].evicted
    nic.registers[0].evicted = entry + 1
