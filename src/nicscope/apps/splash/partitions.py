"""Square grids in partitions: each process has a rectangle of one, with its neighbours' border."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process


class Part(NamedTuple):
    """A process's rectangle: the inner points behind ``top`` rows and ``left`` columns of others.

    It is kept with one point more on each side: the edge of the grid, or a copy of a neighbour's.
    """

    top: int
    left: int
    rows: int
    columns: int
    side: int  # inner points of the whole grid

    @property
    def shape(self) -> tuple[int, int]:
        """Of what is kept."""
        return self.rows + 2, self.columns + 2

    @property
    def elements(self) -> int:
        """How many points are kept."""
        return (self.rows + 2) * (self.columns + 2)

    @property
    def own(self) -> tuple[slice, slice]:
        """What of that is the process's alone: the inner points, and what it has of the edge."""
        ends_below = self.top + self.rows == self.side
        ends_right = self.left + self.columns == self.side
        return (
            slice(int(self.top > 0), self.rows + 1 + ends_below),
            slice(int(self.left > 0), self.columns + 1 + ends_right),
        )

    def in_whole(self) -> tuple[slice, slice]:
        """Where ``own`` lies in the whole grid, its edges included."""
        rows, columns = self.own
        return (
            slice(self.top + rows.start, self.top + rows.stop),
            slice(self.left + columns.start, self.left + columns.stop),
        )


class Partition:
    """Of a grid among processes, row by row of rectangles."""

    def __init__(self, row_edges: Sequence[int], column_edges: Sequence[int]) -> None:
        self._edges = np.array(row_edges), np.array(column_edges)
        self.side = row_edges[-1]
        self.parts = [
            Part(top, left, below - top, right - left, self.side)
            for top, below in pairwise(row_edges)
            for left, right in pairwise(column_edges)
        ]

    def owners(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Whose points of the whole grid are, and which of all those that their owner keeps."""
        across = len(self._edges[1]) - 1
        places = []
        for at, edges in zip((rows, columns), self._edges, strict=True):
            inner = np.clip(at - 1, 0, self.side - 1)
            places.append(np.searchsorted(edges, inner, side="right") - 1)
        owner = places[0] * across + places[1]
        within = rows - self._edges[0][places[0]], columns - self._edges[1][places[1]]
        widths = np.array([part.columns + 2 for part in self.parts])
        return owner, within[0] * widths[owner] + within[1]


class PartedGrid:
    """A grid in shared memory; each part is one piece, and begins at its ``first`` of ``array``."""

    def __init__(self, array: SharedArray, firsts: Sequence[int], partition: Partition) -> None:
        self.array = array
        self.partition = partition
        self._firsts = np.array(firsts)
        self._rings: dict[tuple[int, int | None], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    @cached_property
    def parts(self) -> list[Part]:
        """Each process's."""
        return self.partition.parts

    async def values(self, me: Process) -> Any:
        """A copy of what the process keeps."""
        return (await me.read(*self._range(me))).reshape(self.parts[me.number].shape).copy()

    async def part(self, me: Process) -> Any:
        """What the process keeps, to write."""
        return (await me.write(*self._range(me))).reshape(self.parts[me.number].shape)

    async def points(
        self, me: Process, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Some points of the whole grid, from their owners."""
        owner, within = self.partition.owners(rows, columns)
        return await me.gather(self.array, self._firsts[owner] + within)  # type: ignore[no-any-return]

    async def exchange(self, me: Process, colour: int | None = None) -> None:
        """Copy the neighbours' border to the process's own: what is next to its points.

        ``colour``: of points whose row and column add to an even (0) or odd (1) number, those.
        """
        key = me.number, colour
        if key not in self._rings:
            self._rings[key] = self._ring(*key)
        theirs, ours = self._rings[key]
        if len(theirs):
            values = await me.gather(self.array, theirs)
            await me.scatter(self.array, ours, values)

    def whole(self, elements: NDArray[np.float64]) -> NDArray[np.float64]:
        """The grid with its edges, out of all elements of its array."""
        grid = np.empty((self.partition.side + 2,) * 2)
        for first, part in zip(self._firsts, self.parts, strict=True):
            kept = elements[first : first + part.elements].reshape(part.shape)
            grid[part.in_whole()] = kept[part.own]
        return grid

    def scatter_whole(self, elements: NDArray[np.float64], grid: NDArray[np.float64]) -> None:
        """Write a grid with its edges to all elements of its array."""
        for first, part in zip(self._firsts, self.parts, strict=True):
            kept = elements[first : first + part.elements].reshape(part.shape)
            kept[part.own] = grid[part.in_whole()]

    def _range(self, me: Process) -> tuple[SharedArray, int, int]:
        first = int(self._firsts[me.number])
        return self.array, first, first + self.parts[me.number].elements

    def _ring(
        self, process: int, colour: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Elements of others' next to a process's part, and its own that are copies of them.

        Above, below, left, right and corners; those are next to no point of one colour alone.
        """
        part = self.parts[process]
        rows, columns = np.arange(1, part.rows + 1), np.arange(1, part.columns + 1)
        last = part.rows + 1, part.columns + 1
        runs: list[tuple[Any, Any]] = [(0, columns), (last[0], columns), (rows, 0), (rows, last[1])]
        if colour is None:
            runs += [(row, column) for row in (0, last[0]) for column in (0, last[1])]
        ring = np.concatenate(
            [np.stack(np.broadcast_arrays(*run)).reshape(2, -1) for run in runs], 1
        )
        row, column = ring
        owner, within = self.partition.owners(row + part.top, column + part.left)
        wanted = owner != process
        if colour is not None:
            wanted &= (row + part.top + column + part.left) % 2 == colour
        ours = self._firsts[process] + row * (part.columns + 2) + column
        return (self._firsts[owner] + within)[wanted], ours[wanted]
