"""``nicscope rdma explain``: what hypotheses predict, against what was published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.config.costs import hypothesis_names, load_hypothesis

GIB = 1 << 30


def slow_by(way):
    return {one["hypothesis"]: one["is_slow"] for one in way["predicted"]}


def predictions(*given, **options):
    """What each hypothesis says, by the ways that were asked for."""
    asked = ns.rdma.explain(*given, **options).as_json()["asked"]
    every = [slow_by(way) for way in asked]
    return {name: [each[name] for each in every] for name in every[0]}


# LMCache, pull request 4432: a region, the largest slice, and whether it was slow.
SEEN = (("6.5GiB", "1", True), ("7GiB", "2", False), ("6041MiB", "1", True),
        ("6041MiB", "3.5GiB", False), ("24GiB", "1", True), ("24GiB", "3.5GiB", False))  # fmt: skip


@pytest.mark.parametrize(("pool", "slices", "slow"), SEEN)
def test_each_hypothesis_says_what_was_seen_with_pages_of_4_kib(pool, slices, slow):
    found = predictions(pool, slices=slices, stack="ucx:1.19")
    assert found == {name: [slow] for name in ("ksm", "table", "pool")}
    for name in hypothesis_names():
        one = load_hypothesis(name)
        assert all((one.says, one.counter, one.cure, one.origin.source))


def test_each_change_leaves_others_slow():
    found = ns.rdma.explain("24GiB", stack="ucx:1.19").as_json()["tests"]

    told = {one["told"]: [name for name, slow in slow_by(one).items() if slow] for one in found}
    assert told == {
        "pages of 2 MiB": ["ksm"],
        "without ucx, by verbs alone": ["table", "pool"],
        "ucx 1.16": ["table", "pool"],
    }


def test_a_library_of_which_it_is_not_and_a_version_without_it_are_fast_by_ksm():
    assert predictions("24GiB", slices="1", stack="verbs")["ksm"] == [False]
    assert predictions("24GiB", slices="1", stack="ucx:1.16.0")["ksm"] == [False]
    assert predictions("24GiB", slices="1", stack="ucx:1.160")["ksm"] == [True]
    assert predictions("24GiB", slices="1", stack="ucx")["ksm"] == [True]


@given(
    byte_count=st.integers(1, 1 << 44),
    parts=st.integers(1, 1000),
    page=st.sampled_from([4096, 65536, 2 << 20, 1 << 30]),
)
def test_what_is_slow_is_counted_one_region_by_the_other(byte_count, parts, page):
    parts = min(parts, byte_count)
    # The slow way: regions cut off one after the other, and each held against what it may have.
    left, largest = byte_count, -(-byte_count // parts)
    regions = []
    while left:
        regions.append(min(left, largest))
        left -= regions[-1]
    slow_by_bytes = any(size >= 4 * GIB for size in regions)
    slow_by_entries = any((size + page - 1) // page > 1 << 20 for size in regions)

    found = ns.rdma.explain(byte_count, slices=parts, page_size=page)

    assert found.found.asked[0].regions == len(regions)
    assert slow_by(found.as_json()["asked"][0]) == {
        "ksm": slow_by_bytes,
        "table": slow_by_entries,
        "pool": slow_by_entries,
    }


def test_the_answer_says_what_differs_and_what_tells_apart():
    said = " ".join(ns.rdma.explain("24GiB", stack="ucx:1.19", fast=9.24, slow=6.00).summary())

    assert said.startswith("The most likely cause is an indirect key over chunks (ksm), ")
    assert "Remedy: UCX_IB_REG_MT_THRESH=inf, or slices below 4 GiB." in said
    assert "An indirect key over chunks (ksm), a deeper table of pages (table) and" in said
    assert "pages of 2 MiB (still slow if ksm)" in said
    # 4,096 bytes at 6.00 GB/s less the same at 9.24.
    assert "0.239 us for each 4 KiB" in said


def test_ways_that_do_not_differ_are_told():
    assert "No hypothesis predicts" in " ".join(ns.rdma.explain("2GiB").summary())
    assert ns.rdma.explain("2GiB", slices=1).summary() == ["Predicted fast by all."]
    assert ns.rdma.explain("24GiB", slices=1, hypothesis="ksm").summary() == [
        "Predicted slow by an indirect key over chunks."
    ]
