"""Replaying the three UTLBs: the user library admits a request, then the NIC looks up its pages."""

from __future__ import annotations

from nicscope.drivers.replay.state import request_of
from nicscope.drivers.translation.book import note_outcome
from nicscope.drivers.translation.codes import MISS
from nicscope.drivers.translation.user_library import admit
from nicscope.drivers.translation.utlb import (
    ask_utlb,
    ask_utlb_shared,
    serve_utlb,
    serve_utlb_shared,
)
from nicscope.jit import kernel
from nicscope.nic.cache import exchange


@kernel
def replay_utlb(nic, host, book, requests):
    """Replay ``requests`` through the user library and the shared cache, keyed by page."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        if not admit(nic, host, book, requests.numbers, request):
            continue
        process, receive = request.process, request.receive
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            page = request.first + place
            if ask_utlb(nic, book, process, page, key, receive) == MISS:
                serve_utlb(nic, host, book, process, page, key)


@kernel
def replay_utlb_plain(nic, host, book, requests):
    """``replay_utlb`` for searched sets without pin limit or prefetch, and faster."""
    at = 0
    last_set = nic.config[0].sets - 1
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        admit(nic, host, book, requests.numbers, request)
        base = request.process * book.orders[0].offset_step + request.first
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            missed = exchange(nic, (base + place) & last_set, key + 1, key, book.counts)
            note_outcome(book, key, request.receive, missed)
            book.counts[0].entries_fetched += missed


@kernel
def replay_utlb_shared(nic, host, book, requests):
    """Replay ``requests`` with the cache keyed by table index instead of page (UTLB 3.2)."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        if not admit(nic, host, book, requests.numbers, request):
            continue
        process, receive = request.process, request.receive
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            if ask_utlb_shared(nic, host, book, process, key, receive) == MISS:
                serve_utlb_shared(nic, host, book, process, key)


@kernel
def replay_utlb_process(nic, host, book, requests):
    """Replay ``requests`` through tables that hold every pinned page on the NIC (UTLB 3.1)."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        admit(nic, host, book, requests.numbers, request)
