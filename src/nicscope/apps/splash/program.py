"""A shared-memory program's interface, and per-process task queues with work stealing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.svm.memory import WORD, Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Process, Run


class SharedProgram(NamedTuple):
    """A program of a certain size for a certain number of processes."""

    name: str
    size: str  # in the words of its own, such as "4,096 points"
    layout: Layout
    set_up: Callable[[Callable[[SharedArray], NDArray[Any]]], None]
    body: Callable[[Process], Coroutine[Any, Any, object]]
    check: Callable[[Run], None]  # raises SimulationError if the result is wrong


def check_result(is_right: object, name: str, what: str) -> None:
    """Errors: ``SimulationError`` saying ``what`` of a program's result is wrong."""
    if not is_right:
        raise SimulationError(f"{name}: the result is wrong: {what}")


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that waits for nothing returns: a body's steps on memory of one's own."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")


NEXT, END, TASKS = 0, 1, 2  # words of a queue: the next task's place, where they end, the tasks


class TaskQueues:
    """Task queues, each under its own lock and in its own pages."""

    def __init__(self, layout: Layout, processes: int, most: int) -> None:
        """``most``: tasks of one process at once."""
        in_page = layout.page_bytes // WORD
        self._width = -(-(TASKS + most) // in_page) * in_page
        self._array = layout.array("queues", (processes, self._width), np.int32)

    async def fill(self, me: Process, tasks: Sequence[int]) -> None:
        """Put tasks into the process's own, empty queue; a barrier has to follow."""
        if TASKS + len(tasks) > self._width:
            raise SimulationError(f"{len(tasks)} tasks are more than a queue takes")
        first = me.number * self._width
        queue = await me.write(self._array, first, first + TASKS + len(tasks))
        queue[NEXT], queue[END] = TASKS, TASKS + len(tasks)
        queue[TASKS:] = tasks

    async def take(self, me: Process) -> int | None:
        """A task: the process's own, else the next process's that has one; None if nobody has."""
        for step in range(me.processes):
            task = await self._take_of(me, (me.number + step) % me.processes)
            if task is not None:
                return task
        return None

    async def _take_of(self, me: Process, process: int) -> int | None:
        first = process * self._width
        # Once empty it stays so: who sees that, however late, needs no lock.
        queue = await me.read(self._array, first, first + TASKS)
        if queue[NEXT] == queue[END]:
            return None
        task = None
        await me.acquire(("queue", process))
        queue = await me.write(self._array, first, first + TASKS)
        place, end = queue.tolist()
        if place < end:
            queue[NEXT] += 1
            task = int((await me.read(self._array, first + place, first + place + 1))[0])
        await me.release(("queue", process))
        return task


def shares(across: int, down: int, processes: int) -> list[list[int]]:
    """The tiles of a grid by process, in rectangles next to each other, row by row in each."""
    columns = max(each for each in range(1, processes + 1) if each * each <= processes)
    while processes % columns:
        columns -= 1
    rows = processes // columns
    tiles = np.arange(across * down).reshape(down, across)
    return [
        tiles[down * row // rows : down * (row + 1) // rows][
            :, across * column // columns : across * (column + 1) // columns
        ]
        .ravel()
        .tolist()
        for row in range(rows)
        for column in range(columns)
    ]
