"""Counting on threads of this process: kernels hold no interpreter lock, columns are shared."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from nicscope.errors import StudyError
from nicscope.studies.sweep.tally import Stopped, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.config.design import Design
    from nicscope.studies.sweep.tally import Columns, Tally

PATIENCE_S = 2.0  # for threads to notice that they are to stop


def on_threads(
    columns: Columns,
    page_size: int,
    kinds: bool,
    chunks: Sequence[Sequence[int]],
    design: Callable[[int], Design],
    workers: int,
) -> Iterator[tuple[Sequence[int], list[Tally]]]:
    """Each of ``chunks`` (numbers of designs) with its tallies, in the order of finishing.

    Errors: whatever a thread met; ``StudyError`` if memory does not do.
    """
    todo: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Sequence[int], list[Tally] | BaseException]]
    done = queue.SimpleQueue()
    stop = threading.Event()
    for chunk in chunks:
        todo.put(chunk)

    def work() -> None:
        while not stop.is_set():
            try:
                chunk = todo.get_nowait()
            except queue.Empty:
                return
            try:
                designs = [design(number) for number in chunk]
                done.put((chunk, tally(columns, designs, page_size, kinds, stop.is_set)))
            except Stopped:
                return
            except BaseException as error:
                done.put((chunk, error))
                return

    # Daemons: one long request may keep a kernel busy for minutes after Ctrl-C.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(chunks)))]
    for thread in threads:
        thread.start()
    try:
        for _ in chunks:
            chunk, found = done.get()
            if isinstance(found, MemoryError):
                raise StudyError(
                    f"designs do not fit in memory, {len(threads)} times {len(chunk)} at once; "
                    "use fewer --workers, or smaller sizes"
                ) from found
            if isinstance(found, BaseException):
                raise found
            yield chunk, found
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
