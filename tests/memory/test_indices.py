"""Indices of translation tables against a heap of the free ones."""

from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.memory.indices import (
    free_index,
    grown_indices,
    hand_on_index,
    new_indices,
    take_index,
)
from nicscope.memory.numbering import grown, new_numbering, number, unit_of

PROCESSES = 3
STEPS = st.lists(st.tuples(st.integers(0, PROCESSES - 1), st.integers(0, 399)), max_size=120)


class Tables:
    """The tables of a few processes, each of up to 400 pages."""

    def __init__(self):
        self.numbering = new_numbering(128)
        self.indices = grown_indices(new_indices(), self.numbering, PROCESSES)

    def index_of(self, process, page):
        return unit_of(self.indices.keys, int(self.indices.key_of[self.name(process, page)]))

    def name(self, process, page):
        return number(self.numbering, process, page)

    def take(self, process, page):
        name = self.name(process, page)
        take_index(self.indices, process, name)
        assert self.indices.page_of[self.indices.key_of[name]] == name + 1
        return self.index_of(process, page)

    def give_back(self, process, page):
        key = free_index(self.indices, process, self.name(process, page))
        assert self.indices.page_of[key] == 0
        return unit_of(self.indices.keys, key)


@pytest.mark.requirement("UT-3")
@given(steps=STEPS, full=st.booleans())
def test_the_lowest_free_index_of_the_process_is_handed_out(steps, full):
    tables = Tables()
    held = [{} for _ in range(PROCESSES)]
    free = [[] for _ in range(PROCESSES)]
    steps = [(0, page) for page in range(40 if full else 0)] + steps
    for process, page in steps:
        mine = held[process]
        if page in mine:
            heappush(free[process], mine[page])
            assert tables.give_back(process, page) == mine.pop(page)
        else:
            mine[page] = heappop(free[process]) if free[process] else len(mine)
            assert tables.take(process, page) == mine[page]
    for process, mine in enumerate(held):
        assert {page: tables.index_of(process, page) for page in mine} == mine


@given(order=st.permutations(range(40)))
def test_indices_come_back_in_ascending_order_however_they_were_given_back(order):
    tables = Tables()
    for page in range(40):
        tables.take(0, page)
    for page in order:
        tables.give_back(0, page)
    assert [tables.take(0, 100 + page) for page in range(41)] == list(range(41))


def test_growth_keeps_the_indices_that_are_out_and_those_that_are_free():
    tables = Tables()
    for page in range(10):
        tables.take(1, page)
    for page in (7, 2, 5):
        tables.give_back(1, page)
    tables.numbering = grown(tables.numbering, 1024)
    tables.indices = grown_indices(tables.indices, tables.numbering, 2 * PROCESSES)
    assert tables.index_of(1, 9) == 9
    assert [tables.take(1, page) for page in (100, 101, 102, 103)] == [2, 5, 7, 10]
    assert tables.take(5, 0) == 0


@given(pages=st.lists(st.integers(0, 9), min_size=1, max_size=30), freed=st.integers(0, 3))
def test_an_index_is_handed_on_as_if_given_back_and_taken(pages, freed):
    handed, plain = Tables(), Tables()
    for tables in (handed, plain):
        for page in range(4):
            tables.take(1, page)
        if freed < 3:  # a lower index is free, or none is
            tables.give_back(1, freed)
    held = [page for page in range(4) if freed == 3 or page != freed]
    for page in pages:
        before = page if page in held else held.pop(0)
        key = int(handed.indices.key_of[handed.name(1, before)])
        assert hand_on_index(handed.indices, 1, handed.name(1, before), handed.name(1, page)) == key
        if page != before:
            plain.give_back(1, before)
            plain.take(1, page)
            held.append(page)
        assert [handed.index_of(1, each) for each in held] == [
            plain.index_of(1, each) for each in held
        ]
