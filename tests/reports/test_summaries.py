"""The sentences of summaries where results are alike; what all have is in test_every_table.py."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

import nicscope as ns
from nicscope.reports import size_summary


def trace(*addresses):
    count = len(addresses)
    columns = {"time_ns": [0] * count, "node": [0] * count, "pid": [1] * count}
    columns |= {"op": ["send"] * count, "length": [1] * count}
    return pa.table(columns | {"address": list(addresses)})


def test_designs_that_miss_alike_are_called_neither_fewest_nor_most():
    alike = ns.replay(trace(4096), ["mini", "utlb"]).summary()[0]
    others = ns.replay(trace(4096), ["unet", "mini", "utlb"]).summary()[0]

    assert alike == "Of 100 lookups on the NIC every design misses 100.00."
    assert others.endswith("unet misses nothing; of the others each misses 100.00.")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (["4KiB", "2MiB"], "4 KiB pages: 1 miss, as with any other;"),
        (["4KiB"], "4 KiB pages: 1 miss; more than"),
    ],
)
def test_page_sizes_that_miss_alike_are_called_neither_fewer_nor_more(sizes, said):
    found = ns.size(trace(4096), "64KiB", page_size=sizes, only="page-sizes")

    assert found.summary()[0].startswith(said)


@pytest.mark.parametrize(
    ("misses", "said"),
    [
        ((2, 2, 3), "4 KiB pages: 2 misses, as with pages of 64 KiB;"),
        ((2, 3, 3), "4 KiB pages: 2 misses, fewer than the 3 of 64 KiB pages;"),
        ((3, 3, 2), "2 MiB pages: 3 misses with pages of 64 KiB become 2;"),
        ((2, 2, 2), "4 KiB pages: 2 misses, as with any other;"),
    ],
)
def test_the_best_page_size_is_compared_with_todays(misses, said):
    sizes = [
        SimpleNamespace(page_size=size, misses=count, enough=2, pinned_bytes=0)
        for size, count in zip((1 << 12, 1 << 16, 1 << 21), misses, strict=True)
    ]

    assert size_summary._of_pages(sizes, 1 << 16, 0).startswith(said)
