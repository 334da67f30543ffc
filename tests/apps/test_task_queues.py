"""Tasks in queues of shared memory: each is done once, and by others if its process is busy."""

from itertools import chain

import numpy as np
import pytest

from nicscope.apps.splash.program import TaskQueues, shares
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, Process, run_on_shared_memory
from nicscope.errors import SimulationError
from refusals import refused


def run_of(given, placement, rounds=1, work=0):
    """What each process took, when the first process's tasks take long."""
    layout = Layout()
    queues = TaskQueues(layout, len(given), max(map(len, given)) or 1)

    async def body(me):
        taken = []
        for _ in range(rounds):
            await queues.fill(me, given[me.number])
            await me.barrier()
            while (task := await queues.take(me)) is not None:
                taken.append(task)
                await me.compute(work if me.number == 0 else 0)
            await me.barrier()
        return taken

    return run_on_shared_memory(body, layout, placement).results


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
def test_each_task_is_taken_once_a_round(private, rounds):
    given = [list(range(10)), [], [20, 21], [30]]

    taken = run_of(given, Placement(2, 2, private), rounds)

    assert sorted(np.concatenate(taken)) == sorted([*chain(*given)] * rounds)


def test_tasks_of_a_busy_process_are_stolen():
    taken = run_of([list(range(40)), [], []], Placement(3, 1), work=10**6)

    assert len(taken[0]) < 4
    assert len(taken[1]) > 10
    assert len(taken[2]) > 10


def test_a_process_takes_its_own_first():
    assert [each[0] for each in run_of([[1, 2], [3, 4]], Placement(2, 1))] == [1, 3]


def test_without_their_lock_a_task_is_taken_twice(monkeypatch):
    async def nothing(self, name):
        del self, name

    monkeypatch.setattr(Process, "acquire", nothing)
    monkeypatch.setattr(Process, "release", nothing)

    taken = run_of([list(range(10)), [], []], Placement(3, 1), work=10**5)

    assert len(np.concatenate(taken)) > 10


def test_more_tasks_than_a_queue_takes_are_refused():
    layout = Layout()
    queues = TaskQueues(layout, 1, 1)

    async def body(me):
        await queues.fill(me, [0] * 1023)

    with refused(SimulationError, "1023 tasks"):
        run_on_shared_memory(body, layout, Placement(1, 1))


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 6, 15, 16])
def test_shares_are_rectangles_that_have_every_tile_once(processes):
    parts = shares(8, 9, processes)

    assert len(parts) == processes
    assert sorted(chain(*parts)) == list(range(72))
    for part in parts:
        if part:
            rows, columns = np.divmod(part, 8)
            assert len(part) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
