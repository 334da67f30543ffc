"""Multigrid: an elliptic equation on a square, solved on grids from fine to coarse and back.

For each inner point, its four neighbours less ``factor`` times itself are ``rhs``; points on the
edge are given.  Red-black Gauss-Seidel relaxation, W cycles, half injection of the residual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.apps.splash.partitions import PartedGrid, Partition
from nicscope.apps.splash.process_grid import edges, plane
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import Layout, SharedArray
    from nicscope.apps.svm.process import Process

RED, BLACK = 0, 1  # points whose row and column add to an even and to an odd number
SLOW = 0.6  # of the last sweep's error is left: time for a coarser grid
COARSE_SHARE = 0.3  # of the error that sent it there is what a coarser grid has to reach
MOST_WORK = 10_000.0  # sweeps of the finest grid
ERROR_LOCK = "error"


def partitions(side: int, processes: int) -> list[Partition]:
    """Of a grid of ``side`` x ``side`` inner points and of its coarser ones, the coarsest first.

    A coarser one has half as many points a side, at least two of them for each process.
    """
    down, across = plane(processes)
    if side < 2 * down:
        raise SimulationError(
            f"ocean: {side} points a side are too few for {down} x {across} processes, "
            "which have two each at least"
        )
    coarse, levels = side, 1
    while coarse % 2 == 0 and coarse // 2 >= 2 * down:
        coarse, levels = coarse // 2, levels + 1
    rows, columns = edges(coarse, down), edges(coarse, across)
    return [
        Partition([edge << level for edge in rows], [edge << level for edge in columns])
        for level in range(levels)
    ]


class Level(NamedTuple):
    """One of the grids: what is sought, and the equation's right-hand side."""

    sought: PartedGrid
    rhs: PartedGrid
    factor: float


class Multigrid:
    """Grids in shared memory; a process's parts of all levels lie one behind the other."""

    def __init__(
        self, layout: Layout, by_level: Sequence[Partition], shift: float, tolerance: float
    ) -> None:
        """The equation's factor is 4 + ``shift`` on the finest grid."""
        firsts = _packed(by_level)
        total = sum(part.elements for each in by_level for part in each.parts)
        arrays = [layout.array(name, total) for name in ("sought", "rhs")]
        self._error: SharedArray = layout.array("error", 1)
        finest = len(by_level) - 1
        self._levels = [
            Level(
                PartedGrid(arrays[0], begins, partition),
                PartedGrid(arrays[1], begins, partition),
                4 + shift * 4 ** (finest - level),  # a step is twice as long
            )
            for level, (begins, partition) in enumerate(zip(firsts, by_level, strict=True))
        ]
        self._tolerance = tolerance

    @property
    def finest(self) -> Level:
        """Where the equation is posed, and its solution found."""
        return self._levels[-1]

    async def have_homes(self, me: Process) -> None:
        """Have the process's parts at home with it."""
        for level in self._levels:
            for grid in (level.sought, level.rhs):
                await grid.part(me)

    async def solve(self, me: Process) -> None:
        """Improve the finest grid until a sweep changes nothing by more than the tolerance."""
        finest = at = len(self._levels) - 1
        tolerances = [self._tolerance] * len(self._levels)
        error, work = np.inf, 0.0
        while True:
            before, error = error, await self._sweep(me, at)
            work += 0.25 ** (finest - at)
            if work > MOST_WORK:
                raise SimulationError(f"multigrid: no solution in {work:,.0f} sweeps")
            if error < tolerances[at]:
                if at == finest:
                    return
                await self._refine(me, at)
                at, error = at + 1, np.inf
            elif at and error >= SLOW * before:
                await self._coarsen(me, at)
                tolerances[at - 1] = COARSE_SHARE * error
                at, error = at - 1, np.inf

    async def _sweep(self, me: Process, at: int) -> float:
        """Relax red points, then black ones: the largest change of any."""
        level = self._levels[at]
        if me.number == 0:
            (await me.write(self._error))[:] = 0
        largest = 0.0
        for colour in (RED, BLACK):
            await me.barrier()
            await level.sought.exchange(me, 1 - colour)
            rhs = await level.rhs.values(me)
            sought = await level.sought.part(me)
            change = _relax(sought, rhs, level.factor, _parity(me, level, colour))
            largest = max(largest, change)
            me.work(3 * sought.size)
        await me.acquire(ERROR_LOCK)
        if largest > (await me.read(self._error))[0]:
            (await me.write(self._error))[:] = largest
        await me.release(ERROR_LOCK)
        await me.barrier()
        error = float((await me.read(self._error))[0])
        await me.barrier()  # nobody begins anew before all have read
        return error

    async def _coarsen(self, me: Process, at: int) -> None:
        """The residual of a level is the next coarser one's right-hand side; its first guess, 0."""
        level, coarser = self._levels[at], self._levels[at - 1]
        await level.sought.exchange(me)
        await level.rhs.exchange(me)
        await me.barrier()
        part, coarse = level.sought.parts[me.number], coarser.sought.parts[me.number]
        sought = np.zeros((part.rows + 3, part.columns + 3))  # a row above and a column left more
        if part.top:
            columns = np.arange(part.columns + 1) + part.left
            above = np.full_like(columns, part.top - 1)
            sought[0, 1:-1] = await level.sought.points(me, above, columns)
        if part.left:
            rows = np.arange(part.rows + 1) + part.top
            before = np.full_like(rows, part.left - 1)
            sought[1:-1, 0] = await level.sought.points(me, rows, before)
        sought[1:, 1:] = await level.sought.values(me)
        residual = _residual(sought, await level.rhs.values(me), level.factor)
        residual[0] *= part.top > 0  # on the edge there is none
        residual[:, 0] *= part.left > 0
        (await coarser.rhs.part(me))[1:-1, 1:-1] = 2 * _injected(
            residual,
            _weights(coarse.top, coarse.rows, coarse.side) / 2,
            _weights(coarse.left, coarse.columns, coarse.side) / 2,
        )
        (await coarser.sought.part(me))[:] = 0
        me.work(20 * coarse.elements)

    async def _refine(self, me: Process, at: int) -> None:
        """What a level has found, interpolated, corrects the next finer one."""
        level, finer = self._levels[at], self._levels[at + 1]
        await level.sought.exchange(me)
        found = await level.sought.values(me)
        part = level.sought.parts[me.number]
        along = _interpolated(found, part.top, part.rows, part.side)
        correction = _interpolated(along.T, part.left, part.columns, part.side).T
        (await finer.sought.part(me))[1:-1, 1:-1] += correction
        me.work(6 * correction.size)


def _packed(by_level: Sequence[Partition]) -> list[list[int]]:
    """Where each process's part of each level begins: all of a process, then the next one's."""
    firsts: list[list[int]] = [[] for _ in by_level]
    used = 0
    for process in range(len(by_level[0].parts)):
        for begins, partition in zip(firsts, by_level, strict=True):
            begins.append(used)
            used += partition.parts[process].elements
    return firsts


def _parity(me: Process, level: Level, colour: int) -> int:
    """Of a point's row and column in the process's part, if it has that colour in the whole."""
    part = level.sought.parts[me.number]
    return (part.top + part.left + colour) % 2


def _relax(
    sought: NDArray[np.float64], rhs: NDArray[np.float64], factor: float, parity: int
) -> float:
    """Solve for each inner point whose row and column add to ``parity``: the largest change."""
    rows, columns = sought.shape
    largest = 0.0
    for row in (1, 2):
        column = 1 + (row + 1 + parity) % 2
        if row > rows - 2 or column > columns - 2:
            continue
        down, across = slice(row, rows - 1, 2), slice(column, columns - 1, 2)
        new = (
            sought[row - 1 : rows - 2 : 2, across]
            + sought[row + 1 : rows : 2, across]
            + sought[down, column - 1 : columns - 2 : 2]
            + sought[down, column + 1 : columns : 2]
            - rhs[down, across]
        ) / factor
        largest = max(largest, float(np.abs(new - sought[down, across]).max()))
        sought[down, across] = new
    return largest


def _residual(
    sought: NDArray[np.float64], rhs: NDArray[np.float64], factor: float
) -> NDArray[np.float64]:
    """At every second point of a part, from its border above and left on.

    ``sought`` has a row above and a column left more than the part.
    """
    around = sought[:-2, 1:-1] + sought[2:, 1:-1] + sought[1:-1, :-2] + sought[1:-1, 2:]
    return (rhs[:-1, :-1] - around + factor * sought[1:-1, 1:-1])[::2, ::2]


def _weights(before: int, points: int, side: int) -> NDArray[np.float64]:
    """How far each coarse point lies before the fine one of twice its number, in coarse steps.

    A coarser grid has the same edges, and so steps of a little less than two fine ones.
    """
    return np.arange(before + 1, before + points + 1) / (side + 1)


def _injected(
    residual: NDArray[np.float64], down: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Between each point of ``residual`` and those above, left, and both."""
    along = (1 - across) * residual[:, 1:] + across * residual[:, :-1]
    return (1 - down[:, None]) * along[1:] + down[:, None] * along[:-1]


def _interpolated(
    coarse: NDArray[np.float64], before: int, points: int, side: int
) -> NDArray[np.float64]:
    """Twice as many rows: each is between a coarse one and the one above, and that below."""
    number = np.arange(before + 1, before + points + 1)[:, None]
    above, below = (side + 1 - number) / (2 * side + 1), number / (2 * side + 1)
    own = coarse[1:-1]
    fine = np.empty((2 * points, coarse.shape[1]))
    fine[::2] = (1 - above) * own + above * coarse[:-2]
    fine[1::2] = (1 - below) * own + below * coarse[2:]
    return fine
