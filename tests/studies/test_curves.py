"""Curves against single replays, cache by cache and count by count."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope import memory_limit
from nicscope.config.design import Design, Scheme
from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.replay import replay
from nicscope.drivers.replay.lookups import LookupStreams
from nicscope.errors import RoomError
from nicscope.studies.curves import Question, ask, curves_of, default_entries, knee, report
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from oracle.strategies import PAGE_SIZES, traces
from refusals import refused
from suite import share
from trace_columns import Columns, columns_of

pytestmark = pytest.mark.compiled  # thousands of lookups

SMALL = Question(ways=(1, 2, 4, 16), entries=(1, 32))
KINDS = ("ni_misses", "ni_misses_compulsory", "ni_misses_capacity", "ni_misses_conflict")


def halves(columns):
    middle = len(columns.node) // 2
    parts = (slice(0, middle), slice(middle, None))
    return [Columns(*(column[part] for column in columns)) for part in parts]


def those(columns, **wanted):
    """Rows whose columns have the values ``wanted``."""
    rows = np.ones(len(columns.node), bool)
    for name, value in wanted.items():
        rows &= getattr(columns, name) == value
    return Columns(*(column[rows] for column in columns))


def replayed(batches, shapes, page_size, offset=True, line=None):
    """The four counts of each shape (entries, ways), and the lookups.

    Only ``handle`` has lines; other than ``utlb`` it offsets no index.
    """
    if line is None:
        rest = {"scheme": Scheme.UTLB, "index_offset": offset, "prefetch": 1}
    else:
        rest = {"scheme": Scheme.HANDLE, "line": line}
    designs = [
        Design(name="d", title="d", entries=entries, ways=ways, **rest) for entries, ways in shapes
    ]
    results = replay(batches, designs, page_size=page_size)
    counts = [tuple(result.total[name] for name in KINDS) for result in results]
    return counts, results[0].total["lookups"]


def agrees(curve, batches, offset=True, line=None):
    """Assert that every point of ``curve`` is what a replay of it alone counts."""
    shapes = [(point.entries, point.ways) for point in curve.points]
    counts, lookups = replayed(batches, shapes, curve.page_size, offset, line)
    assert curve.lookups == lookups
    assert [point[2:] for point in curve.points] == counts
    assert curve.footprint == counts[0][1]


def shapes_of(curve):
    return [(point.entries, point.ways) for point in curve.points]


@given(data=st.data())
@share(0.5)
def test_every_point_is_what_a_replay_of_that_cache_alone_counts(data):
    page_size = data.draw(st.sampled_from(PAGE_SIZES))
    rows = columns_of(data.draw(traces(page_size)))
    offset = data.draw(st.booleans())

    [curve] = curves_of("t", lambda: halves(rows), SMALL._replace(offset=offset), page_size)

    powers = [1 << bits for bits in range(6)]
    assert shapes_of(curve) == [(e, w) for w in SMALL.ways for e in powers if e >= w]
    agrees(curve, [rows], offset)


@given(rows=traces())
@share(0.5)
def test_the_fully_associative_curve_is_a_replay_of_one_set(rows):
    rows = columns_of(rows)

    [curve] = curves_of("t", lambda: [rows], SMALL, 4096)

    sizes = [1, 2, 4, 8, 16]
    counts, _ = replayed([rows], [(size, size) for size in sizes], 4096)
    assert [curve.sizes.at(size) for size in sizes] == [count[0] for count in counts]
    last = len(curve.every_size) - 1
    assert [curve.every_size[min(size, last)] for size in sizes] == [c[0] for c in counts]
    assert curve.every_size[0] == curve.lookups
    assert curve.every_size[-1] == curve.footprint


@given(rows=traces(), data=st.data())
@share(0.5)
def test_what_is_skipped_fills_the_caches_and_is_not_counted(rows, data):
    rows = columns_of(rows)
    skip = data.draw(st.integers(0, len(rows.node) - 1))
    by = data.draw(st.sampled_from(("trace", "node")))
    question = SMALL._replace(skip=skip, by=by)

    found = curves_of("t", lambda: halves(rows), question, 4096)

    nodes = {None} if by == "trace" else {curve.node for curve in found}
    for node, curve in zip(sorted(nodes, key=str), found, strict=True):
        every = rows if node is None else those(rows, node=node)
        before = Columns(*(column[:skip] for column in rows))
        before = before if node is None else those(before, node=node)
        shapes = shapes_of(curve)
        whole, lookups = replayed([every], shapes, 4096)
        first, skipped = replayed([before], shapes, 4096) if len(before.node) else (None, 0)
        first = first or [(0, 0, 0, 0)] * len(shapes)
        assert curve.lookups == lookups - skipped
        assert [point[2:] for point in curve.points] == [
            tuple(a - b for a, b in zip(*pair, strict=True))
            for pair in zip(whole, first, strict=True)
        ]
        assert curve.compulsory == whole[0][1] - first[0][1]
        assert curve.footprint == whole[0][1]
        assert curve.skipped == skip


def test_a_sample_after_a_warm_up_brackets_the_exact_curve():
    rows = workload(40_000, 300_000)
    [exact] = curves_of("t", lambda: [rows], Question(skip=120_000), 4096)

    found = [
        curves_of("t", lambda: [rows], Question(skip=120_000, sample=0.1, seed=seed), 4096)[0]
        for seed in range(8)
    ]

    inside = []
    for one in found:
        assert (one.lookups, one.footprint) == (exact.lookups, exact.footprint)
        assert one.compulsory == exact.compulsory < exact.footprint
        low, high = one.sizes.low, one.sizes.high
        inside.append((low <= exact.sizes.misses + 1e-6) & (exact.sizes.misses - 1e-6 <= high))
        assert np.abs(one.sizes.misses - exact.sizes.misses).max() < 0.02 * exact.lookups
    assert np.mean(inside) > 0.9


def test_entries_reach_as_far_as_those_of_a_design():
    rows = workload(40_000, 60_000)
    question = Question(ways=(1, 4), entries=(1 << 10, 1 << 26))

    [curve] = curves_of("t", lambda: [rows], question, 4096)

    assert curve.points[-1].entries == 1 << 26
    some = [point for point in curve.points if point.entries in (1 << 10, 1 << 17, 1 << 26)]
    agrees(msgspec.structs.replace(curve, points=some), [rows])


@given(rows=traces(), by=st.sampled_from(["node", "process"]))
def test_each_node_or_process_has_the_curve_as_if_it_had_the_nic_alone(rows, by):
    rows = columns_of(rows)

    found = curves_of("t", lambda: halves(rows), SMALL._replace(by=by), 4096)

    named = ("node", "pid")[: 1 + (by == "process")]
    keys = sorted({*zip(*(getattr(rows, name).tolist() for name in named), strict=True)})
    assert [tuple(getattr(curve, name) for name in named) for curve in found] == keys
    assert {curve.nics for curve in found} == {1}
    for curve, key in zip(found, keys, strict=True):
        agrees(curve, [those(rows, **dict(zip(named, key, strict=True)))])


@given(rows=traces())
@share(2.5)
def test_lines_are_those_of_a_design_with_lines(rows):
    rows = columns_of(rows)
    question = Question(ways=(1, 4), lines=(2, 8), entries=(8, 64), offset=False)

    found = curves_of("t", lambda: [rows], question, 4096)

    assert [curve.line for curve in found] == [2, 8]
    assert shapes_of(found[1]) == [(8, 1), (16, 1), (32, 1), (64, 1), (32, 4), (64, 4)]
    for curve in found:
        agrees(curve, [rows], line=curve.line)


@pytest.mark.parametrize("by", ["trace", "process"])
def test_a_bundled_trace_has_the_misses_that_replays_count(by):
    rows = open_trace(bundled_traces()["redis_server"]).read()
    rows = Columns(rows.node, rows.pid, rows.receive, rows.address, rows.length)
    question = Question(ways=(1, 2, 4, 8), entries=(256, 65536), by=by)

    for curve in curves_of("redis", lambda: [rows], question, 4096):
        mine = rows if by == "trace" else those(rows, pid=curve.pid)
        assert len(curve.points) == 36
        agrees(curve, [mine])


def test_larger_pages_are_seen_if_asked_for():
    trace = open_trace(bundled_traces()["rsync_transfer"])

    [small, large] = [
        report([("t", trace)], Question(page_size=size)).curves[0] for size in (None, 1 << 21)
    ]

    assert (small.page_size, large.page_size) == (4096, 1 << 21)
    assert large.lookups < small.lookups
    assert large.footprint < small.footprint


def workload(pages, lookups, seed=1):
    """Requests of one page each, some pages more often than others."""
    rng = np.random.default_rng(seed)
    page = (rng.zipf(1.3, lookups) + rng.integers(0, pages, lookups)) % pages
    return Columns(
        (np.arange(lookups) % 2).astype(np.int32),
        np.full(lookups, 5, np.int32),
        np.zeros(lookups, np.uint8),
        (page * 4096).astype(np.uint64),
        np.ones(lookups, np.uint32),
    )


def test_a_sample_of_two_nics_brackets_the_exact_curve():
    rows = workload(40_000, 300_000)
    [exact] = curves_of("t", lambda: [rows], Question(), 4096)

    [sampled] = curves_of("t", lambda: [rows], Question(sample=0.1), 4096)

    assert (sampled.points, sampled.every_size, sampled.note) == ([], None, None)
    assert (sampled.lookups, sampled.footprint) == (exact.lookups, exact.footprint)
    assert sampled.sample.rate == 0.1
    assert 0 < sampled.sample.keys < exact.footprint / 5
    inside = (sampled.sizes.low <= exact.sizes.misses) & (exact.sizes.misses <= sampled.sizes.high)
    assert inside.mean() > 0.9
    assert np.abs(sampled.sizes.misses - exact.sizes.misses).max() < 0.02 * exact.lookups
    assert sampled.sizes.high.max() > sampled.sizes.low.min()


def test_a_sample_of_few_pages_is_refused_and_the_exact_curves_come_instead():
    rows = workload(500, 5_000)
    [exact] = curves_of("t", lambda: [rows], Question(), 4096)

    [found] = curves_of("t", lambda: [rows], Question(sample=0.5), 4096)

    assert found.note == "too few pages to sample at 0.5, so all were counted: exact"
    assert found.sample is None
    assert found.points == exact.points
    assert found.sizes.misses.tolist() == exact.sizes.misses.tolist()


def test_where_only_some_nics_have_few_pages_these_are_counted_and_the_others_sampled():
    large, small = workload(40_000, 100_000), workload(50, 400)
    rows = Columns(*(np.concatenate(pair) for pair in zip(large, small, strict=True)))
    rows.node[:] = np.repeat([0, 3], [100_000, 400])

    big, few = curves_of("t", lambda: [rows], Question(sample=0.1, by="node"), 4096)

    assert (big.node, few.node) == (0, 3)
    assert big.note == "too few pages to sample on 1 of 2 NICs, whose counts are exact"
    assert big.every_size is None
    assert big.sample is not None
    assert few.sample is None
    exact = LruCurve()
    for lookups in LookupStreams(4096, (1,), by_process=False, offset=True).feed(
        those(rows, node=3)
    ):
        exact.feed(lookups.numbers)
    assert few.every_size.tolist() == exact.result().misses.tolist()


def test_more_nics_than_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 6_000_000)
    rows = workload(10, 40)

    with refused(RoomError, "2 NICs"):
        curves_of("t", lambda: [rows], Question(), 4096)


def test_a_request_of_more_pages_than_are_numbered_at_once_is_counted():
    rows = Columns(
        np.zeros(2, np.int32),
        np.ones(2, np.int32),
        np.zeros(2, np.uint8),
        np.array([1 << 20, 1 << 20], np.uint64),
        np.array([70_000 * 512, 512], np.uint32),
    )
    streams = LookupStreams(512, (1, 64), by_process=False, offset=True)

    got = {1: [], 64: []}
    for lookups in streams.feed(rows):
        got[lookups.nic.line] += lookups.set_index.tolist()

    assert got[1] == [*range(2048, 72_048), 2048]
    assert got[64] == [*range(32, 1126), 32]


@pytest.mark.parametrize(
    ("misses", "turns"),
    [
        ([100, 80, 60, 10, 9, 8, 7, 6.0], 8),
        *(
            (bends_not, None)
            for bends_not in ([5.0] * 8, [8.0, 7, 6, 5, 4, 3, 2, 1], [9.0] * 7 + [1], [9.0], [])
        ),
    ],
)
def test_the_knee_is_where_the_curve_turns(misses, turns):
    assert knee(2 ** np.arange(len(misses)), np.array(misses)) == turns


@pytest.mark.parametrize(
    ("footprint", "entries"),
    [(5000, (256, 65536)), (70_000, (256, 1 << 17)), (10**9, (256, 1 << 26)),
     (4096, (128, 16384)), (300, (16, 2048)), (1, (1, 8))],
)  # fmt: skip
def test_the_entries_fit_the_footprint_unless_it_is_large(footprint, entries):
    assert default_entries(footprint) == entries


def test_lists_are_sorted_and_each_number_counts_once():
    question = ask(ways="8,1, 2,8", line="4,1", entries="64", by="node", page_size="2MiB")

    assert question == Question((1, 2, 8), (1, 4), (64, 64), "node", None, True, 1 << 21)
