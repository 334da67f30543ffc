"""Replaying the designs without a translation cache: a copied buffer area, static registration."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import request_of, timeless
from nicscope.kernel.decorators import kernel
from nicscope.memory.pinning import PINNED
from nicscope.nic.translate.static import begin_registering, copy_request, serve_static


@kernel
def replay_pinned(case, begin, end, _count):
    """Copy requests ``begin..end`` through their process's pinned area."""
    _, host, book = timeless(case)
    for row in range(begin, end):
        copy_request(host, book, case.stream.process[row], case.stream.length[row])


@kernel
def replay_static(case, begin, end, _count):
    """Register every page of requests ``begin..end`` at first use, while the table has room."""
    nic, host, book = timeless(case)
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        begin_registering(host, request.process)
        for place in range(request.pages):
            key = np.int64(case.number[request.at + place])
            if host.pinning.state[key] & PINNED == 0:
                serve_static(nic, host, book, request.process, request.first + place, key)
