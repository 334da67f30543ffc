"""Elements of shared arrays by number: their pages come in the order in which they are named."""

from __future__ import annotations

import numpy as np
import pytest

from nicscope.apps.svm.layout import Layout
from nicscope.apps.svm.records import READ, SHARED_BASE
from nicscope.apps.svm.running import Placement, run_on_shared_memory

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
