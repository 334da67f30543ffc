"""Numbers of pages: given once, in blocks of neighbours, and found again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.memory.numbering import (
    BLOCK,
    NONE,
    capacity,
    find,
    grown,
    new_numbering,
    number,
    place_in,
    probe,
    process_of,
    regions_of,
    unit_of,
)

LAST = 2**52 - 1  # the last page of the address space with pages of 4 KB
UNITS = st.one_of(
    st.integers(0, 3 * BLOCK),
    st.integers(LAST - 2 * BLOCK, LAST),
    st.integers(0, LAST),
    st.integers(0, 2**20).map(lambda i: i << 32),  # equal low halves
)
PAIRS = st.lists(st.tuples(st.integers(0, 300), UNITS), max_size=60)


@given(pairs=PAIRS)
def test_a_page_keeps_its_number_while_others_come_and_the_table_grows(pairs):
    numbering = new_numbering(1)
    given_numbers = {}
    for process, unit in pairs:
        name = number(numbering, process, unit)
        while name == NONE:
            numbering = grown(numbering, 2 * len(numbering.owners))
            name = number(numbering, process, unit)
        assert given_numbers.setdefault((process, unit), name) == name
    assert len(set(given_numbers.values())) == len(given_numbers)
    for (process, unit), name in given_numbers.items():
        assert find(numbering, process, unit) == name < capacity(numbering)
        assert (process_of(numbering, name), unit_of(numbering, name)) == (process, unit)


@given(pairs=st.lists(st.tuples(st.integers(0, 3), UNITS), min_size=1, max_size=20))
def test_a_probe_finds_what_is_there_and_nothing_else(pairs):
    numbering = new_numbering(32)
    process, unit = pairs[0]
    assert not probe(numbering, place_in(numbering, process, unit), process, unit)[1]
    name = number(numbering, process, unit)  # the first is where it is looked for first
    assert probe(numbering, place_in(numbering, process, unit), process, unit) == (name, True)
    for pair in pairs:
        number(numbering, *pair)

    slots = len(numbering.slots)
    for process, unit in pairs:
        for near in ((process, unit), (process + 1, unit), (process, unit ^ BLOCK)):
            found = [probe(numbering, place, *near) for place in range(slots)]
            known = find(numbering, *near)
            assert [name for name, here in found if here] == ([] if known == NONE else [known])


@given(process=st.integers(0, 300), unit=UNITS)
def test_neighbours_of_a_block_have_neighbouring_numbers(process, unit):
    numbering = new_numbering(2)
    name = number(numbering, process, unit)
    first = unit - unit % BLOCK
    for place in range(BLOCK):
        assert find(numbering, process, first + place) == name - unit % BLOCK + place
    assert find(numbering, process + 1, unit) == NONE


def test_a_full_numbering_refuses_new_blocks_and_knows_the_old_ones():
    numbering = new_numbering(2)
    names = [number(numbering, 0, unit) for unit in (0, 5 * BLOCK)]
    assert number(numbering, 0, 9 * BLOCK) == NONE
    assert number(numbering, 1, 0) == NONE
    assert [number(numbering, 0, unit) for unit in (0, 5 * BLOCK)] == names
    assert find(numbering, 0, 9 * BLOCK) == NONE


@pytest.mark.requirement("UT-31")
def test_second_level_tables_are_counted_per_process():
    numbering = new_numbering(16)
    pairs = ((0, 0), (0, 1023), (0, 1024), (3, 1), (3, 2**40))
    names = [number(numbering, process, unit) for process, unit in pairs]
    chosen = np.zeros(capacity(numbering), bool)
    assert regions_of(numbering, 1024, chosen) == 0
    chosen[names[:-1]] = True
    assert regions_of(numbering, 1024, chosen) == 3
    chosen[names[-1]] = True
    assert regions_of(numbering, 1024, chosen) == 4


@pytest.mark.parametrize("blocks", [3, 4, 100])
def test_growing_makes_room_for_as_many_blocks_as_were_asked_for(blocks):
    assert capacity(grown(new_numbering(2), blocks)) >= blocks * BLOCK
