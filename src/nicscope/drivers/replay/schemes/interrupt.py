"""Replaying the interrupt-based baseline."""

from __future__ import annotations

from nicscope.drivers.replay.state import request_of
from nicscope.drivers.translation.codes import MISS
from nicscope.drivers.translation.interrupt import ask_interrupt, serve_interrupt
from nicscope.jit import kernel


@kernel
def replay_interrupt(nic, host, book, requests):
    """Replay ``requests``, each page on its own."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        process, receive = request.process, request.receive
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            page = request.first + place
            if ask_interrupt(nic, host, book, process, page, key, receive) == MISS:
                serve_interrupt(nic, host, book, process, page, key)
