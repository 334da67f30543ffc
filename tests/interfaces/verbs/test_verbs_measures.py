"""Perftest's questions of the device: what the numbers are, and that they add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.studies.latency import Part
from nicscope.studies.verbs_measures import ask, both_ends, percentile, shortest

DESIGNS = ["utlb", "vmmc-interrupt"]
ACKNOWLEDGED_NS = 3984  # that a packet of 128 bytes keeps a link of theirs: its start, bytes, hop
RISING = st.lists(st.integers(0, 50), min_size=1, max_size=20)


def slow_shortest(posted, ended):
    """Perftest's: each post with each completion that is not before its own."""
    return min(
        (ended[last] - posted[first]) / (last - first + 1)
        for first in range(len(posted))
        for last in range(first, len(posted))
    )


@given(RISING, st.integers(1, 9))
def test_the_peak_is_the_best_between_any_post_and_any_later_completion(steps, later):
    posted = [sum(steps[: number + 1]) for number in range(len(steps))]
    ended = [at + later * (number + 1) for number, at in enumerate(posted)]
    assert shortest(posted, ended) == pytest.approx(slow_shortest(posted, ended))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=300), st.sampled_from([0.99, 0.999]))
def test_a_percentile_is_the_least_that_so_many_are_at_most(times, share):
    found = percentile(np.sort(times), share)
    assert sum(one <= found for one in times) >= share * len(times)
    assert sum(one < found for one in times) < share * len(times)


@pytest.mark.parametrize("op", ["send", "write", "read"])
def test_latencies_are_the_sums_of_their_parts(op):
    found = ns.verbs_latency(op=op, size="64,5000", iters=4, design=DESIGNS).found
    assert [(one.design, one.payload_bytes) for one in found.rows] == [
        (design, size) for design in DESIGNS for size in (64, 5000)
    ]
    for one in found.rows:
        assert one.least <= one.typical <= one.p99 <= one.p99_9 == one.most
        assert one.taken_apart == one.iterations == 4
        assert sum(one.parts_ns.values()) == pytest.approx(one.average, abs=1e-3)
        # Somebody is at work on it, or it is on its way; but a read's request waits while the link
        # carries what acknowledges the answer before it.
        assert one.parts_ns["wait"] <= (ACKNOWLEDGED_NS if op == "read" else 1e-3)
        assert one.costs.lookups == 2 * 4 * (1 if one.payload_bytes == 64 else 2)
    two = ns.verbs_latency(op=op, size="64,5000", iters=2, design=DESIGNS).found
    for of_four, of_two in zip(found.rows, two.rows, strict=True):  # all but the first wait alike
        waited = 4 * of_four.parts_ns["wait"], 2 * of_two.parts_ns["wait"]
        assert waited[0] == pytest.approx(3 * waited[1], abs=1e-2)
    interrupt = found.rows[2]
    assert interrupt.costs.interrupts == interrupt.costs.ni_misses == 2
    assert interrupt.parts_ns["miss"] > found.rows[0].parts_ns["miss"]


def test_an_answer_takes_longer_than_a_message_and_a_word_no_longer_than_a_read():
    typical = {
        op: ns.verbs_latency(op=op, size=None if op == "atomic" else 64, iters=3, design="utlb")
        .found.rows[0]
        .typical
        for op in ("send", "write", "read", "atomic")
    }
    assert typical["send"] < typical["atomic"] <= typical["read"]
    assert typical["send"] < typical["write"] <= typical["read"]


def test_bandwidth_is_bytes_by_virtual_time_and_grows_with_what_is_outstanding():
    alone, many = (
        ns.verbs_bandwidth(size=64, iters=12, tx_depth=depth, design="utlb").found.rows[0]
        for depth in (1, 6)
    )
    assert many.average_mib_s > 1.2 * alone.average_mib_s
    for one in (alone, many):
        assert one.average_mib_s == pytest.approx(one.rate_mpps * 1e6 * 64 / 2**20)
        assert one.peak_mib_s >= one.average_mib_s * (1 - 1e-9)
        assert one.costs.lookups == 24
        assert all(0 < one.costs.busy_percent(who) <= 100.001 for who in one.costs.busy_ns)
    assert many.costs.busy_percent("nic") > alone.costs.busy_percent("nic")


def test_every_queue_pair_sends_its_share_through_pages_of_its_own():
    one = ns.verbs_bandwidth(op="send", size=64, qps=3, iters=5, tx_depth=2, design="utlb").found
    assert one.rows[0].iterations == 15
    assert one.rows[0].costs.lookups == 30
    assert one.rows[0].costs.ni_misses == 6


def test_the_same_question_has_the_same_answer():
    rows = [ns.verbs_latency(size=64, iters=3, design="utlb").found.rows[0] for _ in range(2)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(("size", "flag"), [(64, e.IBV_SEND_INLINE), (65, 0)])
def test_small_messages_go_with_their_requests(twin_world, size, flag):
    asked = ask(operation="write", sizes=str(size), iterations=2, inline=64)
    left, right = both_ends([twin_world, twin_world], asked, size)
    assert left.sends[0].send_flags & e.IBV_SEND_INLINE == flag
    left.mr.write(b"w" * size, size)
    left.post()
    left.ended(left.sent)
    assert right.mr.read(size, 0) == b"w" * size


def test_two_nodes_are_measured_and_each_translates_for_its_own_end():
    shown = ns.verbs_bandwidth(size=64, iters=2, design="utlb")
    assert "between two nodes" in " ".join(str(shown).split())
    assert shown.found.nodes == 2
    assert shown.found.rows[0].costs.ni_misses == 2
    assert shown.found.evidence["utlb-prototype"]["published"] > 0
    assert shown.table().column("payload_bytes").to_pylist() == [64]


@pytest.mark.parametrize("op", ["read", "atomic"])
def test_the_answer_alone_acknowledges_what_is_fetched(op):
    size = None if op == "atomic" else 64
    took = ns.verbs_latency(op=op, size=size, iters=4).found.rows[0]
    [message] = ns.verbs_latency(op="send", size=64, iters=4).found.rows
    # Either way the receiving NIC is at work once, and for nothing else.
    assert took.us(Part.RECEIVE) == pytest.approx(2 * message.us(Part.RECEIVE), rel=0.01)


def test_left_out_the_design_is_an_rdma_nic_of_today_whose_write_takes_microseconds():
    [one] = ns.verbs_latency(op="write", size=64, iters=6).found.rows
    assert (one.design, one.platform, one.costs.interrupts) == ("rnic", "connectx", 0)
    assert one.typical < 3000  # ns: no acknowledgement is held back
