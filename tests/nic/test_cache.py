"""The translation cache against a plain one, for every way in which sets are searched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.kernel.records import records
from nicscope.nic.cache import (
    MISS,
    REFUSED,
    drop,
    fill,
    find,
    frame_of,
    further_ways,
    hold,
    lookup,
    release,
    renew,
)
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS, new_cache
from nicscope.nic.linked import is_used
from nicscope.nic.translate.book import write_frame
from oracle.cache import PlainCache

COUNTS = np.dtype([("further_ways", "i8")])  # what a driver has besides does not matter here
# sets, ways, line: direct-mapped, searched way by way, and linked
SHAPES = [(8, 1, 1), (2, 1, 4), (4, 2, 1), (2, 4, 2), (1, 16, 1), (1, 32, 1), (2, 32, 2)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("use", "use", "use", "use", "drop", "find", "hold", "release")),
        st.integers(0, 10_000),
    ),
    max_size=80,
)


class Both:
    """The same cache twice; every step is taken by both and compared."""

    def __init__(self, sets, ways, line=1):
        self.plain = PlainCache(sets, ways)
        self.nic = new_cache(sets * ways * line, ways, line)
        self.line = line
        self.counts = records(1, COUNTS)

    def use(self, tag):
        row = self.plain.row_of(tag)
        expected = self.plain.further_ways(tag)
        assert further_ways(self.nic, row, tag) == expected
        before = int(self.counts[0]["further_ways"])
        entry = lookup(self.nic, row, tag, self.counts)
        assert self.counts[0]["further_ways"] - before == expected
        assert (entry != MISS) == self.plain.lookup(tag)
        if entry == MISS:
            before = self.contents()
            entry = fill(self.nic, row, tag)
            evicted = self.plain.fill(tag)
            if evicted is None:
                assert entry == REFUSED
                assert self.contents() == before
                return
            assert self.nic.registers[0]["evicted"] == evicted
            assert entry // self.plain.ways == row
            for page in range(self.line):
                self.nic.frames[entry * self.line + page] = tag * 8 + page
        assert [frame_of(self.nic, entry, page) for page in range(self.line)] == [
            tag * 8 + page for page in range(self.line)
        ]

    def drop(self, tag):
        if not self.plain.set_of(tag).get(tag):  # what a transfer uses is never dropped
            assert drop(self.nic, self.plain.row_of(tag), tag) == self.plain.drop(tag)

    def find(self, tag):
        entry = find(self.nic, self.plain.row_of(tag), tag)
        assert (entry != MISS) == (tag in self.plain.set_of(tag))
        return entry

    def hold(self, tag):
        entry = self.find(tag)
        if entry != MISS:
            hold(self.nic, entry)
            self.plain.set_of(tag)[tag] = True

    def release(self, tag):
        entry = self.find(tag)
        if entry != MISS:
            release(self.nic, entry)
            self.plain.set_of(tag)[tag] = False

    def contents(self):
        return sorted(int(tag) for tag in self.nic.tags if tag != EMPTY)


@pytest.mark.requirement("SH-6", "UT-24", "MI-37", "MI-41")
@pytest.mark.parametrize(("sets", "ways", "line"), SHAPES)
@given(full=st.booleans(), steps=STEPS)
def test_a_cache_does_what_lists_in_order_of_use_do(sets, ways, line, full, steps):
    both = Both(sets, ways, line)
    for tag in range(1, 1 + sets * ways if full else 1):
        both.use(tag)
    for step, number in steps:
        getattr(both, step)(1 + number % (2 * sets * ways))
    assert both.contents() == sorted(tag for tags in both.plain.sets for tag in tags)


@pytest.mark.requirement("MI-40")
@pytest.mark.parametrize("ways", [1, 4, 32])
def test_an_entry_of_a_line_is_32_bits_of_frame_while_transfers_use_it_and_after(ways):
    nic = new_cache(ways * 2, ways, 2)
    entry = np.int64(fill(nic, 0, 5))
    hold(nic, entry)
    for page, frame in enumerate((2**32 - 1, 2**31)):  # 16 TB in pages of 4 KB
        write_frame(nic, entry * 2 + page, frame)

    assert [frame_of(nic, entry, page) for page in (0, 1)] == [2**32 - 1, 2**31]
    assert is_used(nic, entry)
    release(nic, entry)
    assert [frame_of(nic, entry, page) for page in (0, 1)] == [2**32 - 1, 2**31]
    assert not is_used(nic, entry)


@pytest.mark.requirement("UM-45")
@pytest.mark.parametrize("ways", [1, 2, 16, 32])
def test_a_held_entry_outlives_any_pressure_and_leaves_in_its_turn_once_released(ways):
    both = Both(1, ways)
    both.use(1)
    both.hold(1)
    for tag in range(2, 4 * ways + 2):
        both.use(tag)
    assert both.find(1) != MISS
    both.release(1)
    both.use(1000)
    assert both.find(1) == MISS


@pytest.mark.requirement("UM-45")
@pytest.mark.parametrize("ways", [1, 2, 16, 32])
def test_a_set_whose_ways_are_all_held_refuses_and_evicts_nothing(ways):
    both = Both(1, ways)
    for tag in range(1, ways + 1):
        both.use(tag)
        both.hold(tag)
    assert fill(both.nic, 0, 1000) == REFUSED
    assert both.contents() == list(range(1, ways + 1))
    both.release(ways)  # the most recent, and the only one that may go
    both.use(1000)
    assert both.contents() == [*range(1, ways), 1000]


@pytest.mark.parametrize("ways", [2, 4, 16])
def test_tags_stand_in_order_of_use_and_every_place_is_taken_once(ways):
    nic = new_cache(4 * ways, ways)
    for tag in (1, 2, 3, 1, 4, 2, 5):
        if lookup(nic, 2, tag, records(1, COUNTS)) == MISS:
            fill(nic, 2, tag)
    drop(nic, 2, 4)
    recent = [5, 2, 1, 3][: ways - (ways == 4)] if ways > 2 else [5, 2]
    in_set = slice(2 * ways, 3 * ways)
    assert [tag for tag in nic.tags[in_set].tolist() if tag != EMPTY] == recent
    assert sorted(nic.places[in_set].tolist()) == list(range(ways))


@pytest.mark.parametrize("ways", [1, 2, 4, 8, 16, 32])
@given(steps=st.lists(st.integers(0, 80), max_size=120))
def test_to_renew_is_to_look_up_and_on_a_miss_to_fill(ways, steps):
    one, two = new_cache(2 * ways, ways), new_cache(2 * ways, ways)
    counts = records(1, COUNTS)
    for number in steps:
        row, tag = number % 2, number + 1
        before = int(counts[0]["further_ways"])
        missed = lookup(two, row, tag, counts) == MISS
        gone = EMPTY
        if missed:
            fill(two, row, tag)
            gone = int(two.registers[0]["evicted"])
        depth, evicted = renew(one, row, tag, ways)
        assert (depth == ways, evicted) == (missed, gone)
        if ways <= SEARCHED_WAYS:
            assert min(depth, ways - 1) == int(counts[0]["further_ways"]) - before
        for name in ("tags", "places", "links", "chains", "nexts", "left"):
            assert getattr(one, name).tolist() == getattr(two, name).tolist()


@pytest.mark.parametrize("ways", [1, 2, 4, 32])
def test_a_nic_whose_frames_nobody_reads_keeps_the_same_tags_in_the_same_order(ways):
    whole = new_cache(2 * ways, ways)
    bare = new_cache(2 * ways, ways)._replace(frames=None, places=None, uses=None)
    for number in (1, 2, 3, 1, 9, 4, 2, 7, 1, 80, 81, 82, 3):
        for nic in (whole, bare):
            if number == 4:
                drop(nic, 1, 2)
            if lookup(nic, number % 2, number, records(1, COUNTS)) == MISS:
                fill(nic, number % 2, number)
        assert bare.tags.tolist() == whole.tags.tolist()


@pytest.mark.parametrize(("sets", "ways", "line"), SHAPES)
@given(data=st.data())
def test_room_that_is_given_back_is_used_again_before_anything_is_evicted(sets, ways, line, data):
    both = Both(sets, ways, line)
    held = range(1, 1 + sets * ways)
    for tag in held:
        both.use(tag)
    given_back = data.draw(st.lists(st.sampled_from(held), unique=True))
    for tag in given_back:
        both.drop(tag)

    for tag in given_back:
        both.use(tag + 2 * sets * ways)  # of the same set
        assert both.nic.registers[0]["evicted"] == EMPTY

    newcomers = {tag + 2 * sets * ways for tag in given_back}
    assert set(both.contents()) == {*held, *newcomers} - {*given_back}
