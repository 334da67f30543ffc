"""Requests such as page-based shared virtual memory makes: sweeps, reuse, a few pages each.

Not a stand-in for a SPLASH-2 program: it only has to fill NIC caches and pin limits, so that
statements about any trace are put to a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.traces.schema import FIRST_RECEIVE, Op, Requests

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

PAGE = 4096  # bytes
FIRST_PAGE = 0x10_0000  # where the shared region starts, in pages
LONGEST = 4  # pages of a request
REUSED = 0.5  # share of requests that come back to a page used before


def shared_memory_traffic(
    rows: int = 16_000, nodes: int = 2, processes: int = 5, region_pages: int = 3000, seed: int = 1
) -> Requests:
    """``rows`` requests of ``processes`` per node, all over the same region of pages.

    Half of them sweep on from where the process last swept, the others go back to a place that
    a few earlier requests drew near: some pages are hot, most are used now and then.
    """
    random = np.random.default_rng(seed)
    node = random.integers(nodes, size=rows)
    pid = random.integers(processes, size=rows)
    count = random.integers(1, LONGEST + 1, size=rows)
    sweep = np.zeros(rows, dtype=np.int64)
    for space in range(nodes * processes):
        mine = np.flatnonzero(node * processes + pid == space)
        start = random.integers(region_pages)
        sweep[mine] = start + np.cumsum(count[mine]) - count[mine]
    hot = region_pages * random.beta(1, 8, size=rows)
    page = np.where(random.random(rows) < REUSED, hot.astype(np.int64), sweep) % region_pages
    return requests_at(nodes=node, pids=pid, pages=FIRST_PAGE + page, page_counts=count)


def requests_at(
    nodes: ArrayLike, pids: ArrayLike, pages: ArrayLike, page_counts: ArrayLike
) -> Requests:
    """Requests of whole 4 KB pages, alternately sent and fetched, without times."""
    address = np.asarray(pages, dtype=np.uint64) * np.uint64(PAGE)
    rows = address.size
    op = np.where(np.arange(rows) % 2 == 0, int(Op.SEND), int(Op.READ)).astype(np.uint8)
    return Requests(
        time_ns=np.zeros(rows, dtype=np.int64),
        node=np.asarray(nodes, dtype=np.int32),
        pid=np.asarray(pids, dtype=np.int32),
        receive=(op >= FIRST_RECEIVE).astype(np.uint8),
        op=op,
        address=address,
        length=np.asarray(page_counts, dtype=np.uint32) * np.uint32(PAGE),
    )
