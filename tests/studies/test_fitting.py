"""``nicscope rdma fit``: counters of hidden caches, and the caches that come out."""

import json
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_tables import table

import nicscope as ns
from nicscope.config.glossary import known_counter
from nicscope.drivers.onepass.drawn import KeptLookups
from nicscope.drivers.replay.lookups import Lookups, Nic
from nicscope.errors import NicscopeError
from nicscope.studies.fitting import read_counters
from refusals import refused
from suite import share

pytestmark = pytest.mark.compiled  # caches of every size, over and over
PAGE = 4096


def traffic(pages):
    """A trace of one process that sends from those pages, one after the other."""
    return table([(PAGE * int(page), 64) for page in pages])


def counted(pages, entries, ways=None):
    """Hits and misses of an LRU cache, the slow way."""
    sets = 1 if ways is None else entries // ways
    held = [OrderedDict() for _ in range(sets)]
    misses = 0
    for page in pages:
        cache = held[page % sets]
        if page in cache:
            cache.move_to_end(page)
            continue
        misses += 1
        if len(cache) == (ways or entries):
            cache.popitem(last=False)
        cache[page] = True
    return {"hits": len(pages) - misses, "misses": misses}


def skewed(seed, count=500, pages=120):
    """Pages of which some are wanted much more often than others."""
    drawn = np.random.default_rng(seed).zipf(1.3, count)
    return [int(page) % pages for page in drawn]


def shape(found, ways, replacement="lru", line=1):
    kind = (replacement, line, ways)
    for one in found.as_json()["shapes"]:
        if (one["replacement"], one["line"], one["ways"]) == kind:
            return one
    raise AssertionError(kind)


@given(entries=st.integers(2, 60), seed=st.integers(0, 99))
@share(0.3)
def test_a_hidden_cache_lies_within_what_comes_out(entries, seed):
    pages = skewed(seed)
    trace = traffic(pages)

    found = ns.rdma.fit(counted(pages, entries), trace)

    full = shape(found, "full")
    assert full["explains"]
    assert full["entries_low"] <= entries <= full["entries_high"]
    # All between them are open, and the next ones beyond are not.
    for end, step in ((full["entries_low"], -1), (full["entries_high"], 1)):
        beyond = counted(pages, end + step) if 0 < end + step < 1000 else None
        if beyond:
            off = abs(beyond["misses"] - counted(pages, entries)["misses"]) / len(pages)
            [left] = found.as_json()["counts"]
            assert off > left["miss_ratio_open"] * (1 - 1e-9)


@pytest.mark.parametrize(("entries", "ways"), [(32, 1), (64, 4), (128, 8)])
def test_a_hidden_cache_with_sets_is_the_nearest_of_its_ways(entries, ways):
    pages = skewed(7)
    trace = traffic(pages)
    from_replay = ns.replay(trace, "utlb", entries=entries, ways=ways)
    total = from_replay.as_json()["total"]
    counts = {"hits": total["lookups"] - total["ni_misses"], "misses": total["ni_misses"]}

    found = ns.rdma.fit(counts, trace)

    nearest = shape(found, ways)
    assert nearest["explains"]
    assert nearest["entries_best"] == entries
    assert nearest["off"] == pytest.approx(0, abs=1e-9)


def test_counts_with_pages_of_two_sizes_tell_shapes_apart():
    pages = [page * 5 % 320 for page in skewed(3, pages=320)]
    trace = traffic(pages)
    small = counted(pages, 32)
    large = {"page_size": "16K", **counted([page // 4 for page in pages], 32)}

    alone, together = ns.rdma.fit(small, trace), ns.rdma.fit([small, large], trace)

    def explaining(found):
        return {one["ways"] for one in found.as_json()["shapes"] if one["explains"]}

    assert "full" in explaining(together) <= explaining(alone)
    assert shape(together, "full")["entries_low"] <= 32 <= shape(together, "full")["entries_high"]


def drawn(pages, entries, ways, seed):
    """Hits and misses of a cache that gives up one at random, the slow way."""
    chance = np.random.default_rng(seed)
    sets = [[] for _ in range(entries // ways)]
    misses = 0
    for page in pages:
        held = sets[page % len(sets)]
        if page not in held:
            misses += 1
            if len(held) == ways:
                held.pop(int(chance.integers(ways)))
            held.append(page)
    return {"hits": len(pages) - misses, "misses": misses}


@given(
    numbers=st.lists(st.integers(0, 30), max_size=200),
    lines=st.sampled_from([1, 2, 4, 8, 16]),
    ways=st.sampled_from([0, 1, 2, 4]),
    skip=st.integers(0, 50),
    seed=st.integers(0, 9),
)
@share(4)
def test_a_random_cache_counts_as_lists_of_what_is_held_do(numbers, lines, ways, skip, seed):
    ways = min(ways, lines)
    sets, room = (lines // ways, ways) if ways else (1, lines)
    draws = np.random.default_rng([seed, lines, ways]).integers(1 << 31, size=len(numbers))
    held = [[] for _ in range(sets)]
    missed = []
    for number, draw in zip(numbers, draws.tolist(), strict=True):
        row = held[number % sets]
        missed.append(number not in row)
        if number not in row:
            if len(row) == room:
                row[draw % room] = number
            else:
                row.append(number)

    kept = KeptLookups()
    for part, begins in ((numbers[:skip], False), (numbers[skip:], True)):
        if begins:
            kept.skip()
        these = np.array(part, np.uint32)
        kept.feed(Lookups(Nic(0, None, 1), len(part), 0, these, these))

    assert kept.misses(lines, ways, seed) == sum(missed[skip:])
    assert kept.pages == len(numbers[skip:])


@pytest.mark.parametrize(("entries", "ways"), [(48, 48), (64, 4)])
def test_a_hidden_random_cache_lies_within_what_comes_out(entries, ways):
    pages = skewed(5, count=1500, pages=150)
    found = ns.rdma.fit(drawn(pages, entries, ways, seed=3), traffic(pages), line=1)

    one = shape(found, "full" if ways == entries else ways, "random")
    assert one["explains"]
    assert one["entries_low"] <= entries <= one["entries_high"]
    assert "explain what the cache counted" in found.summary()[0]


@pytest.mark.parametrize("line", [1, 8])
def test_a_hidden_cache_of_an_rdma_nic_lies_within_what_comes_out(line):
    pages = skewed(9, count=600, pages=200)
    trace = traffic(pages)
    total = ns.replay(trace, "rnic", entries=64, ways=64 // line, line=line).as_json()["total"]
    counts = {"l0_mtt_hit": total["mtt_l0_hits"], "l0_mtt_miss": total["mtt_l0_misses"]}

    one = shape(ns.rdma.fit(counts, trace), "full", line=line)

    assert one["explains"]
    assert one["entries_low"] <= 64 <= one["entries_high"]


def test_over_a_long_trace_random_caches_are_left_out_and_that_is_told(monkeypatch):
    monkeypatch.setattr("nicscope.studies.fitting.MOST_DRAWN", 99)
    found = ns.rdma.fit({"hits": 50, "misses": 50}, traffic([*range(50)] * 2))
    assert not found.as_json()["random_tried"]
    assert {one["replacement"] for one in found.as_json()["shapes"]} == {"lru"}
    assert "Random replacement was not tried" in " ".join(found.summary())


@pytest.mark.parametrize(
    ("pages", "counts", "said"),
    [
        ([1, 2, 3] * 2, {"hits": 3, "misses": 3}, "3 or more"),  # no more is known at the floor
        ([1] * 400, {"hits": 0, "misses": 400_000}, "No cache explains what the cache counted"),
        ([1, 2] * 50, {"hits": 130, "misses": 3}, "it may not be the same traffic"),
        ([1, 2] * 50, {"hits": 196, "misses": 4}, None),  # twice the same
    ],
)
def test_what_counters_cannot_tell_is_told(pages, counts, said):
    found = ns.rdma.fit(counts, traffic(pages), tolerance=0 if said == "3 or more" else 0.01)
    told = " ".join([*found.summary(), str(found)])
    assert said in told if said else "may not be the same traffic" not in told


@pytest.mark.parametrize(
    ("name", "cache"),
    [
        ("hits", ("the cache", True)),
        ("Level 0 MTT Cache Miss", ("MTT, level 0", False)),
        ("l0_mtt_hit", ("MTT, level 0", True)),
        ("mlx5_tpt_l0_mtt_miss", ("MTT, level 0", False)),
        ("l1_mtt_hit", None),
    ],
)
def test_names_that_tools_print_are_known(name, cache):
    assert known_counter(name) == cache


def test_what_is_not_used_says_why():
    given_too = {"l0_mtt_hit": 3, "l0_mtt_miss": 1, "l0_mpt_miss": 9, "rx_packets": 3}
    _, [count], unused = read_counters(given_too, "here")
    assert (count.hits, count.misses) == (3, 1)
    assert unused == {
        "l0_mpt_miss": "it counts regions, of which requests say nothing",
        "rx_packets": "no counter of a translation cache",
    }


@pytest.mark.parametrize(
    ("plain", "facts"),
    [
        ("hits: 3", ["c.json", "JSON"]),
        ([], ['{"hits": 900']),
        ({"hits": 3}, ["hits", "misses"]),
        ({"hits": -1, "misses": 1}, ["hits", "whole number", "got -1"]),
        ({"hits": 0, "misses": 0}, ["no lookup"]),
        ({"hits": 1, "misses": 1, "l0_mtt_hit": 3, "l0_mtt_miss": 1}, ["one cache"]),
        (
            [{"hits": 1, "misses": 1}, {"l0_mtt_hit": 3, "l0_mtt_miss": 1}],
            ["MTT, level 0", "the cache"],
        ),
        ({"hits": 1, "misses": 1, "page_size": "few"}, ["page_size", "bytes"]),
    ],
)
def test_counters_that_say_nothing_are_refused(plain, facts, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(plain if isinstance(plain, str) else json.dumps(plain))
    with refused(NicscopeError, *facts):
        ns.rdma.fit(path, traffic([1]))
