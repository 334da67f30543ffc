"""Elements of shared arrays by number, in the order of their pages, and diffs of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.apps.svm.coherence import READ, SHARED_BASE
from nicscope.apps.svm.memory import RUN_HEAD, Layout, diff_of
from nicscope.apps.svm.process import Placement, in_order, run_on_shared_memory

ACROSS = np.dtype([("number", np.int64), ("filling", np.int64, 149)])  # 1,200 bytes


def fetched(run):
    """The pages that the second node has fetched, in order."""
    columns = run.records.columns()
    theirs = (columns["op"] == READ) & (columns["node"] == 1)
    return ((columns["address"][theirs] - SHARED_BASE) // 4096).tolist()


@pytest.mark.parametrize("way", ["read", "write", "scatter"])
def test_elements_bring_their_pages_in_their_order_each_once(way):
    layout = Layout()
    numbers = layout.array("numbers", 4096, np.int64)  # 512 in a page

    async def body(me):
        if me.number == 0:
            (await me.write(numbers))[:] = np.arange(4096)
        await me.barrier()
        which = np.array([3000, 10, 3001, 1500, 11])
        if me.number == 1 and way == "read":
            return (await me.read_elements(numbers, which))[which].tolist()
        if me.number == 1 and way == "write":
            (await me.write_elements(numbers, which))[which] = 7
        if me.number == 1 and way == "scatter":
            await me.scatter(numbers, which, np.full(5, 7))
        return None

    run = run_on_shared_memory(body, layout, Placement(2, 1))

    assert fetched(run) == [5, 0, 2]
    if way == "read":
        assert run.results[1] == [3000, 10, 3001, 1500, 11]
    else:
        assert np.flatnonzero(run.array(numbers) == 7).tolist() == [7, 10, 11, 1500, 3000, 3001]


def test_an_element_that_lies_in_two_pages_brings_both():
    layout = Layout()
    wide = layout.array("wide", 20, ACROSS)

    async def body(me):
        if me.number == 0:
            (await me.write(wide))["number"] = np.arange(20)
        await me.barrier()
        if me.number == 1:
            await me.read_elements(wide, np.array([3, 0]))

    run = run_on_shared_memory(body, layout, Placement(2, 1))

    assert fetched(run) == [0, 1]


def test_elements_to_read_are_not_written():
    layout = Layout()
    numbers = layout.array("numbers", 10, np.int64)

    async def body(me):
        with pytest.raises(ValueError, match="read-only"):
            (await me.read_elements(numbers, np.array([1])))[1] = 5

    run_on_shared_memory(body, layout, Placement(1, 1))


def test_elements_are_gathered_in_order_and_their_pages_fetched_in_it():
    layout = Layout()
    array = layout.array("numbers", 4 * 512)
    wanted = np.array([1030, 3, 1025, 1999, 7])

    async def program(me):
        if me.number == 0:
            (await me.write(array))[:] = np.arange(4 * 512.0)
        await me.barrier()
        found = await me.gather(array, wanted)
        await me.barrier()
        return found.tolist()

    run = run_on_shared_memory(program, layout, Placement(2, 1))

    assert run.results[1] == wanted.tolist()
    columns = run.records.columns()
    reads = columns["address"][(columns["node"] == 1) & (columns["op"] == 4)]
    assert [int(address) % (1 << 32) // 4096 for address in reads] == [2, 0, 3]


def test_rows_have_the_pages_that_they_touch_row_by_row():
    array = Layout().array("rows", (10, 300))  # of 2,400 bytes

    assert array.pages_of_each_row(np.array([4, 0, 1])).tolist() == [2, 0, 0, 1]
    assert array.pages_of_each_row(np.array([], np.int64)).tolist() == []


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1)))))
def test_pages_have_the_order_of_their_first_places(case):
    every, pages = case

    assert in_order(np.array(pages, np.int64), every) == list(dict.fromkeys(pages))


PAGE = 256


@given(st.sets(st.integers(0, PAGE // 4 - 1)), st.integers(0, 2**32 - 1))
def test_a_diff_makes_of_the_twin_the_copy_and_touches_no_other_word(words, value):
    twin = np.arange(PAGE, dtype=np.uint8)
    copy = twin.copy()
    for word in words:
        copy.view(np.uint32)[word] ^= np.uint32(value)
    others = np.full((3, PAGE), 9, np.uint8)
    expected = others.copy()

    diff = diff_of(1, copy, twin)

    changed = sorted(words) if value else []
    if not changed:
        assert diff is None
        return
    assert diff is not None
    assert diff.words.tolist() == changed
    runs = sum(1 for word in changed if word - 1 not in changed)
    assert diff.message_bytes == 4 * len(changed) + RUN_HEAD * runs
    assert diff.first_byte == 4 * changed[0]
    diff.apply(others)
    expected[1].view(np.uint32)[changed] = copy.view(np.uint32)[changed]
    assert (others == expected).all()
