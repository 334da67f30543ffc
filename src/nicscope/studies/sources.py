"""What a study reads: traces, columns, options of numbers, rows skipped and done."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nicscope.drivers.replay.columns import ROWS, RequestColumns
from nicscope.drivers.replay.page_numbering import Alignment, AlignmentSearch
from nicscope.errors import StudyError, printable
from nicscope.nic.translate.book import COUNT_NAMES
from nicscope.studies.workers import Stopped
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nicscope.traces.folders import Share
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests, Rows


def numbers(option: str, text: str, most: int, other: str = "") -> list[int]:
    """Parse a list of numbers from 1 to ``most``, in its order.

    ``other``: what else may be given, for messages.  Errors: ``StudyError`` naming ``option``.
    """
    ends = text.split(".." if ".." in text else ":")
    words = ends if len(ends) == 2 else text.split(",")
    for word in words:
        if not word.isdecimal() or not 1 <= int(word) <= most:
            raise StudyError(
                f"{option} must be {other}numbers from 1 to {most} or LOW..HIGH, got {text!r}"
            )
    found = [int(word) for word in words]
    return _doubled(option, *found) if len(ends) == 2 else found


def _doubled(option: str, low: int, high: int) -> list[int]:
    if low > high:
        raise StudyError(f"{option}: {low} is more than {high}; give the lower one first")
    found = []
    while low < high:
        found.append(low)
        low *= 2
    return [*found, high]


Batch = TypeVar("Batch", "Requests", "Rows")
Chunked = TypeVar("Chunked", bound="RequestColumns")


class RowsDone:
    """Counts rows read, and reports them to ``watch``, with the total so far."""

    def __init__(self, watch: Callable[[int, int], None] | None, total: int) -> None:
        self._watch = watch
        self._total = total
        self._done = 0

    def through(self, trace: Trace, *, again: bool = False) -> Iterator[Requests]:
        """The batches of ``trace``; ``again``: its rows are to be added to the total.

        Of a pass that its reader ends before, the total holds what was read.
        """
        done = 0
        with self.round(trace.rows, again=again) as watch:
            for batch in trace.batches():
                yield batch
                done += len(batch.length)
                watch(done, trace.rows)

    @contextlib.contextmanager
    def round(self, rows: int, *, again: bool) -> Iterator[Callable[[int, int], None]]:
        """A watch of a pass over so many ``rows`` within the block, as of ``through``."""
        self._total += rows if again else 0
        before = self._done

        def watch(done: int, _: int) -> None:
            self._done = before + done
            if self._watch is not None:
                self._watch(self._done, self._total)

        try:
            yield watch
        finally:
            self._total -= before + rows - self._done


class ShareDone:
    """Reports the rows of ``share`` to ``done`` once, however many passes there are.

    Each pass but the last takes half of what is left to be told, as far as it reads.
    """

    def __init__(self, share: Share | Trace, done: Callable[[int], None]) -> None:
        self._share = share
        self._done = done
        self._left = share.rows

    def through(self, *, last: bool = True) -> Iterator[Requests]:
        """The requests of the share, of which another pass will be made unless this is the last."""
        yield from self._counted(self._share.batches(), self._left if last else self._left // 2)

    def through_rows(self) -> Iterator[Rows]:
        """As ``through``, last pass, with registrations."""
        yield from self._counted(self._share.batches_of_rows(), self._left)

    def _counted(self, batches: Iterator[Batch], part: int) -> Iterator[Batch]:
        """``batches``, with which that part of the rows is told."""
        rows = told = 0
        for batch in batches:
            yield batch
            rows += len(batch.length)
            more = part * min(rows, self._share.rows) // max(self._share.rows, 1) - told
            told += more
            self._left -= more
            self._done(more)


def repeat(command: Sequence[str]) -> dict[str, Any]:
    """Arguments that give the same numbers again, and the version that gave them."""
    from nicscope.kernel.fingerprint import package_stamp

    words = list(map(printable, command))
    return {"command": words, "version": __version__, "source": package_stamp()}


def extent_of(trace: Trace, requests: int, nodes: int) -> dict[str, Any]:
    """The report's description of a trace of which so many ``requests`` were used."""
    return {
        "file": trace.name,
        "bytes": trace.byte_count,
        "requests": requests,
        "nodes": nodes,
        "recorded_page_size": trace.metadata.page_size,
        "origin": trace.metadata.origin,
    }


def named(traces: Sequence[tuple[str, Trace]]) -> list[dict[str, Any]]:
    """The report's description of several traces, by name."""
    return [
        {
            "name": name,
            "file": trace.name,
            "requests": trace.rows,
            "recorded_page_size": trace.metadata.page_size,
            "origin": trace.metadata.origin,
        }
        for name, trace in traces
    ]


__all__ = ["COUNT_NAMES"]  # which reports may not take from the NIC


def check_skip(skip: int, traces: Iterable[tuple[str, Trace]]) -> None:
    """Errors: ``StudyError`` for the first of ``traces`` that has no request left."""
    for name, trace in traces:
        if skip and skip >= trace.rows:
            raise StudyError(
                f"--skip {skip} leaves nothing of {name}, which has {trace.rows:,} "
                "requests; skip fewer"
            )


def parted(batches: Iterable[RequestColumns], skip: int) -> Iterator[tuple[RequestColumns, bool]]:
    """``batches`` split after ``skip`` requests, and whether each is the first one after that."""
    begin = 0
    for batch in batches:
        end = begin + len(batch.node)
        if begin < skip < end:
            yield rows_of(batch, slice(0, skip - begin)), False
            batch = rows_of(batch, slice(skip - begin, None))
        yield batch, bool(skip) and begin <= skip < end
        begin = end


def rows_of(batch: RequestColumns, rows: slice) -> Any:
    return type(batch)(*(column[rows] for column in batch))  # type: ignore[attr-defined]


def chunks_until(stopped: Callable[[], bool], batches: Iterable[Chunked]) -> Iterator[Chunked]:
    """``batches`` in chunks for replay; ``Stopped`` soon after ``stopped()``."""
    for batch in batches:
        for begin in range(0, len(batch.node), ROWS):
            if stopped():
                raise Stopped
            yield rows_of(batch, slice(begin, begin + ROWS))


def grains_counted(
    batches: Iterable[RequestColumns],
    skip: int,
    page_sizes: Sequence[int],
    *,
    by_process: bool = False,
    spread: bool = False,
) -> dict[int, Alignment]:
    """The grain of the runs of ``batches`` by page size; none reaches over what is skipped.

    See ``AlignmentSearch`` for the rest.
    """
    alignments = AlignmentSearch(page_sizes, by_process=by_process, spread=spread)
    for batch, is_first in parted(batches, skip):
        if is_first:
            alignments.cut()
        if not alignments.feed(batch):
            break
    return alignments.result()


class Footprint(NamedTuple):
    """Pages that are used on some nodes, and how often one is looked up."""

    nodes: int
    pages: int  # distinct ones of a node, added up
    process_pages: int  # distinct ones of a process of a node, added up
    lookups: int


def footprint_of(batches: Iterable[Requests], page_size: int) -> Footprint:
    """Distinct pages by node and by process, and lookups: a request has one for each page."""
    import numpy as np

    by_process = np.empty((0, 3), np.uint64)  # node, process, page
    lookups = 0
    nodes: set[int] = set()
    for batch in batches:
        first = batch.address // np.uint64(page_size)
        last = (batch.address + batch.length - np.uint64(1)) // np.uint64(page_size)
        counts = (last - first).astype(np.int64) + 1
        lookups += int(counts.sum())
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        pages = np.repeat(first, counts) + within.astype(np.uint64)
        owners = (np.repeat(column.astype(np.uint64), counts) for column in (batch.node, batch.pid))
        rows = np.stack([*owners, pages], axis=1)
        by_process = np.unique(np.concatenate([by_process, rows]), axis=0)
        nodes.update(np.unique(batch.node).tolist())
    by_node = np.unique(by_process[:, [0, 2]], axis=0)
    return Footprint(len(nodes), len(by_node), len(by_process), lookups)
