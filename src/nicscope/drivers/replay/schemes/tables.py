"""Replaying the designs without a translation cache: a copied buffer area, static registration."""

from __future__ import annotations

from nicscope.drivers.replay.state import request_of
from nicscope.drivers.translation.codes import MISS
from nicscope.drivers.translation.static import (
    ask_static,
    begin_registering,
    copy_request,
    serve_static,
)
from nicscope.jit import kernel


@kernel
def replay_pinned(host, book, requests):
    """Copy every request through its process's pinned area."""
    for row in range(requests.first.size):
        copy_request(host, book, requests.process[row], requests.length[row])


@kernel
def replay_static(nic, host, book, requests):
    """Register every page at first use, while the NIC's table has room."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        process = request.process
        begin_registering(host, process)
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            page = request.first + place
            if ask_static(nic, host, key) == MISS:
                serve_static(nic, host, book, process, page, key)
