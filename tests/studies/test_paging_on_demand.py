"""``nicscope rdma odp``: registering memory ahead against having a NIC's faults page it in."""

import numpy as np
import pytest
from request_tables import table

import nicscope as ns
from nicscope.config.costs import load_fault_costs, load_registration_costs
from oracle.on_demand import Twin

PAGE = 4096


def paged(trace, **options):
    return ns.rdma.odp(trace, **options).as_json()


def counted(trace, **options):
    return [one["counts"] for one in paged(trace, **options)["on_demand"]]


def test_a_first_touch_faults_once_a_piece_and_never_again():
    twice = [(PAGE * 14 + 100, 20 * PAGE)] * 2  # pages 14 to 34

    small, large, whole = counted(table(twice), fault_bytes="4KiB,64KiB,request", prefetch="none")

    assert [one["faults"] for one in (small, large, whole)] == [21, 3, 1]
    assert {one["minor_pages"] for one in (small, large, whole)} == {21}
    assert whole["faulting_requests"] == 1


def test_advice_takes_the_faults_away_if_the_pages_stay_until_they_are_used():
    ring = [(PAGE * (place % 8), 64) for place in range(80)]

    far, near = (
        counted(table(ring), prefetch="async", ahead=ahead, resident="16KiB", fault_bytes="4KiB")[0]
        for ahead in (6, 2)
    )
    [waited] = counted(table(ring), prefetch="sync", resident="16KiB", fault_bytes="4KiB")

    assert near["faults"] == waited["faults"] == 0
    assert far["faults"] > 40  # four pages stay, and six are advised of before the first is used
    assert near["prefetched_minor_pages"] == 8


def test_random_requests_of_many_nodes_are_the_twins():
    rng = np.random.default_rng(4)
    count = 300
    nodes = rng.integers(0, 3, count).tolist()
    ranges = [
        (int(begin) * PAGE, int(size))
        for begin, size in zip(
            rng.integers(0, 40, count), rng.integers(1, 5 * PAGE, count), strict=True
        )
    ]
    options = {"prefetch": "none,async", "ahead": 3, "resident": "64KiB", "fault_bytes": "8KiB"}

    found = counted(table(ranges, nodes=nodes), **options)

    for advises, counts in zip((False, True), found, strict=True):
        twins = {
            node: Twin(2, advises, 3 if advises else 0, 17, 64, 64) for node in sorted(set(nodes))
        }
        for node, twin in twins.items():
            mine = [one for one, at in zip(ranges, nodes, strict=True) if at == node]
            numbers = {}
            requests = []
            for begin, size in mine:
                first, last = begin // PAGE, (begin + size - 1) // PAGE
                for page in range(first, last + 1):
                    numbers.setdefault(page, len(numbers))
                requests.append((first, [numbers[page] for page in range(first, last + 1)]))
            twin.run(requests)
        for name in (
            "requests",
            "lookups",
            "faults",
            "major_pages",
            "minor_pages",
            "advised_pages",
        ):
            assert counts[name] == sum(twin.counts[name] for twin in twins.values()), name
        reclaimed = sum(twin.host.work["reclaimed"] for twin in twins.values())
        assert counts["invalidated_pages"] == reclaimed > 0


def test_what_is_registered_ahead_are_the_runs_of_pages_that_are_touched():
    ranges = [(0x10000, 2 * PAGE), (0x12000, 1), (0x40000, 1), (0x10000, 1)]

    found = paged(table(ranges, pids=[1, 1, 1, 2]))["registered_ahead"]

    assert (found["pages"], found["regions"]) == (5, 3)
    costs = load_registration_costs("connectx")
    for end, seconds in enumerate(found["seconds"]):
        each = costs.each("pin")[end] + costs.each("entry")[end]
        assert seconds == pytest.approx((3 * costs.each("region")[end] + 5 * each) * 1e-6)


def test_what_requests_wait_for_is_counts_times_costs():
    ring = [(PAGE * (place % 8), 64) for place in range(80)]
    costs, faults = load_registration_costs("connectx"), load_fault_costs("connectx")

    found = paged(table(ring), prefetch="none,sync,async", resident="16KiB", fault_bytes="4KiB")

    for one in found["on_demand"]:
        counts = one["counts"]
        for end in (0, 1):
            page = costs.each("pin")[end] + costs.each("entry")[end]
            disk = page + faults.each("page_in")[end]
            waits = counts["faults"] * faults.each("nic_fault")[end]
            waits += counts["minor_pages"] * page + counts["major_pages"] * disk
            fetched = counts["prefetched_minor_pages"] * page
            fetched += counts["prefetched_major_pages"] * disk
            behind = counts["invalidated_pages"] * faults.each("invalidation")[end]
            advice = counts["advices"] * faults.each("advise")[end]
            if one["prefetch"] == "sync":
                waits += advice + fetched
            if one["prefetch"] == "async":
                waits += counts["advices"] * faults.each("advise_later")[end]
                behind += advice + fetched
            assert one["waits_s"][end] == pytest.approx(waits * 1e-6)
            assert one["behind_s"][end] == pytest.approx(behind * 1e-6)


def test_memory_that_nobody_touched_is_zeroed_by_faults_and_by_registration():
    one = table([(0, PAGE)])
    costs = load_registration_costs("connectx")

    before, after = (paged(one, touched=touched, prefetch="none") for touched in (True, False))

    for end in (0, 1):
        more = (costs.each("fault")[end] + costs.each("zero")[end] / (1 << 18)) * 1e-6
        for key in (("registered_ahead", "seconds"), ("on_demand", 0, "waits_s")):
            first, second = before, after
            for step in key:
                first, second = first[step], second[step]
            assert second[end] - first[end] == pytest.approx(more)


def test_registering_pays_when_faults_have_taken_longer():
    # A fault takes at least 1.75 ms, so the first of them has taken longer than a region of a page.
    found = paged(table([(PAGE * place, 1) for place in range(50)]), prefetch="none")

    assert found["on_demand"][0]["ahead_pays_after_requests"] == [1, 1]
    again = paged(table([(0, 1)] * 50), prefetch="async", ahead=1)["on_demand"][0]
    # Advice takes 0.2 to 5 us, a region and its page 16.1 to 21.7; the third request is used after
    # the fourth advice.
    assert again["ahead_pays_after_requests"] == [3, None]


def test_a_slow_request_is_told_by_its_faults():
    ranges = [(0, 1)] * 990 + [(PAGE * 100 * place, 3 * PAGE) for place in range(1, 11)]

    found = paged(table(ranges), prefetch="none", fault_bytes="4KiB")["on_demand"][0]

    assert found["faults_of_a_request"] == {"p50": 0, "p99": 1, "p99.9": 3}
    assert found["counts"]["most_faults"] == 3
    told = " ".join(ns.rdma.odp(table(ranges), prefetch="none", fault_bytes="4KiB").summary())
    assert "1.10 % of requests fault, so the 99th of 100 waits 1.75 to 2.85 ms" in told
    assert "the longest waits 5.25 to 8.55 ms for 3 faults" in told


def test_its_counters_are_those_of_rdma_statistic():
    found = paged(
        table([(0, 4 * PAGE), (2 * PAGE, 4 * PAGE)]), prefetch="none,sync", fault_bytes="request"
    )

    without, advised = (one["rdma_statistic"] for one in found["on_demand"])
    assert without["page_faults"] == 4 + 2  # of the second request the last two are absent
    assert without["page_faults_handled"] == 2
    assert (advised["page_prefetch"], advised["page_faults"]) == (8, 0)


def test_the_answer_says_that_what_does_not_fit_cannot_be_pinned():
    ring = [(PAGE * (place % 8), 64) for place in range(80)]

    told = " ".join(ns.rdma.odp(table(ring), prefetch="none", resident="16KiB").summary())

    assert "32 KiB would be pinned, more than may be resident: it would fail" in told


def test_a_fault_brings_no_less_than_a_page_unless_it_is_told_to():
    found = ns.rdma.odp("bundled:rsync_transfer", prefetch="none", page_size="2MiB").as_json()
    assert [one["fault_bytes"] for one in found["on_demand"]] == [None]
    found = ns.rdma.odp("bundled:rsync_transfer", prefetch="none", page_size="64KiB").as_json()
    assert [one["fault_bytes"] for one in found["on_demand"]] == [1 << 16, None]
