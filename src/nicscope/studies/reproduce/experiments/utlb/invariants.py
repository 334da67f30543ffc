"""What Tables 4 and 5 imply for any trace (UT-93), put to the test on one made for it.

Requests such as page-based shared virtual memory makes: sweeps, reuse, a few pages each.

Not a stand-in for a SPLASH-2 program: it only has to fill NIC caches and pin limits, so that
statements about any trace are put to a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.config.design import load_design, with_settings
from nicscope.traces.schema import FIRST_RECEIVE, Op, Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from nicscope.studies.reproduce.verdict import Item, Outcome

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


CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)
PIN_LIMIT = 256  # pages per process: few enough that the trace has to unpin
LIMITS = ("none", str(PIN_LIMIT))


def invariants(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the statements need no printed number
    """What Tables 4 and 5 imply for any trace (UT-93), put to the test on one made for it.

    Replay both schemes at the five sizes, without and with a pin limit.
    """
    from nicscope.drivers.replay import replay

    check(outcome, shared_memory_traffic(), CACHE_ENTRIES, replay)


def check(
    outcome: Outcome, requests: Requests, sizes: Sequence[int], replay: Callable[..., Any]
) -> None:
    """The four statements on ``requests``, for caches of ``sizes`` entries.

    A statement that the trace cannot break (nothing is ever unpinned, nothing misses) fails.
    """
    designs = [
        with_settings(load_design(name), [f"entries={entries}", f"pin_limit={limit}"])
        for name in ("utlb", "vmmc-interrupt")
        for limit in LIMITS
        for entries in sizes
    ]
    results = iter(replay([requests], designs, kinds=False))
    runs = {
        (scheme, limit): [next(results) for _ in sizes]
        for scheme in ("utlb", "interrupt")
        for limit in LIMITS
    }
    free, tight = runs["utlb", LIMITS[0]], runs["utlb", LIMITS[1]]
    checks = [{run.total["check_misses"] for run in group} for group in (free, tight)]
    outcome.shape(
        "check-misses-ignore-the-cache",
        all(len(values) == 1 for values in checks) and max(checks[1]) > max(checks[0]) > 0,
        f"{_set(checks[0])} without a limit, {_set(checks[1])} with {PIN_LIMIT} pages "
        f"per process, at {len(sizes)} cache sizes",
    )
    unpins = [sum(run.total["unpins"] for run in group) for group in (free, tight)]
    outcome.shape(
        "no-limit-no-unpin",
        unpins[0] == 0 and unpins[1] > 0,
        f"{unpins[0]} unpins without a limit, {unpins[1]} with one",
    )
    misses = [[run.total["ni_misses"] for run in runs[s, LIMITS[0]]] for s in ("utlb", "interrupt")]
    outcome.shape(
        "same-misses-without-limit",
        misses[0] == misses[1] and misses[0][0] > misses[0][-1],
        f"UTLB {misses[0]}, interrupts {misses[1]}",
    )
    residents = [
        (node["ni_misses"] - node["unpins"], entries)
        for limit in LIMITS
        for run, entries in zip(runs["interrupt", limit], sizes, strict=True)
        for node in run.nodes
    ]
    fullest = max(held / entries for held, entries in residents)
    outcome.shape(
        "interrupt-residents-fit",
        all(0 < held <= entries for held, entries in residents),
        f"at most {100 * fullest:.1f} % of a cache in {len(residents)} runs of a node",
    )


def _set(values: set[int]) -> str:
    return " or ".join(str(value) for value in sorted(values)) + " check misses"
