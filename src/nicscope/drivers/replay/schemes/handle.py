"""Replaying miNI's dynamic handle lookup, line by line."""

from __future__ import annotations

from nicscope.drivers.replay.state import request_of
from nicscope.drivers.translation.codes import MISS
from nicscope.drivers.translation.handle import ask_handle, serve_handle
from nicscope.jit import kernel


@kernel
def replay_handle(nic, host, book, requests):
    """Replay ``requests``; numbers name lines, so one serves all pages of a request in a line."""
    at = 0
    line_bits = book.orders[0].line_bits
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        process, receive = request.process, request.receive
        first = request.first >> line_bits
        last = (request.first + request.pages - 1) >> line_bits
        for line in range(first, last + 1):
            key = requests.numbers[at]
            at += 1
            # The line's further pages in this request hit whatever its first one does, and
            # leave everything as it is.
            if ask_handle(nic, book, line, key, receive) == MISS:
                serve_handle(nic, host, book, process, line, key)
