"""Traces that a study reads, once or again, and lists of numbers that a question names."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from nicscope import __version__
from nicscope.errors import StudyError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.traces.folders.reading import Share
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests, Rows


def numbers(option: str, text: str, most: int, other: str = "") -> list[int]:
    """The numbers from 1 to ``most`` that ``text`` names, in its order.

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


class RowsDone:
    """Counts rows that were read, and tells ``watch`` of how many: ``total``, or more by then."""

    def __init__(self, watch: Callable[[int, int], None] | None, total: int) -> None:
        self._watch = watch
        self._total = total
        self._done = 0

    def through(self, trace: Trace, *, again: bool = False) -> Iterator[Requests]:
        """The batches of ``trace``; ``again``: the total does not hold its rows yet.

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
    """Tells ``done`` of the rows of a ``share`` once, however many passes there are over them.

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
        """As ``through``, at last, with what is registered."""
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
    """What is said of a trace of which so many ``requests`` were taken."""
    return {
        "file": trace.name,
        "bytes": trace.byte_count,
        "requests": requests,
        "nodes": nodes,
        "recorded_page_size": trace.metadata.page_size,
        "origin": trace.metadata.origin,
    }


def named(traces: Sequence[tuple[str, Trace]]) -> list[dict[str, Any]]:
    """What is said of several traces, each by its name."""
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
