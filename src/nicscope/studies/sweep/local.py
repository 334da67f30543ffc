"""Counting on threads of this process, which share the trace's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError
from nicscope.studies.sweep.tally import tally
from nicscope.studies.threads import threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.config.design import Design
    from nicscope.studies.sweep.tally import Columns, Tally


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

    def work(chunk: Sequence[int], stopped: Callable[[], bool]) -> list[Tally]:
        designs = [design(number) for number in chunk]
        return tally(columns, designs, page_size, kinds, stopped)

    try:
        yield from threaded(chunks, work, workers)
    except MemoryError as error:
        raise StudyError(
            f"designs do not fit in memory, {workers} times some at once; use fewer --workers, or "
            "smaller sizes"
        ) from error
