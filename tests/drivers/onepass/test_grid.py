import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookups import chunks, cuts, lookups

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import NO_NUMBER, SetAssociativeGrid, empty_sets, look_up
from nicscope.kernel.decorators import kernel
from oracle.onepass import fully_associative_misses, misses_by_kind
from oracle.replay import replay


def expected(columns, levels, ways):
    """Kinds of misses by the oracle, shape (levels, ways, 3)."""
    numbers, index = (column.tolist() for column in columns)
    return np.array(
        [
            [misses_by_kind(numbers, index, 1 << level, way) for way in range(1, ways + 1)]
            for level in levels
        ]
    )


@given(columns=lookups(), where=cuts(), ways=st.sampled_from((1, 3, 8, 9, 16)))
def test_every_shape_misses_what_a_single_cache_does_for_the_same_reasons(columns, where, ways):
    grid = SetAssociativeGrid(5, ways)
    for numbers, index in chunks(columns, where):
        grid.feed(numbers, index)

    counts = grid.result()

    want = expected(columns, range(6), ways)
    footprint = counts.kinds.fully_associative.compulsory
    assert counts.set_bits.tolist() == [0, 1, 2, 3, 4, 5]
    assert counts.misses.tolist() == want.sum(axis=2).tolist()
    assert (want[:, :, 0] == footprint).all()
    assert counts.kinds.capacity.tolist() == want[:, :, 1].tolist()
    assert counts.kinds.conflict.tolist() == want[:, :, 2].tolist()


@given(columns=lookups(), where=cuts(), ways=st.sampled_from((1, 3, 8)), data=st.data())
def test_what_is_skipped_fills_the_caches_and_is_not_counted(columns, where, ways, data):
    numbers, index = (column.tolist() for column in columns)
    skip = data.draw(st.integers(0, len(numbers)))
    grid = SetAssociativeGrid(4, ways)
    grid.feed(*(column[:skip] for column in columns))
    grid.skip()
    for later in chunks(tuple(column[skip:] for column in columns), where):
        grid.feed(*later)

    counts = grid.result()

    want = [
        [misses_by_kind(numbers, index, 1 << level, way, skip) for way in range(1, ways + 1)]
        for level in range(5)
    ]
    kinds = counts.kinds
    assert counts.lookups == len(numbers) - skip
    found = np.stack([kinds.capacity, kinds.conflict], axis=2).tolist()
    assert found == [[list(each[1:]) for each in row] for row in want]
    assert {each[0] for row in want for each in row} == {kinds.fully_associative.compulsory}
    assert counts.misses.tolist() == [[sum(each) for each in row] for row in want]
    full = kinds.fully_associative
    assert full.footprint == len(set(numbers))
    for capacity in range(1, full.footprint + 2):
        assert full.misses_at(capacity) == fully_associative_misses(numbers, capacity, skip)


def test_sets_that_nothing_is_looked_up_in_take_no_memory():
    before = resident_bytes()

    grid = SetAssociativeGrid(26, 8)
    for step in (1, 7):
        numbers = np.arange(0, 3000 * step, step, dtype=np.uint32)
        grid.feed(numbers, numbers + np.uint32(60_000_000))

    assert grid.result().misses[26].tolist() == [6000 - len(range(0, 3000, 7))] * 8
    assert resident_bytes() - before < 64 << 20


def resident_bytes():
    """What this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@given(columns=lookups(), low=st.integers(0, 4), ways=st.integers(1, 16))
def test_leaving_out_kinds_and_coarse_sets_changes_no_misses(columns, low, ways):
    some = SetAssociativeGrid(4, ways, split=False, min_set_bits=low).feed(*columns).result()
    every = SetAssociativeGrid(4, ways).feed(*columns).result()

    assert some.kinds is None
    assert some.lookups == every.lookups
    assert some.misses.tolist() == every.misses[low:].tolist()


@given(
    rows=st.lists(st.tuples(st.sampled_from((3, 9)), st.integers(0, 60)), min_size=1, max_size=60),
    entries=st.sampled_from((1, 4, 16, 32)),
    ways=st.sampled_from((1, 2, 4, 8)),
    offset=st.integers(0, 40),
)
def test_the_kinds_are_those_that_replay_counts(rows, entries, ways, offset):
    ways = min(ways, entries)
    trace = [(0, 0, pid, "send", page * 4096, 1) for pid, page in rows]
    design = {"scheme": "utlb", "entries": entries, "ways": ways, "prefetch": 1}
    total = replay(trace, design, offset=lambda ordinal, _: ordinal * offset)["total"]
    pids = list(dict.fromkeys(pid for pid, _ in rows))
    numbers = [pids.index(pid) * 64 + page for pid, page in rows]
    index = [page + pids.index(pid) * offset for pid, page in rows]

    grid = SetAssociativeGrid(5, ways).feed(np.array(numbers, np.uint32), np.array(index))
    counts = grid.result()

    level = (entries // ways).bit_length() - 1
    kinds = counts.kinds
    assert counts.misses[level, -1] == total["ni_misses"]
    assert kinds.fully_associative.compulsory == total["ni_misses_compulsory"]
    assert kinds.capacity[level, -1] == total["ni_misses_capacity"]
    assert kinds.conflict[level, -1] == total["ni_misses_conflict"]


@given(columns=lookups())
def test_one_set_misses_what_a_fully_associative_cache_does(columns):
    numbers, _ = columns

    counts = SetAssociativeGrid(0, 16).feed(*columns).result()

    want = [fully_associative_misses(numbers.tolist(), ways) for ways in range(1, 17)]
    assert counts.misses[0].tolist() == want
    assert counts.kinds.conflict.tolist() == [[0] * 16]


@pytest.mark.compiled
def test_chunks_larger_than_a_piece_and_a_full_time_line_change_nothing():
    rng = np.random.default_rng(5)
    numbers = (rng.zipf(1.2, 150_000) % 30_000).astype(np.uint32)
    index = (numbers.astype(np.uint32) * 3) ^ 77

    whole = SetAssociativeGrid(16, 4).feed(numbers, index).result()
    pieces = SetAssociativeGrid(16, 4)
    for chunk in chunks((numbers, index), rng.random(40)):
        pieces.feed(*chunk)
    pieces = pieces.result()

    assert np.array_equal(whole.misses, pieces.misses)
    assert np.array_equal(whole.kinds.capacity, pieces.kinds.capacity)
    curve = LruCurve().feed(numbers).result()
    assert np.array_equal(whole.kinds.fully_associative.misses, curve.misses)
    for level, way in ((0, 1), (7, 2), (12, 4), (16, 1)):
        want = misses_by_kind(numbers.tolist(), index.tolist(), 1 << level, way)
        kinds = curve.compulsory, whole.kinds.capacity[level, way - 1]
        assert (*kinds, whole.kinds.conflict[level, way - 1]) == want


@given(keys=st.lists(st.integers(1, 20), max_size=40), width=st.sampled_from((8, 16)))
def test_the_vector_look_up_does_what_the_plain_one_does(keys, width):
    plain, vector = empty_sets(2, width), empty_sets(2, width)
    lanes = (0,) * width
    for key in keys:
        first = np.uint64((key & 1) * width)
        depth = look_up(plain, first, np.uint32(key), lanes)

        assert one_look_up(vector, first, np.uint32(key), lanes) == depth
        assert vector.tolist() == plain.tolist()


@kernel
def one_look_up(sets, first, key, lanes):
    return look_up(sets, first, key, lanes)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="set bits must ascend from 0 to 26, got 0 and 27"):
        SetAssociativeGrid(27)
    with pytest.raises(ValueError, match="set bits must ascend from 0 to 26, got 4 and 3"):
        SetAssociativeGrid(3, min_set_bits=4)
    with pytest.raises(ValueError, match="ways must be from 1 to 16, got 17"):
        SetAssociativeGrid(3, 17)
    with pytest.raises(ValueError, match="index must be as long as numbers, 2, got 1"):
        SetAssociativeGrid(3).feed(np.zeros(2, np.uint32), np.zeros(1, np.uint32))
    with pytest.raises(ValueError, match="numbers must be below"):
        SetAssociativeGrid(3).feed(np.array([NO_NUMBER]), np.zeros(1, np.uint32))
