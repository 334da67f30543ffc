"""Single elements of shared arrays, wherever they lie."""

from __future__ import annotations

import numpy as np

from nicscope.apps.svm.layout import Layout
from nicscope.apps.svm.running import Placement, run_on_shared_memory


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
