"""Dividing a trace among the files of a folder, which is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import OutputError, TraceError, did_you_mean, printable
from nicscope.outputs import whole_folder
from nicscope.traces.columns import Checker
from nicscope.traces.folders.members import ENDING
from nicscope.traces.writer import TraceWriter, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.outputs import OutputFolder
    from nicscope.traces.files import Watch
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

    Owners = Callable[[Requests, int], NDArray[np.int64]]

BY = ("node", "time")
MOST_FILES = 4096  # all are open at once
PENDING_ROWS = 1 << 21  # that wait in all files together to be written
BATCH_ROWS = 1 << 20


class Split(NamedTuple):
    """What was written."""

    files: list[tuple[str, int]]  # their names, and how many rows each has
    rows: int


def split(trace: Trace, folder: Path, by: str, files: int, watch: Watch | None = None) -> Split:
    """Write the rows of ``trace`` to at most ``files`` files in the new or empty ``folder``.

    ``by`` node each file has some nodes, all of their rows; by time each has the rows of a time.
    Errors: ``TraceError`` at the first row that the schema does not allow, or, by time, that goes
    back in it; ``OutputError`` if the folder is not empty or cannot be written.
    """
    if by not in BY:
        raise TraceError(f"--by: no {by!r}{did_you_mean(by, BY)}")
    if not 1 <= files <= MOST_FILES:
        raise TraceError(f"--files must be from 1 to {MOST_FILES}, got {files}")
    if str(folder) == "-":
        raise OutputError("-: standard output takes no folder of files; name a new folder")
    with whole_folder(folder) as out:
        if os.path.lexists(folder) and list(folder.iterdir()):
            raise OutputError(
                f"{printable(str(folder))}: is not empty; name a new folder for the files"
            )
        passes = 2 if by == "node" else 1
        count = _Count(watch, passes * trace.all_rows)
        if by == "node":
            owners, files = _of_nodes(trace, files, count)
        else:
            files = min(files, trace.all_rows)
            owners = _InTime(trace.name, trace.all_rows, files)
        return _write(trace, out, owners, files, count)


class _Count:
    """Rows done in all passes."""

    def __init__(self, watch: Watch | None, total: int) -> None:
        self._watch, self._total, self._done = watch, total, 0

    def add(self, rows: int) -> None:
        self._done += rows
        if self._watch is not None:
            self._watch(self._done, self._total)


def _of_nodes(trace: Trace, files: int, count: _Count) -> tuple[Owners, int]:
    """Whose file each row's is, nodes in ascending order, files of about as many rows."""
    rows_of: dict[int, int] = {}
    for batch in trace.batches_of_rows():
        nodes, counts = np.unique(batch.node, return_counts=True)
        for node, rows in zip(nodes.tolist(), counts.tolist(), strict=True):
            rows_of[node] = rows_of.get(node, 0) + rows
        count.add(len(batch.node))
    nodes = np.array(sorted(rows_of), np.int64)
    rows = np.array([rows_of[node] for node in nodes.tolist()], np.int64)
    middles = np.cumsum(rows) - (rows + 1) // 2
    _, owners = np.unique(middles * files // trace.all_rows, return_inverse=True)

    def owner(requests: Requests, _: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = owners[np.searchsorted(nodes, requests.node)]
        return found

    return owner, int(owners.max()) + 1


class _InTime:
    """Whose file each row's is: the rows in their order, as many in each file."""

    def __init__(self, name: str, rows: int, files: int) -> None:
        self._name, self._rows, self._files = name, rows, files
        self._last: int | None = None

    def __call__(self, requests: Requests, begin: int) -> NDArray[np.int64]:
        times = requests.time_ns
        before = times[0] if self._last is None else self._last
        back = np.flatnonzero(times < np.concatenate([[before], times[:-1]]))
        if back.size:
            raise TraceError(
                f"{self._name}: its rows are not in the order of time over all nodes (at "
                f"{int(times[back[0]])} ns); split it by node"
            )
        self._last = int(times[-1])
        return np.arange(begin, begin + len(times)) * self._files // self._rows


def _write(trace: Trace, out: OutputFolder, owners: Owners, files: int, count: _Count) -> Split:
    """All rows of ``trace`` in the files that ``owners`` says."""
    width = len(str(files - 1))
    group = max(PENDING_ROWS // files, 1)
    checker, schema, begin = Checker(trace.name), None, 0
    writers: dict[int, TraceWriter] = {}
    with contextlib.ExitStack() as stack:
        for requests, batch in trace.record_batches(BATCH_ROWS):
            columns = {name: batch.column(name) for name in batch.schema.names}
            whole = batch_of(columns, checker, schema)
            schema = schema or whole.schema
            for owner, places in _places(owners(requests, begin)):
                if owner not in writers:
                    name = f"part-{owner:0{width}}{ENDING}"
                    made = TraceWriter(name, trace.metadata, folder=out, group_rows=group)
                    writers[owner] = stack.enter_context(made)
                rows = type(requests)._make(column[places] for column in requests)
                writers[owner].append(rows, whole.take(places))
            begin += len(requests.node)
            count.add(len(requests.node))
    made_files = [(str(writers[owner].path), writers[owner].rows) for owner in sorted(writers)]
    return Split(made_files, begin)


def _places(owners: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Each owner with the places of its rows, ascending."""
    order = np.argsort(owners, kind="stable")
    found, begins = np.unique(owners[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, begins[1:]), strict=True)
