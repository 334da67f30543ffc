"""Which row of which file a mistake is in, that was found among the rows of a node."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import MistakenRowError, TraceError
from nicscope.traces.folders.members import open_member
from nicscope.traces.folders.reading import FolderTrace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.traces.reader import Trace


@contextlib.contextmanager
def placed(trace: Trace) -> Iterator[None]:
    """Have a ``MistakenRowError`` of the block say where in ``trace`` its row is.

    Errors: ``TraceError`` instead of that.
    """
    try:
        yield
    except MistakenRowError as error:
        name, row = _place_of(trace, error.node, error.nth)
        raise TraceError(f"{name}: row {row} (the first is 0): {error}") from error


def _place_of(trace: Trace, node: int, nth: int) -> tuple[str, int]:
    """File and row of row ``nth`` of those of ``node``.

    Of a folder, rows that are alike in everything come by the order of the files' names, as those
    of one time do.
    """
    row, values = _row_of(trace, node, nth)
    if not isinstance(trace, FolderTrace):
        return trace.name, row
    before = sum(1 for place in _alike(trace, values) if place < row)
    for member in trace.members:
        for place in _alike(open_member(member), values):
            if not before:
                return member.name, place
            before -= 1
    raise AssertionError("a row that was read is in one of the files")


def _row_of(trace: Trace, node: int, nth: int) -> tuple[int, list[Any]]:
    """Where that row comes in the order in which ``trace`` is read, and its values."""
    first = 0
    for rows in trace.batches_of_rows():
        mine = np.flatnonzero(rows.node == node)
        if nth < len(mine):
            return first + int(mine[nth]), [column[mine[nth]] for column in rows]
        nth -= len(mine)
        first += len(rows.node)
    raise AssertionError("a row that was read is read again")


def _alike(trace: Trace, values: list[Any]) -> Iterator[int]:
    """Rows of ``trace`` with those values, by where they come when it is read."""
    first = 0
    for rows in trace.batches_of_rows():
        alike = np.ones(len(rows.node), np.bool_)
        for column, value in zip(rows, values, strict=True):
            alike &= column == value
        yield from (np.flatnonzero(alike) + first).tolist()
        first += len(rows.node)
