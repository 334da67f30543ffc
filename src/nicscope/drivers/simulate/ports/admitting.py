"""The user library's part of a post: it has the pages of a request pinned before the NIC asks."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports.calls import carry_out, mend_page
from nicscope.drivers.simulate.ports.translating import key_of
from nicscope.drivers.translation.asking import admit_request, could_admit, key_of_page
from nicscope.drivers.translation.book import note_request
from nicscope.drivers.translation.cluster import translation_of
from nicscope.drivers.translation.codes import ADMITTED, MISS, STATIC, UNKNOWN, UTLB
from nicscope.drivers.translation.holding import keep_page, leave_page
from nicscope.drivers.translation.static import ask_static, serve_static
from nicscope.jit import distant, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.ports import DONE, FETCH, INLINE, NO_RIGHTS, NO_ROOM, SEGMENTS


@step
def _is_plain(machine, n, p, slot):
    """Whether the descriptor's segments can be looked at: what cannot be is the NIC's to refuse."""
    ports = machine.ports
    request = ports.requests[n, p, slot]
    if request.options & INLINE or request.segments < 1 or request.segments > SEGMENTS:
        return False
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
    return segment.address >> machine.ports.rules[0].page_bits


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
    _, host, book = translation_of(ports.translations, n)
    space = ports.table[n, p].space
    for i in range(ports.requests[n, p, slot].segments):
        segment = ports.segments[n, p, slot, i]
        pages = _pages(machine, segment)
        if not could_admit(scheme, host, book, space, _first(machine, segment), pages):
            return False
    return True


@distant
def admit(machine, n, p, slot):
    """Have the pages of the descriptor pinned and kept; what that takes, in ps."""
    ports = machine.ports
    pending = ports.pending[n, p, slot]
    pending.status = DONE
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
        note_request(book, pages, np.int64(request.operation == FETCH))
        spent += admit_piece(machine, n, space, first, pages)
        if ports.nodes[n].admitted != DONE:
            pending.status = ports.nodes[n].admitted
            break  # what is kept so far is left with the report
        _keep(machine, n, p, slot, first, pages)
    return spent


@distant
def admit_piece(machine, n, space, first, pages):
    """Have ``pages`` pages from ``first`` pinned; the time of it, in ps.

    ``SERVING.admitted`` says whether they are: ``DONE`` or a status.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    nic, host, book = translation_of(ports.translations, n)
    serving = ports.nodes[n]
    serving.admitted = DONE
    counts = book.counts[0]
    unpin_calls = counts.unpin_calls
    pin_calls = counts.pin_calls
    pins = counts.pins
    if scheme < UTLB and scheme != STATIC:
        return np.int64(0)
    found = admit_request(scheme, nic, host, book, space, first, pages)
    if found != ADMITTED:
        serving.admitted = NO_RIGHTS if found == UNKNOWN else NO_ROOM
        return ports.costs[n].check * pages
    if scheme == STATIC:
        return _register(machine, n, space, first, pages)
    spent = ports.costs[n].check * pages
    spent += (counts.unpin_calls - unpin_calls) * ports.user_unpin[n, 1]
    calls = counts.pin_calls - pin_calls
    if calls > 0:
        spent += calls * _call_time(machine, n, (counts.pins - pins) // calls)
    carry_out(machine, n, 0)
    _mend(machine, n, space, first, pages)
    return spent


@step
def _mend(machine, n, space, first, pages):
    """Pin what the scheme took for pinned and was not mapped then, or say that it cannot be."""
    ports = machine.ports
    for page in range(first, first + pages):
        key = key_of(machine, n, space, page)
        is_there = key >= 0 and ports.frames[n, key] != GARBAGE_FRAME
        if not is_there and not mend_page(machine, n, space, page, 0):
            ports.nodes[n].admitted = NO_RIGHTS


@step
def _register(machine, n, space, first, pages):
    """Registration at first use, for ever: static tables."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    serving = ports.nodes[n]
    spent = np.int64(0)
    run = np.int64(0)
    for page in range(first, first + pages):
        fresh = False
        key = key_of_page(host, book, space, page)
        if key < 0:
            serving.admitted = NO_RIGHTS
            continue
        if ask_static(nic, host, key) == MISS:
            found = serve_static(nic, host, book, space, page, key)
            fresh = found >= 0
            if not fresh:
                serving.admitted = NO_ROOM
                break
            carry_out(machine, n, 0)
        _mend(machine, n, space, page, 1)
        if fresh:
            run += 1
        elif run > 0:
            spent += _call_time(machine, n, run)
            run = np.int64(0)
    return spent + _call_time(machine, n, run)


@step
def _call_time(machine, n, pages):
    """Time of one system call that pins ``pages`` pages."""
    table = machine.ports.user_pin[n]
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
    keep_pages(machine, n, ports.table[n, p].space, first, pages, 1)


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
            leave_page(nic, host, book, space, page, key)


@distant
def leave_request(machine, n, p, slot):
    """The request has ended: its pages may be unpinned."""
    ports = machine.ports
    pending = ports.pending[n, p, slot]
    for i in range(pending.kept):
        kept = ports.kept[n, p, slot, i]
        keep_pages(machine, n, ports.table[n, p].space, kept.address, kept.length, 0)
    pending.kept = 0
    pending.busy = 0
