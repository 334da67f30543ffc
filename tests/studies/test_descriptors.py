"""``nicscope rdma descriptors``: what transfer libraries make of a trace, and what binds it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_tables import table

import nicscope as ns
from nicscope.config.costs import load_nic_costs
from nicscope.studies.rates import BOUNDS, Moved, Through, bounds_of
from nicscope.traces.descriptor_counts import RULES, DescriptorCounts, Rule
from nicscope.traces.schema import Requests
from oracle.descriptor_counts import descriptors

KIB = 1024


def pages(count, size=16 * KIB, gap=0):
    return table([(0x100000 + place * (size + gap), size) for place in range(count)])


def test_engines_differ_by_what_adjoins_and_by_what_is_long():
    report = ns.rdma.descriptors(pages(64)).as_json()["transfers"]

    assert [one["engine"] for one in report] == ["nixl", "mooncake", "joined"]
    assert [one["descriptors"] for one in report] == [64, 64, 1]
    long = ns.rdma.descriptors(pages(2, 1 << 20, gap=1)).as_json()["transfers"]
    assert [one["descriptors"] for one in long] == [2, 32, 2]
    assert {one["byte_count"] for one in long} == {2 << 20}


def test_each_bound_is_counts_times_costs():
    nic = load_nic_costs("connectx-7")
    moved = Moved(1000, 16_384_000, 4_000, 64_000, 8_192_000)

    bounds = bounds_of(moved, Through("nixl", 4, 2, 3), nic)

    assert tuple(bounds) == BOUNDS
    for end in (0, 1):
        assert bounds["posting"][end] == pytest.approx(250 * nic.cost("post_nixl", end) * 1e-9)
        assert bounds["work requests"][end] == pytest.approx(500 * nic.cost("fetch", end) * 1e-9)
        headers = 64_000 * nic.count("pcie_header", end)
        assert bounds["PCIe"][end] == pytest.approx((16_384_000 + headers) / 63e9 / 2)
        assert bounds["link"][end] == pytest.approx((16_384_000 + 4_000 * 82) / 50e9 / 2)
        rounds = 8_192_000 / (16 * 4_096) / (2 * 3)
        assert bounds["read window"][end] == pytest.approx(rounds * nic.cost("answer", end) * 1e-9)


def test_small_descriptors_are_bound_by_posting_and_large_ones_by_the_link():
    small = ns.rdma.descriptors(pages(1_000, gap=64), engine="nixl")
    large = ns.rdma.descriptors(pages(20, 4 << 20, gap=64), engine="nixl")

    assert small.found.found[0].bound_by(1) == "posting"
    told = " ".join(small.summary())
    assert "NIXL makes 1,000 descriptors of 16 KiB" in told
    assert "the bottleneck is posting them. Posting is no bottleneck " in told
    assert large.found.found[0].bound_by(1) == "link"
    assert "the bottleneck is the link." in " ".join(large.summary())


def test_one_queue_pair_of_reads_is_bound_by_its_window_and_writes_are_not():
    def bound(op, qps):
        trace = table([(1 << 30 | place << 22, 1 << 22) for place in range(4)], op=op)
        return ns.rdma.descriptors(trace, engine="joined", qps=qps).found.found[0].bound_by(1)

    assert bound("read", 1) == "read window"
    assert bound("read", 2) == bound("write", 1) == "link"


def test_threads_that_are_said_to_be_enough_are():
    one = ns.rdma.descriptors(pages(1_000, gap=64), engine="nixl").found.found[0]

    needed = one.threads_needed(1)
    more = ns.rdma.descriptors(pages(1_000, gap=64), engine="nixl", threads=needed).found.found[0]
    fewer = ns.rdma.descriptors(
        pages(1_000, gap=64), engine="nixl", threads=needed - 1
    ).found.found[0]

    assert more.bound_by(1) != "posting"
    assert fewer.bound_by(1) == "posting"


def test_what_is_not_known_of_a_nic_is_left_out_and_said():
    report = ns.rdma.descriptors(pages(8), nic="efa-p5en", engine="mooncake")

    assert [*report.found.found[0].bounds] == ["posting", "link"]
    assert "Not known of this NIC, and left out: NIC, work requests, PCIe" in " ".join(
        str(report).split()
    )


KIND = {"node": np.int32, "pid": np.int32, "receive": np.uint8, "op": np.uint8}


def batch(rows):
    count = len(rows)
    columns = {name: np.zeros(count, kind) for name, kind in KIND.items()}
    columns["pid"][:] = [who for who, _, _ in rows]
    return Requests(
        time_ns=np.zeros(count, np.int64),
        **columns,
        address=np.array([address for _, address, _ in rows], np.uint64),
        length=np.array([length for _, _, length in rows], np.uint32),
    )


def counted(rows, rule, pieces=1):
    counts = DescriptorCounts(rule, 7, 3)
    for part in np.array_split(np.arange(len(rows)), pieces):
        if len(part):
            counts.feed(batch([rows[place] for place in part]))
    counts.end()
    return counts


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 25)), max_size=40)


@given(ROWS, st.booleans(), st.sampled_from((None, 1, 4, 8, 13)), st.integers(1, 5))
def test_it_counts_what_a_plain_list_has(rows, joins, size, pieces):
    rule = Rule(joins, size, 16)

    counts = counted(rows, rule, pieces)

    sizes = descriptors(rows, joins, size, 16)
    assert counts.descriptors == len(sizes)
    assert counts.byte_count == sum(sizes)
    assert counts.packets == sum(-(-one // 7) for one in sizes)
    assert counts.pcie_packets == sum(-(-one // 3) for one in sizes)
    assert (counts.smallest, counts.largest) == (min(sizes, default=0), max(sizes, default=0))
    assert counts.by_size.tolist()[:6] == [
        sum(1 << power <= one < 2 << power for one in sizes) for power in range(6)
    ]


@pytest.mark.parametrize(
    ("length", "many"), [(1 << 16, 1), ((1 << 16) + (1 << 14), 1), ((1 << 16) + (1 << 14) + 1, 2)]
)
def test_mooncake_lets_the_last_slice_be_a_quarter_longer(length, many):
    assert counted([(0, 0, length)], RULES["mooncake"]).descriptors == many
    assert counted([(0, 0, length)], RULES["nixl"]).descriptors == 1
