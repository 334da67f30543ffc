"""Replaying U-Net/MM."""

from __future__ import annotations

from nicscope.drivers.replay.state import request_of
from nicscope.drivers.translation.codes import MISS
from nicscope.drivers.translation.unet_mm import ask_unet_mm, serve_unet_mm
from nicscope.jit import kernel


@kernel
def replay_unet_mm(nic, host, book, requests):
    """Replay ``requests``, each page on its own."""
    at = 0
    for row in range(requests.first.size):
        request = request_of(requests, row, at)
        at += request.pages
        process, receive = request.process, request.receive
        for place in range(request.pages):
            key = requests.numbers[request.at + place]
            page = request.first + place
            if ask_unet_mm(nic, book, page, key, receive) == MISS:
                serve_unet_mm(nic, host, book, process, page, key)
