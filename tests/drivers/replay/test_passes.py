"""Replay in passes: what a piece ends up as, however it is cut, and what its kernels are handed."""

import inspect
import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_against_oracle import columns_of, design_of, pieces

from nicscope.config.design import Scheme
from nicscope.drivers.replay import columns as partition
from nicscope.drivers.replay import page_numbering, replay
from nicscope.drivers.replay.columns import Stream
from nicscope.drivers.replay.page_numbering import LookupArrays, PageNumberer
from nicscope.drivers.replay.schemes import passes_of
from nicscope.memory.numbering import find, new_numbering
from oracle.strategies import cases

DESIGNS = [
    {"scheme": "pinned", "area_bytes": 8192},
    {"scheme": "static", "entries": 64},
    {"scheme": "interrupt", "entries": 16, "ways": 4},
    {"scheme": "interrupt", "entries": 16, "ways": 2, "pin_limit": 9},
    {"scheme": "unet-mm", "entries": 16, "victim_entries": 3},
    {"scheme": "utlb", "entries": 16},
    {"scheme": "utlb", "entries": 32, "ways": 32},
    {"scheme": "utlb", "entries": 16, "prefetch": 3, "prepin": 4},
    {"scheme": "utlb-shared", "entries": 16, "ways": 2},
    {"scheme": "utlb-shared", "entries": 16, "pin_limit": 9},
    {"scheme": "utlb-process", "entries": 8},
    {"scheme": "handle", "entries": 64, "line": 4, "ways": 2, "high_water": 90},
]


@pytest.mark.parametrize("flat", DESIGNS, ids=lambda flat: flat["scheme"])
def test_a_pass_is_handed_one_state_and_numbers_and_gives_back_nothing_or_a_number(flat):
    for each in passes_of(design_of(flat)):
        plain = getattr(each, "py_func", each)
        assert len(inspect.signature(plain).parameters) == 4
        assert "return (" not in inspect.getsource(plain)


@pytest.mark.parametrize("scheme", [scheme.value for scheme in Scheme])
@given(data=st.data())
def test_counts_depend_neither_on_the_length_of_a_pass_nor_on_when_arrays_grow(scheme, data):
    rows, flat = data.draw(cases([scheme], policies=["lru", "random"]))
    columns, design = columns_of(rows), design_of(flat)
    whole = replay([columns], [design])
    cuts = data.draw(st.lists(st.integers(0, 50), max_size=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "ROWS", data.draw(st.integers(1, 8)))
        patch.setattr(partition, "UNITS", data.draw(st.integers(8, 20)))
        # Numbers, and all that is kept by number, grow again and again.
        patch.setattr(page_numbering, "new_numbering", lambda: new_numbering(1))
        assert replay(pieces(columns, cuts), [design]) == whole


@pytest.mark.parametrize("ways", [2, 16, 32])
@given(data=st.data())
def test_a_cache_that_is_its_own_shadow_has_the_kinds_of_misses_that_a_shadow_tells(ways, data):
    # The second has a limit that it never reaches: it takes turns, and has a shadow.
    rows, flat = data.draw(cases(["utlb"]))
    flat = {"scheme": "utlb", "entries": ways, "ways": ways, "page_size": flat.get("page_size")}
    found, shadowed = replay(
        [columns_of(rows)],
        [design_of(flat), design_of({**flat, "pin_limit": 10**6})],
    )
    assert found.total["ni_misses_conflict"] == 0
    assert found.total == shadowed.total


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.one_of(st.integers(0, 100), st.integers(2**52 - 40, 2**52 - 21)),
        st.integers(1, 20),
    ),
    min_size=1,
    max_size=40,
)


@given(
    requests=REQUESTS, unit_bits=st.sampled_from((0, 0, 2)), reach=st.sampled_from((0, 0, 5, 40))
)
def test_every_unit_of_a_request_has_the_number_under_which_it_is_found(requests, unit_bits, reach):
    process, first, pages = (np.array(column) for column in zip(*requests, strict=True))
    zeros = np.zeros(len(first), np.uint8)
    stream = Stream(
        process.astype(np.int32), first, pages.astype(np.int32), zeros, zeros.astype(np.uint32)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "UNITS", 32)
        lookup_arrays, namer = LookupArrays(stream), PageNumberer(unit_bits, reach, step=7)
        patch.setattr(namer, "numbering", new_numbering(1))
        seen = 0
        for named in namer.named(lookup_arrays, 0, len(first)):
            at = 0
            for row in range(named.begin, named.end):
                last = int(first[row] + pages[row] - 1) >> unit_bits
                for unit in range(int(first[row]) >> unit_bits, last + 1):
                    number = int(lookup_arrays.lookups.number[at])
                    assert number == find(namer.numbering, int(process[row]), unit)
                    assert lookup_arrays.lookups.set_index[at] == unit & 0xFFFFFFFF
                    spread = (unit + 7 * int(process[row])) & 0xFFFFFFFF
                    assert lookup_arrays.lookups.spread_index[at] == spread
                    at += 1
                for unit in range(last + 1, last + 1 + reach):
                    assert find(namer.numbering, int(process[row]), unit) >= 0
            assert at == named.lookups
            seen += named.end - named.begin
        assert seen == len(first)


@given(
    pieces=st.lists(
        st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(1, 2)),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=6,
    )
)
@example(pieces=[[(0, 5, 1), (0, 5, 1)], [(0, 6, 1)], [(0, 5, 1), (0, 5, 1)]])
def test_joining_leaves_out_no_unit_but_those_that_were_looked_up_last(pieces):
    # Pieces in which most requests share a unit are joined, and the others between them are not.
    requests = [request for piece in pieces for request in piece]
    process, first, pages = (np.array(column) for column in zip(*requests, strict=True))
    zeros = np.zeros(len(first), np.uint8)
    stream = Stream(
        process.astype(np.int32), first, pages.astype(np.int32), zeros, zeros.astype(np.uint32)
    )
    every = [(p, u) for p, first, pages in requests for u in range(first, first + pages)]
    lookup_arrays, namer, laid, repeats, begin = (
        LookupArrays(stream),
        PageNumberer(0, joins=True),
        [],
        0,
        0,
    )
    for piece in pieces:
        for named in namer.named(lookup_arrays, begin, begin + len(piece)):
            laid += lookup_arrays.lookups.number[: named.lookups].tolist()
            repeats += named.repeats
        begin += len(piece)

    numbers = [find(namer.numbering, *each) for each in every]
    assert [key for key, _ in itertools.groupby(laid)] == [k for k, _ in itertools.groupby(numbers)]
    assert len(laid) + repeats == len(every)
