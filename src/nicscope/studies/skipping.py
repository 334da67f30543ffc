"""Requests that only fill the caches, before those that are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.replay.naming import Grains
from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.naming import Grain
    from nicscope.traces.reader import Trace


def check_skip(skip: int, traces: Iterable[tuple[str, Trace]]) -> None:
    """Errors: ``StudyError`` for the first of ``traces`` of which nothing is left."""
    for name, trace in traces:
        if skip and skip >= trace.rows:
            raise StudyError(
                f"--skip {skip} leaves nothing of {name}, which has {trace.rows:,} "
                "requests; skip fewer"
            )


def parted(batches: Iterable[RequestColumns], skip: int) -> Iterator[tuple[RequestColumns, bool]]:
    """``batches``, one cut after ``skip`` requests, and whether each is the first behind that."""
    begin = 0
    for batch in batches:
        end = begin + len(batch.node)
        if begin < skip < end:
            yield _rows_of(batch, slice(0, skip - begin)), False
            batch = _rows_of(batch, slice(skip - begin, None))
        yield batch, bool(skip) and begin <= skip < end
        begin = end


def _rows_of(batch: RequestColumns, rows: slice) -> Any:
    return type(batch)(*(column[rows] for column in batch))  # type: ignore[attr-defined]


def grains_counted(
    batches: Iterable[RequestColumns],
    skip: int,
    page_sizes: Sequence[int],
    *,
    by_process: bool = False,
    spread: bool = False,
) -> dict[int, Grain]:
    """The grain of the runs of ``batches`` by page size; none reaches over what is skipped.

    See ``Grains`` for the rest.
    """
    grains = Grains(page_sizes, by_process=by_process, spread=spread)
    for batch, is_first in parted(batches, skip):
        if is_first:
            grains.cut()
        if not grains.feed(batch):
            break
    return grains.result()
