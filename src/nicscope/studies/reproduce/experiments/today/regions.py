"""What regions and pages in levels, looked up by an RDMA NIC, show of two public reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import load_design, with_values
from nicscope.config.platform import load_platform
from nicscope.drivers.replay import replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.studies.reproduce.verdict import Item, Outcome

GIB = 1 << 30
PAGE = 4096
HUGE_PAGE = 2 << 20
BASE = 1 << 40  # address of the pool: where a region, a part and a line begin
PACKET = 4096  # bytes: the largest MTU of InfiniBand
PART = 2 * GIB  # ucx, ib_md.c: REG_MT_CHUNK
POOLS_GIB = (3.5, 4, 24)  # of LMCache's issue 4432
# The ranges of the catalog's design: what has been guessed of caches, and no vendor has told.
ENTRIES = (1024, 4096, 16384, 65536)
REGIONS = (128, 1024, 32768)
READS = 500  # of each region
BEYOND = 64  # times what the cache maps
READ_US = 1.91  # perftest, issue 131: the round trip of a small read
MOST_FETCHED = 0.9
LONGER = (1.5, 2.5)
SEED = 19


class _Requests(NamedTuple):
    """Requests of one process, as a replay wants them."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]


def _at_random(region_bytes: int, each: int) -> _Requests:
    """``READS`` of ``each`` bytes, aligned, anywhere in a region."""
    places = np.random.default_rng(SEED).integers(0, region_bytes // each, READS)
    return _Requests(
        np.zeros(READS, np.int32),
        np.zeros(READS, np.int32),
        np.zeros(READS, np.uint8),
        (BASE + places * each).astype(np.uint64),
        np.full(READS, each, np.uint32),
    )


def _counts(requests: _Requests, **settings: Any) -> dict[str, int]:
    design = with_values(load_design("rnic"), settings)
    (found,) = replay([requests], [design], kinds=False)
    return {name: count or 0 for name, count in found.total.items()}


def t6(outcome: Outcome, item: Item) -> None:
    """An issue of LMCache: a pool registered as one region of 4 GiB or more is read slower.

    Take UCX's indirect regions for the reason, and count what each packet looks up.
    """
    threshold = item.printed["step_at_gib"] * GIB  # ucx, ib_md.c: REG_MT_THRESH
    more, fetched = [], []
    for gib in POOLS_GIB:
        size = int(gib * GIB)
        parts = PART if size >= threshold else None
        for regions in REGIONS:
            counts = _counts(
                _at_random(size, 4 * PACKET),
                page_size=HUGE_PAGE,
                mtu=PACKET,
                indirect=parts,
                mpt_entries=regions,
            )
            packets = 4 * READS
            more.append((gib, counts["mpt_lookups"] / packets))
            fetched.append(counts["mpt_l0_misses"] - counts["regions"])
    outcome.shape(
        "one-lookup-more",
        all(each == (2 if gib * GIB >= threshold else 1) for gib, each in more),
        ", ".join(f"{gib:g} GiB: {each:g} a packet" for gib, each in more[:: len(REGIONS)]),
    )
    outcome.shape(
        "no-fetch-more",
        not any(fetched),
        f"beyond the first of each region at most {max(fetched)} are fetched, with "
        f"{REGIONS[0]:,} to {REGIONS[-1]:,} regions at hand",
    )


def t19(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - all are given it
    """A measurement of what misses in the table of pages cost, by the size of the region."""
    shares, again = [], 0
    for entries in ENTRIES:
        reach = entries * PAGE
        beyond = _counts(_at_random(BEYOND * reach, PAGE), page_size=PAGE, entries=entries)
        shares.append(beyond["ni_misses"] / beyond["lookups"])
        for region, page in ((reach // 4, PAGE), (BEYOND * reach, HUGE_PAGE)):
            counts = _counts(_at_random(region, PAGE), page_size=page, entries=entries)
            again += counts["ni_misses_noncompulsory"]
    outcome.shape(
        "past-its-reach",
        min(shares) >= MOST_FETCHED and not again,
        f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % are fetched; of the others "
        f"{again} again",
    )
    fetch = load_platform("connectx").costs["icm_fetch"].each(None)
    low, high = (float(1 + each / 10**6 / READ_US) for each in fetch)
    outcome.shape(
        "twice-as-long",
        LONGER[0] <= low and high <= LONGER[1],
        f"{low:.2f} to {high:.2f} times",
    )
