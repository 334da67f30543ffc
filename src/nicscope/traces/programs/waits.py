"""Lists of the rows that rows wait for, with what stands for the usual ones made out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.traces.programs.schema import Others, Waits

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Lists(NamedTuple):
    """Lists of some rows as they are written, null where they are as usual."""

    is_null: NDArray[np.bool_]
    counts: NDArray[np.int64]  # 0 where null
    places: NDArray[np.uint32]


class WaitsOfRows:
    """Takes the lists of rows in their order; keeps nothing as long as every one is as usual."""

    def __init__(self, name: str) -> None:
        """``name`` of the column: null in ``after`` is the row before, in ``after_start`` none."""
        self._name = name
        self._usual = 0  # rows that are as usual, before the first that are not
        self._counts: list[NDArray[np.uint32]] = []
        self._values: list[NDArray[np.uint32]] = []

    def add(self, places: NDArray[np.int64], lists: Lists | None) -> None:
        """Take in those of rows at ``places`` of their processes; None: all null."""
        counts, values = usual_counts, usual_values = self._as_usual(places)
        if lists is not None:
            counts = np.where(lists.is_null, usual_counts, lists.counts)
            values = (np.repeat(places, counts) - 1).astype(np.uint32)
            values[~np.repeat(lists.is_null, counts)] = lists.places
        is_usual = np.array_equal(counts, usual_counts) and np.array_equal(values, usual_values)
        if is_usual and not self._counts:
            self._usual += len(places)
        else:
            self._counts.append(counts.astype(np.uint32))
            self._values.append(values)

    def _as_usual(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        if self._name == "after_start":
            return np.zeros(len(places), np.int64), np.empty(0, np.uint32)
        return (places > 0).astype(np.int64), (places[places > 0] - 1).astype(np.uint32)

    def waits(self, first: NDArray[np.int64]) -> Waits | None:
        """Of all rows, of processes that begin at ``first``; None if every one is as usual."""
        if not self._counts:
            return None
        counts, values = self._as_usual(places_of_rows(first, 0, self._usual))
        sums = np.zeros(self._usual + sum(map(len, self._counts)) + 1, np.int64)
        np.cumsum(np.concatenate([counts, *self._counts]), out=sums[1:])
        return Waits(sums, np.concatenate([values, *self._values]))


class OtherLists(NamedTuple):
    """Lists of other processes' rows, of some rows."""

    counts: NDArray[np.int64]
    processes: NDArray[np.uint32]
    places: NDArray[np.uint32]


class OthersOfRows:
    """Takes lists of other processes' rows in the order of their own; keeps nothing of no lists."""

    def __init__(self) -> None:
        self._rows = 0
        self._held: list[tuple[int, OtherLists]] = []  # with the number of their first row

    def add(self, rows: int, lists: OtherLists | None) -> None:
        """Take in those of so many rows; None: they have none."""
        if lists is not None:
            self._held.append((self._rows, lists))
        self._rows += rows

    def outside(self, first: NDArray[np.int64]) -> int | None:
        """The first row that names one that there is not; processes begin at ``first``."""
        sizes = np.append(np.diff(first), 0)  # none of a process that there is not
        for begin, (counts, processes, places) in self._held:
            known = np.minimum(processes, len(first) - 1)
            wrong = np.flatnonzero(places >= sizes[known])
            if len(wrong):
                return begin + int(np.searchsorted(np.cumsum(counts), int(wrong[0]), "right"))
        return None

    def others(self, first: NDArray[np.int64]) -> Others | None:
        """Of all rows, of processes that begin at ``first``; None if there are none."""
        if not any(len(lists.places) for _, lists in self._held):
            return None
        sums = np.zeros(self._rows + 1, np.int64)
        for begin, lists in self._held:
            sums[begin + 1 : begin + 1 + len(lists.counts)] = lists.counts
        np.cumsum(sums, out=sums)
        named = [first[lists.processes] + lists.places for _, lists in self._held]
        return Others(sums, np.concatenate(named))


def places_of_rows(first: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Where rows ``begin`` to ``end`` are in their processes, which begin at ``first``."""
    rows = np.arange(begin, end)
    places: NDArray[np.int64] = rows - first[np.searchsorted(first, rows, "right") - 1]
    return places
