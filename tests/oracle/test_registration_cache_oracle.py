"""The cache of registered regions against a plain list of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.host.registration_cache import (
    HEAD,
    LEVELS,
    RULES,
    grown_registration_cache,
    new_registration_cache,
    use_ranges,
)
from oracle.registration_cache import Cache


def used(ranges, rules, room=2):
    cache = new_registration_cache(room, **dict(zip(RULES.names, rules, strict=True)))
    address = np.array([begin for begin, _ in ranges], np.uint64)
    length = np.array([count for _, count in ranges], np.uint32)
    done = use_ranges(cache, address, length, 0)
    while done < len(ranges):
        room *= 2
        cache = grown_registration_cache(cache, room)
        done = use_ranges(cache, address, length, done)
    return cache


def in_order(cache):
    rows, row = [], cache.following[0, HEAD]
    while row != HEAD:
        rows.append((int(cache.begin[row]), int(cache.end[row])))
        row = cache.following[0, row]
    return rows


def by_use(cache):
    rows, row = [], cache.newer[HEAD]
    while row != HEAD:
        rows.append((int(cache.begin[row]), int(cache.end[row])))
        row = cache.newer[row]
    return rows


RANGES = st.lists(st.tuples(st.integers(4_000, 4_200), st.integers(1, 60)), max_size=60)
LIMITS = st.tuples(
    st.sampled_from((1, 2, 16)),
    st.integers(0, 1),
    st.one_of(st.integers(0, 5), st.just(1 << 40)),
    st.one_of(st.integers(1, 120), st.just(1 << 62)),
)


@given(RANGES, LIMITS)
def test_it_holds_and_counts_what_a_plain_list_does(ranges, rules):
    cache = used(ranges, rules)

    twin = Cache(*rules)
    for address, length in ranges:
        twin.use(address, length)
    assert by_use(cache) == twin.regions
    assert in_order(cache) == sorted(twin.regions)
    counts = cache.counts[0]
    assert counts["lookups"] == len(ranges)
    assert {
        "hits": twin.hits,
        "registrations": twin.registrations,
        "registered_bytes": twin.registered,
        "registered_pages": twin.pages,
        "evicted": twin.evicted,
        "overlapped": twin.overlapped,
        "uncached": twin.uncached,
        "deregistered_bytes": twin.deregistered,
        "regions": len(twin.regions),
        "bytes": sum(end - begin for begin, end in twin.regions),
    } == {
        name: counts[name]
        for name in (
            "hits",
            "registrations",
            "registered_bytes",
            "registered_pages",
            "evicted",
            "overlapped",
            "uncached",
            "deregistered_bytes",
            "regions",
            "bytes",
        )
    }


@given(RANGES, LIMITS)
def test_what_is_registered_is_deregistered_or_still_there(ranges, rules):
    counts = used(ranges, rules).counts[0]

    assert counts["registered_bytes"] == counts["deregistered_bytes"] + counts["bytes"]
    gone = counts["evicted"] + counts["overlapped"] + counts["uncached"]
    assert counts["registrations"] == gone + counts["regions"]
    assert counts["lookups"] == counts["hits"] + counts["registrations"]
    assert counts["most_regions"] <= rules[2]
    assert counts["most_bytes"] <= rules[3]


def test_every_level_of_the_list_stays_in_order():
    rng = np.random.default_rng(0)
    ranges = [(int(place) * 8, 4) for place in rng.permutation(3_000)]

    cache = used(ranges, (1, 0, 1 << 40, 1 << 62))

    assert in_order(cache) == sorted((begin, begin + 4) for begin, _ in ranges)
    many = []
    for level in range(LEVELS):
        row, found = cache.following[level, HEAD], []
        while row != HEAD:
            found.append(cache.begin[row])
            row = cache.following[level, row]
        assert found == sorted(found)
        many.append(len(found))
    assert many[0] == 3_000
    assert 500 < many[1] < 1_000  # a quarter
