"""What is kept of very many pages: it grows without there being two of it, and stays what it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.onepass import curve, distance
from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.distance import FAN, NEVER, StackDistances
from nicscope.memory import numbering as numbers
from nicscope.memory.numbering import BLOCK, NONE, capacity, find, number, regions_of
from nicscope.memory_limit import outgrown
from suite import share

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**40)), max_size=30)


def lru_misses(keys, room):
    """What a fully associative cache with ``room`` entries misses."""
    cache, misses = [], 0
    for key in keys:
        misses += key not in cache
        cache = [*(other for other in cache if other != key), key][-room:] if room else []
    return misses


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.dtype([("a", "u4"), ("b", "u8")])])
@pytest.mark.parametrize("length", [0, 5, 3 << 20, (5 << 20) + 1])
def test_what_is_outgrown_has_moved_and_left_nothing_behind(kind, length):
    first = outgrown(np.zeros(0, kind), length)
    part = first if first.dtype.names is None else first["a"]
    part[:] = np.arange(length) % 251 + 1

    second = outgrown(first, length + (1 << 20))

    moved = second if second.dtype.names is None else second["a"]
    assert np.array_equal(moved[:length], np.arange(length) % 251 + 1)
    assert not moved[length:].any()
    assert len(second) == length + (1 << 20)
    assert outgrown(second, 7) is second
    if first.nbytes >= 1 << 20:
        assert not part.any()  # its memory is free
    second[-1:] = second[:1]  # and that of the second is its own


@share(1.2)
@given(pairs=PAIRS)
def test_outgrown_numbers_are_what_they_were(pairs):
    for least in (4, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbers, "MANY", least)
            table, known = numbers.new_numbering(1), {}
            for process, unit in pairs:
                while (name := number(table, process, unit)) == NONE:
                    before = capacity(table)
                    table = numbers.outgrown(table)
                    assert before < capacity(table) <= 2 * before
                    assert len(table.slots) * 5 >= len(table.owners) * 8
                assert known.setdefault((process, unit), name) == name
            for (process, unit), name in known.items():
                assert find(table, process, unit) == name


@share(1.2)
@given(pairs=PAIRS, chosen=st.lists(st.booleans(), min_size=80, max_size=80))
def test_regions_are_counted_once_however_many_blocks_are_looked_at_together(pairs, chosen):
    table = numbers.new_numbering(128)
    names = [number(table, *pair) for pair in pairs]
    is_chosen = np.zeros(capacity(table), np.bool_)
    for name, here in zip(names, chosen, strict=False):
        is_chosen[name] |= here
    for units in (1, 4, BLOCK, 64, 1 << 30):
        expected = {
            (process, unit // units)
            for (process, unit), name in zip(pairs, names, strict=True)
            if is_chosen[name]
        }
        for least in (3, 1 << 20):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(numbers, "MANY", least)
                assert regions_of(table, units, is_chosen) == len(expected)


@share(1.2)
@given(keys=st.lists(st.integers(0, 40), max_size=120), cut=st.integers(0, 120))
def test_curves_of_many_keys_are_those_of_few(keys, cut):
    column = np.array(keys, np.uint32)
    usual = LruCurve().feed(column).result()
    assert usual.misses.tolist() == [lru_misses(keys, room) for room in range(len(set(keys)) + 1)]
    for many, most in ((0, 2**32 - 1), (0, 10), (1 << 24, 10)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(curve, "MANY", many)
            patch.setattr(curve, "MOST", most)
            patch.setattr(curve, "PIECE", 7)
            one = LruCurve().feed(column[:cut]).feed(column[cut:])
            assert one.result().misses.tolist() == usual.misses.tolist()
            found = one.taken()
        assert found.misses.tolist() == usual.misses.tolist()
        assert found[:2] == usual[:2]
        narrow = many == 0 and len(keys) <= most
        assert found.misses.dtype == (np.uint32 if narrow else np.int64)
        assert found.misses_at([0, 3]).dtype == np.int64
        assert found.of_groups(3).misses.tolist() == (usual.misses << 3).tolist()


def test_a_time_line_of_many_keys_is_twice_as_long_as_they_are(monkeypatch):
    monkeypatch.setattr(distance, "MANY", 0)
    line = StackDistances(FAN**2)
    keys = 3 * FAN**2  # three lines full, of which none is looked up twice
    numbers_ = np.arange(keys, dtype=np.uint32)

    new = np.concatenate([part.copy() for part in line.pieces(numbers_)])
    again = np.concatenate([part.copy() for part in line.pieces(numbers_)])

    assert (new == NEVER).all()
    assert (again == keys - 1).all()
    assert len(line._line.slots) == FAN**3
