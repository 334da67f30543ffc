"""The user library's part of a post: it has the pages of a request pinned before the NIC asks."""

import numpy as np

from nicscope.host import calls
from nicscope.host.calls import apply_pin_actions, repin_page
from nicscope.host.pages import has_tables, is_mapped, lock_tables, unlock_tables
from nicscope.host.release import enter_table
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports import calls as supplied
from nicscope.nic.ports import layout
from nicscope.nic.ports.lookup import key_of, page_at
from nicscope.nic.translate.book import (
    ADMITTED,
    PIN,
    PINNED_AREA,
    RNIC,
    STATIC,
    UNKNOWN,
    UTLB,
    clear_pin_actions,
    note_request,
    unpin_page,
)
from nicscope.nic.translate.requests import (
    admit_request,
    could_admit,
    key_of_page,
    page_of_key,
)
from nicscope.nic.translate.state import keep_page, release_page, translation_of
from nicscope.nic.translate.static import copy_request, free_entry
from nicscope.nic.translate.utlb import forget


@step
def _is_plain(machine, n, p, slot):
    """Whether the descriptor's segments can be looked at: what cannot be is the NIC's to refuse."""
    ports = machine.ports
    request = ports.requests[n, p, slot]
    if request.options & layout.INLINE or not 1 <= request.segments <= ports.segments.shape[3]:
        return False
    if ports.rules[0].sparse == 1:
        return True
    for i in range(request.segments):
        segment = ports.segments[n, p, slot, i]
        if segment.length < 1 or segment.address < 0:
            return False
        room = ports.rules[0].space_bytes
        if segment.address >= room or segment.length > room - segment.address:
            return False
        if _pages(machine, segment) > ports.rules[0].longest:
            return False
    return True


@step
def _first(machine, segment):
    return page_at(machine, segment.address)


@step
def _pages(machine, segment):
    bits = machine.ports.rules[0].page_bits
    return ((segment.address + segment.length - 1) >> bits) - (segment.address >> bits) + 1


@distant
def could_admit_pieces(machine, n, p, slot):
    """Whether the library could have the pages of the descriptor pinned now."""
    ports = machine.ports
    scheme = ports.rules[0].scheme
    if scheme < UTLB or not _is_plain(machine, n, p, slot):
        return True
    for i in range(ports.requests[n, p, slot].segments):
        segment = ports.segments[n, p, slot, i]
        if not _could_admit(machine, n, p, _first(machine, segment), _pages(machine, segment)):
            return False
    return True


@distant
def could_admit_piece(machine, n, p, first, pages):
    """Whether the library could have these pages pinned now, or will never be able to."""
    return _could_admit(machine, n, p, first, pages)


@step
def _could_admit(machine, n, p, first, pages):
    """Refused for good, rather than put off, where nothing is under way whose end makes room."""
    ports = machine.ports
    port = ports.table[n, p]
    buffers = port.free_posted - port.free_taken + port.ready_in - port.ready_out + port.filling
    if port.posted + port.refused == port.reported and buffers == 0:
        return True
    _, host, book = translation_of(ports.translations, n)
    return could_admit(ports.rules[0].scheme, host, book, port.space, first, pages)


@distant
def admit(machine, n, p, slot):
    """Pin and keep the pages of the descriptor; the time of it, in ps."""
    ports = machine.ports
    pending = ports.pending[n, p, slot]
    pending.status = layout.DONE
    pending.kept = 0
    if not _is_plain(machine, n, p, slot):
        return np.int64(0)
    _, _, book = translation_of(ports.translations, n)
    request = ports.requests[n, p, slot]
    space = ports.table[n, p].space
    spent = np.int64(0)
    for i in range(request.segments):
        segment = ports.segments[n, p, slot, i]
        first = _first(machine, segment)
        pages = _pages(machine, segment)
        if ports.rules[0].by_request == 1:
            note_request(book, pages, np.int64(request.operation == layout.FETCH))
        else:
            book.counts[0].requests += 1
        if ports.rules[0].sparse == 1 and ports.rules[0].scheme == PINNED_AREA:
            spent += _copy(machine, n, space, segment.length)
        else:
            spent += calls.admit_piece(machine, n, space, first, pages)
        if ports.nodes[n].admitted != layout.DONE:
            pending.status = ports.nodes[n].admitted
            break  # what is kept so far is left with the report
        # Of a trace nothing but a user library keeps pages: so they were counted.
        if ports.rules[0].by_request == 0 or ports.rules[0].scheme >= UTLB:
            _keep(machine, n, p, slot, first, pages)
    return spent


@step
def _copy(machine, n, space, length):
    """Copy a request of a trace through the process's pinned area; the time of it, in ps."""
    ports = machine.ports
    _, host, book = translation_of(ports.translations, n)
    ports.nodes[n].admitted = layout.DONE
    if not copy_request(host, book, space, length):
        ports.nodes[n].admitted = layout.NO_ROOM
        return np.int64(0)
    return ports.costs[n].copy_start + ports.costs[n].copy_per_byte * length


@distant
def admit_piece(machine, n, space, first, pages):
    """Have ``pages`` pages from ``first`` pinned; the time of it, in ps.

    ``SERVING.admitted`` says whether they are: ``DONE`` or a status.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    nic, host, book = translation_of(ports.translations, n)
    serving = ports.nodes[n]
    serving.admitted = layout.DONE
    counts = book.counts[0]
    unpin_calls = counts.unpin_calls
    if scheme < UTLB and scheme not in (STATIC, RNIC):
        return np.int64(0)
    spent = ports.costs[n].check * pages
    serving.checks += pages if scheme >= UTLB else 0
    writes = has_tables(machine) and _misses(machine, n, space, first, pages)
    if writes:
        reading = lock_tables(machine, n, space, first, first + pages + book.orders[0].prepin - 2)
        if reading < 0:
            serving.admitted = layout.NO_ROOM
            return spent
        spent += reading
    found = admit_request(scheme, nic, host, book, space, first, pages)
    if found != ADMITTED:
        serving.admitted = layout.NO_RIGHTS if found == UNKNOWN else layout.NO_ROOM
        if writes:
            unlock_tables(machine, n, space)
        return spent
    if scheme in (STATIC, RNIC):
        return _register(machine, n, space, first, pages)
    spent += (counts.unpin_calls - unpin_calls) * ports.user_unpin[n, 1]
    spent += _calls_time(machine, n, first, pages)
    if apply_pin_actions(machine, n, 0) < 0:
        serving.admitted = _undo_pins(machine, n, space, first, pages)
    if writes:
        unlock_tables(machine, n, space)
    return spent


@step
def _misses(machine, n, space, first, pages):
    """Whether the driver is to be called: a page of the request is not pinned."""
    _, host, _ = translation_of(machine.ports.translations, n)
    for page in range(first, first + pages):
        key = key_of(machine, n, space, page)
        if key < 0 or host.pinning.state[key] & PINNED == 0:
            return True
    return False


@step
def _undo_pins(machine, n, space, first, pages):
    """Undo the pins of a request of which the driver could not pin every page.

    How it ended for those that were asked for; the rest were to be pinned ahead.
    """
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    status = np.int64(layout.DONE)
    for page in range(first, first + pages + book.orders[0].prepin):
        key = key_of(machine, n, space, page)
        if key < 0 or host.pinning.state[key] & PINNED == 0:
            continue
        if ports.frames[n, key] == GARBAGE_FRAME:
            forget(nic, host, book, space, key)
            _not_pinned(host, book, space, key)
            if page < first + pages:
                status = _combine_status(machine, n, space, page, status)
    return status


@step
def _combine_status(machine, n, space, page, status):
    """``status`` of a request of which ``page`` too could not be pinned."""
    if status == layout.NO_RIGHTS or not is_mapped(machine, n, space, page):
        return np.int64(layout.NO_RIGHTS)
    return np.int64(layout.NO_ROOM)  # the host has no frame for it


@step
def _not_pinned(host, book, space, key):
    """Forget a pin that failed: the page was not pinned, so it is not unpinned."""
    unpin_page(host, book, space, key)
    clear_pin_actions(host)
    book.counts[0].pins -= 1
    book.counts[0].unpins -= 1


@distant
def unpin_pages(machine, n, p, address, length):
    """Have the library unpin what is pinned there and not in use; the time of the one call.

    ``SERVING.admitted`` says how many pages that were.
    """
    ports = machine.ports
    serving = ports.nodes[n]
    serving.admitted = 0
    bits = ports.rules[0].page_bits
    last = (address + length - 1) >> bits
    space = ports.table[n, p].space
    if ports.rules[0].scheme < UTLB or length < 1:
        return ports.costs[n].system_call
    nic, host, book = translation_of(ports.translations, n)
    pages = np.int64(0)
    spent = np.int64(0)
    for page in range(address >> bits, last + 1):
        key = key_of(machine, n, space, page)
        if key < 0 or host.pinning.state[key] & PINNED == 0 or host.pinning.held[key] != 0:
            continue
        reading = lock_tables(machine, n, space, page, page)
        if reading < 0:
            break  # no frame for the table: what it names stays pinned
        spent += reading
        forget(nic, host, book, space, key)
        unpin_page(host, book, space, key)
        apply_pin_actions(machine, n, 0)
        unlock_tables(machine, n, space)
        pages += 1
    serving.admitted = pages
    if pages == 0:
        return ports.costs[n].system_call
    book.counts[0].unpin_calls += 1
    return spent + _time_of(ports.user_unpin[n], pages)


@step
def _register(machine, n, space, first, pages):
    """Registration at first use, until it is taken back: static tables, and those of RDMA NICs."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    serving = ports.nodes[n]
    spent = np.int64(0)
    run = np.int64(0)
    for page in range(first, first + pages):
        fresh = False
        key = key_of_page(host, book, space, page)
        if key < 0:
            serving.admitted = layout.NO_RIGHTS
            continue
        if host.pinning.state[key] & PINNED == 0:
            fresh = enter_table(machine, n, space, page, key)
            if not fresh:
                serving.admitted = layout.NO_ROOM
                if ports.rules[0].sparse == 0:
                    break  # a replay counts every page that it rejects
            elif apply_pin_actions(machine, n, 0) < 0:
                serving.admitted = _combine_status(machine, n, space, page, serving.admitted)
                fresh = False
                _not_pinned(host, book, space, key)
                if ports.rules[0].scheme == STATIC:
                    free_entry(nic, host, key)
        else:
            repin_page(machine, n, space, page, 1)  # if it was pinned only to be read
        if fresh:
            run += 1
        elif run > 0:
            spent += _call_time(machine, n, run)
            run = np.int64(0)
    return spent + _call_time(machine, n, run)


@step
def _calls_time(machine, n, first, pages):
    """Time of the calls whose pins are written down: one for each run of the pages asked for.

    What a call pins ahead of its use follows its run, and lies outside what was asked for.
    """
    _, host, book = translation_of(machine.ports.translations, n)
    spent = np.int64(0)
    run = np.int64(0)
    before = np.int64(-1)
    for i in range(host.pin_action_count[0]):
        if host.pin_actions[i].what != PIN:
            continue
        _, page = page_of_key(host, book, host.pin_actions[i].key)
        begins = first <= page < first + pages and (page == first or page != before + 1)
        if begins and run > 0:
            spent += _call_time(machine, n, run)
            run = np.int64(0)
        run += 1
        before = np.int64(page)
    return spent + _call_time(machine, n, run)


@step
def _call_time(machine, n, pages):
    """Time of one system call that pins ``pages`` pages."""
    return _time_of(machine.ports.user_pin[n], pages)


@step
def _time_of(table, pages):
    last = table.size - 1
    if pages <= last:
        return table[pages]
    return table[last] + (pages - last) * (table[last] - table[last - 1])


@step
def _keep(machine, n, p, slot, first, pages):
    """The pages are the request's until it has ended (UTLB 3.1)."""
    ports = machine.ports
    pending = ports.pending[n, p, slot]
    kept = ports.kept[n, p, slot, pending.kept]
    pending.kept += 1
    kept.address = first
    kept.length = pages
    supplied.keep_pages(machine, n, ports.table[n, p].space, first, pages, 1)
    if ports.rules[0].by_request == 0:
        for page in range(first, first + pages):
            key = key_of(machine, n, ports.table[n, p].space, page)
            if key >= 0:
                ports.owners[n, key] = p


@distant
def keep_pages(machine, n, space, first, pages, keep):
    """Have the library keep pages pinned for a request (``keep`` 1), or not any more (0)."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    for page in range(first, first + pages):
        key = key_of(machine, n, space, page)
        if key < 0:
            continue
        if keep == 1:
            keep_page(host, book, key)
        else:
            release_page(nic, host, book, space, page, key)


@distant
def release_request_pages(machine, n, p, slot):
    """Release the pages of a request that has ended: they may be unpinned."""
    ports = machine.ports
    pending = ports.pending[n, p, slot]
    for i in range(pending.kept):
        kept = ports.kept[n, p, slot, i]
        supplied.keep_pages(machine, n, ports.table[n, p].space, kept.address, kept.length, 0)
    pending.kept = 0
    pending.busy = 0
    if ports.rules[0].rooms == 1:
        calls.free_descriptor_buffer(machine, n, p, slot)
