"""Runs tasks on threads of this process: kernels release the interpreter lock and share data."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PATIENCE_S = 2.0  # for threads to notice that they are to stop


Task = TypeVar("Task")
Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - nobody's error
    """The result is not wanted any more."""


def threaded(
    tasks: Sequence[Task], work: Callable[[Task, Callable[[], bool]], Result], workers: int
) -> Iterator[tuple[Task, Result]]:
    """Yield each of ``tasks`` with its result, in the order of finishing.

    ``work`` gets a function that says whether it is to stop, which it does by ``Stopped``.
    Errors: whatever a thread met; the others are stopped then, as when nobody asks for more.
    """
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Task, Any, BaseException | None]] = queue.SimpleQueue()
    stop = threading.Event()
    for task in tasks:
        todo.put(task)

    def run() -> None:
        while not stop.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((task, work(task, stop.is_set), None))
            except Stopped:
                return
            except BaseException as error:
                done.put((task, None, error))
                return

    # Daemons: one long request may keep a kernel busy for minutes after Ctrl-C.
    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(workers, len(tasks)))]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            task, result, error = done.get()
            if error is not None:
                raise error
            yield task, result
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
