"""RDMA NICs that follow what a trace registers, against the oracle."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.replay import follows_registrations, replay
from nicscope.errors import DesignError, TraceError
from nicscope.traces.columns import Checker, rows_of
from nicscope.traces.reader import requests_of
from nicscope.traces.writer import batch_of
from oracle import replay_regions as oracle
from oracle.replay import DEFAULTS, PATHS
from oracle.strategies import designs
from trace_columns import design_of

RIGHTS = (None, "local_read", "local_write", "local_write|remote_write", "remote_read local_write")
NOT_FOLLOWED = ("registered", "indirect")


def batch(rows):
    """Rows of the oracle as the driver takes them."""
    node, pid, op, address, length, page_size, rights = zip(*rows, strict=True)
    columns = {"time_ns": [0] * len(rows), "node": node, "pid": pid, "op": op}
    columns |= {"address": address, "length": length, "page_size": page_size}
    columns["rights"] = [None if each is None else "|".join(sorted(each)) for each in rights]
    checker = Checker("drawn")
    made = batch_of({name: list(column) for name, column in columns.items()}, checker)
    return rows_of(requests_of(made, checker), made, checker)


def found(rows, flat, cuts=()):
    whole, edges = batch(rows), [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    parts = [
        type(whole)._make(column[begin:end] for column in whole)
        for begin, end in pairwise(edges)
        if end > begin
    ]
    return replay(parts, [design_of(flat)], by_region=True)[0]


@st.composite
def histories(draw):
    """What few processes register, touch and give back: ranges that overlap, come again, end."""
    starts = [base + 512 * step for base in (0, 2**31, 2**64 - 2**17) for step in (0, 1, 9, 16)]
    lengths = (1, 512, 5000, 4096 * 3, 2**16)
    ranges = [
        (address, length) for address in starts for length in lengths if address + length <= 2**64
    ]
    known = draw(st.lists(st.sampled_from(ranges), min_size=1, max_size=6))
    rows, live = [], []
    for _ in range(draw(st.integers(1, 40))):
        node, pid = draw(st.sampled_from(((0, 1), (0, 1), (0, 2), (3, 1))))
        kind = draw(st.sampled_from(("register", "request", "request", "request", "deregister")))
        if kind == "deregister":
            if live:
                # As it was said, where it is the only one of its range; else the newest of these.
                *which, size = live[draw(st.integers(0, len(live) - 1))]
                same = [place for place, (*other, _) in enumerate(live) if other == which]
                del live[same[-1]]
                size = size if len(same) == 1 else None
                rows.append((*which[:2], "deregister", *which[2:], size, None))
            continue
        address, length = draw(st.sampled_from(known))
        if kind == "register":
            size = draw(st.sampled_from((None, 512, 4096, 2**16, 2**21)))
            rights = draw(st.sampled_from(RIGHTS))
            rights = None if rights is None else set(rights.replace("|", " ").split())
            rows.append((node, pid, "register", address, length, size, rights))
            live.append((node, pid, address, length, size))
            continue
        skipped = draw(st.integers(0, length - 1)) if draw(st.booleans()) else 0
        beyond = draw(st.sampled_from((0, 0, 0, 1)))
        part = max(min(length - skipped + beyond, 2**64 - address - skipped), 1)
        op = draw(st.sampled_from(tuple(PATHS)))
        rows += [(node, pid, op, address + skipped, part, None, None)] * draw(st.integers(1, 3))
    return rows or [(0, 1, "send", 0, 1, None, None)]


@given(
    rows=histories(),
    flat=designs("rnic"),
    cuts=st.lists(st.integers(0, 50), max_size=3),
)
def test_replay_follows_regions_as_the_oracle_does(rows, flat, cuts):
    flat = {name: value for name, value in flat.items() if name not in NOT_FOLLOWED}
    want = oracle.replay(rows, {**DEFAULTS, **flat})
    got = {counts["node"]: counts for counts in found(rows, flat, cuts).nodes}
    assert got.keys() == want.keys()
    for node, counts in want.items():
        assert {name: got[node][name] for name in counts} == counts


CHURN = [
    (0, 1, "register", 0, 1 << 20, 4096, None),
    *[(0, 1, "send", page * 4096, 4096, None, None) for page in range(40)],
    (0, 1, "deregister", 0, 1 << 20, None, None),
] * 3
NIC = {"scheme": "rnic", "entries": 64, "ways": 2, "line": 8, "mpt_entries": 4}


def test_a_region_that_comes_again_is_fetched_again():
    total = found(CHURN, NIC).total
    assert total["ni_misses"] == total["ni_misses_compulsory"] == 3 * 5
    assert total["entries_invalidated"] == 3 * (5 + 1)
    assert total["regions"] == total["pin_calls"] == total["unpin_calls"] == 3
    assert total["pins"] == total["unpins"] == 3 * 256
    assert total["peak_pinned_pages"] == 256


@pytest.mark.parametrize("l1_entries", [64, 1024])
def test_a_region_larger_than_the_caches_leaves_both_levels(l1_entries):
    """It has 32 lines: its own are looked for, or in smaller caches whatever they hold."""
    nic = {**NIC, "entries": 8, "ways": 1, "l1_entries": l1_entries, "l1_ways": 2}
    want = oracle.replay(CHURN, {**DEFAULTS, **nic})[0]
    total = found(CHURN, nic).total
    assert {name: total[name] for name in want if name in total} == {
        name: count for name, count in want.items() if name in total
    }
    assert total["entries_invalidated"] > 3 * 2  # more than the region and level 0's only line


def test_other_designs_are_fed_the_requests_alone():
    plain = {"scheme": "utlb", "entries": 64}
    followed = replay([batch(CHURN)], [design_of(NIC), design_of(plain)], by_region=True)
    requests = [row for row in CHURN if row[2] == "send"]
    alone = replay([batch(requests)], [design_of(plain)])[0]
    assert followed[1].total == alone.total
    assert followed[0].total == found(CHURN, NIC).total


def test_what_is_given_back_must_be_registered():
    rows = [(2, 1, "register", 4096, 8192, None, None), (2, 1, "send", 4096, 1, None, None)]
    for wrong in (
        (2, 1, "deregister", 4096, 4096, None, None),
        (2, 3, "deregister", 4096, 8192, None, None),
        (0, 1, "deregister", 4096, 8192, None, None),
        (2, 1, "deregister", 4096, 8192, 1 << 21, None),
    ):
        with pytest.raises(TraceError) as caught:
            found([*rows, wrong], NIC)
        assert "where no such region is registered" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", [{"registered": 4096}, {"indirect": 1 << 20}])
def test_a_design_cannot_say_too_what_is_registered(setting):
    design = design_of({**NIC, **setting})
    with pytest.raises(DesignError, match="the trace says itself what is registered"):
        follows_registrations([design], 1)
    assert not follows_registrations([design], 0)
    assert not follows_registrations([design_of({"scheme": "utlb", "entries": 4})], 1)
