"""Hierarchical-UTLB with the shared NIC cache, and UTLB with per-process tables.

The NIC looks up each page in its cache and on a miss reads entries of the process's table in
host memory by DMA, without an interrupt (UTLB 3.1-3.3).
"""

from __future__ import annotations

from nicscope.drivers.replay.book import note_eviction, note_hit, note_miss, note_outcome
from nicscope.drivers.replay.schemes.user_library import admit
from nicscope.drivers.replay.state import request_of, set_of
from nicscope.jit import kernel, step
from nicscope.memory.numbering import NONE, find, unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import MISS, exchange, fill, lookup
from nicscope.nic.cache import find as find_entry
from nicscope.nic.layout import EMPTY

SECOND_LEVEL = 1024  # entries of a second-level table (UTLB 3.3)


@kernel
def replay_utlb(nic, host, book, requests):
    """Replay ``requests`` through the user library and the shared cache, keyed by page."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        if not admit(nic, host, book, requests, request):
            continue
        base = request.process * book.orders[0].offset_step + request.first
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            row_of_key = (base + place) & (nic.config[0].sets - 1)
            if lookup(nic, row_of_key, key + 1) != MISS:
                note_hit(book, key)
            else:
                note_miss(book, key, request.receive)
                install(nic, book, row_of_key, key, key)
                book.counts[0].entries_fetched += 1
                if book.orders[0].prefetch > 1:
                    prefetch_pages(nic, host, book, request.process, request.first + place)


@kernel
def replay_utlb_plain(nic, host, book, requests):
    """``replay_utlb`` for searched sets without pin limit or prefetch, and faster."""
    at = 0
    last_set = nic.config[0].sets - 1
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        admit(nic, host, book, requests, request)
        base = request.process * book.orders[0].offset_step + request.first
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            missed = exchange(nic, (base + place) & last_set, key + 1, key)
            note_outcome(book, key, request.receive, missed)
            book.counts[0].entries_fetched += missed


@step
def prefetch_pages(nic, host, book, process, page):
    """Bring the table's entries after ``page`` to the NIC too, to the end of its table at most."""
    last = min(page + book.orders[0].prefetch - 1, page | (SECOND_LEVEL - 1))
    book.counts[0].entries_fetched += last - page
    for unit in range(page + 1, last + 1):
        key = find(host.numbering, process, unit)
        if key != NONE and host.pinning.state[key] & PINNED:
            bring_in(nic, book, set_of(nic, book, process, unit), key, key)


@step
def bring_in(nic, book, row, key, frame):
    """Insert the entry of ``key`` in set ``row`` unless it is there."""
    if find_entry(nic, row, key + 1) == MISS:
        install(nic, book, row, key, frame)


@step
def install(nic, book, row, key, frame):
    """Fill in the entry of ``key``, which is not there."""
    nic.frames[fill(nic, row, key + 1)] = frame
    if nic.registers[0].evicted != EMPTY:
        note_eviction(book, nic.registers[0].evicted - 1)


@kernel
def replay_utlb_shared(nic, host, book, requests):
    """Replay ``requests`` with the cache keyed by table index instead of page (UTLB 3.2)."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        if not admit(nic, host, book, requests, request):
            continue
        for place in range(request.at, at):
            key = host.indices.key_of[requests.numbers[place]]
            index = unit_of(host.indices.keys, key)
            row_of_key = set_of(nic, book, request.process, index)
            if lookup(nic, row_of_key, key + 1) != MISS:
                note_hit(book, key)
            else:
                note_miss(book, key, request.receive)
                install(nic, book, row_of_key, key, requests.numbers[place])
                book.counts[0].entries_fetched += 1
                if book.orders[0].prefetch > 1:
                    prefetch_indices(nic, host, book, request.process, index)


@step
def prefetch_indices(nic, host, book, process, index):
    """Bring the table's entries after ``index`` to the NIC too."""
    last = min(index + book.orders[0].prefetch - 1, index | (SECOND_LEVEL - 1))
    book.counts[0].entries_fetched += last - index
    for unit in range(index + 1, last + 1):
        key = find(host.indices.keys, process, unit)
        if key != NONE and host.indices.page_of[key] != 0:
            frame = host.indices.page_of[key] - 1
            bring_in(nic, book, set_of(nic, book, process, unit), key, frame)


@kernel
def replay_utlb_process(nic, host, book, requests):
    """Replay ``requests`` through tables that hold every pinned page on the NIC (UTLB 3.1)."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        admit(nic, host, book, requests, request)
