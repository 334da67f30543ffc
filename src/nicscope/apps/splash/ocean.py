"""Ocean: wind-driven currents in a square two-layer basin, with a multigrid solver."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.memory import Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Process, Run


def plane(processes: int) -> tuple[int, int]:
    """Rows and columns of processes, as square as can be, no fewer rows."""
    columns = next(c for c in range(math.isqrt(processes), 0, -1) if processes % c == 0)
    return processes // columns, columns


def cube(processes: int) -> tuple[int, int, int]:
    """Layers, rows and columns of processes, as even as can be, no fewer columns than rows."""
    layers = next(n for n in range(round(processes ** (1 / 3)) + 1, 0, -1) if _fits(n, processes))
    columns, rows = plane(processes // layers)
    return layers, rows, columns


def _fits(layers: int, processes: int) -> bool:
    return layers**3 <= processes and processes % layers == 0


def edges(side: int, shares: int) -> list[int]:
    """Boundaries of ``shares`` nearly equal parts of ``side`` points, larger ones first."""
    least, larger = divmod(side, shares)
    return [share * least + min(share, larger) for share in range(shares + 1)]


class Part(NamedTuple):
    """A process's rectangle: inner points, bordered by ``top`` rows and ``left`` columns of others.

    It is kept with one point more on each side: the edge of the grid, or a copy of a neighbour's.
    """

    top: int
    left: int
    rows: int
    columns: int
    side: int  # inner points of the whole grid

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the stored rectangle, border included."""
        return self.rows + 2, self.columns + 2

    @property
    def elements(self) -> int:
        """The number of stored points."""
        return (self.rows + 2) * (self.columns + 2)

    @property
    def own(self) -> tuple[slice, slice]:
        """The slice that the process owns: inner points, and its part of the basin's edge."""
        ends_below = self.top + self.rows == self.side
        ends_right = self.left + self.columns == self.side
        return (
            slice(int(self.top > 0), self.rows + 1 + ends_below),
            slice(int(self.left > 0), self.columns + 1 + ends_right),
        )

    def in_whole(self) -> tuple[slice, slice]:
        """The position of ``own`` in the whole grid, edges included."""
        rows, columns = self.own
        return (
            slice(self.top + rows.start, self.top + rows.stop),
            slice(self.left + columns.start, self.left + columns.stop),
        )


class Partition:
    """The division of a grid among processes, in rows of rectangles."""

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
        """The owner of each point of the whole grid, and its index among the owner's points."""
        across = len(self._edges[1]) - 1
        places = []
        for at, edges in zip((rows, columns), self._edges, strict=True):
            inner = np.clip(at - 1, 0, self.side - 1)
            places.append(np.searchsorted(edges, inner, side="right") - 1)
        owner = places[0] * across + places[1]
        within = rows - self._edges[0][places[0]], columns - self._edges[1][places[1]]
        widths = np.array([part.columns + 2 for part in self.parts])
        return owner, within[0] * widths[owner] + within[1]


class PartitionedGrid:
    """A partitioned grid in shared memory; each part is contiguous, from its ``first`` on."""

    def __init__(self, array: SharedArray, firsts: Sequence[int], partition: Partition) -> None:
        self.array = array
        self.partition = partition
        self._firsts = np.array(firsts)
        self._rings: dict[tuple[int, int | None], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    @cached_property
    def parts(self) -> list[Part]:
        """Every process's part."""
        return self.partition.parts

    async def values(self, me: Process) -> Any:
        """A copy of the process's part."""
        return (await me.read(*self._range(me))).reshape(self.parts[me.number].shape).copy()

    async def part(self, me: Process) -> Any:
        """The process's part, writable."""
        return (await me.write(*self._range(me))).reshape(self.parts[me.number].shape)

    async def points(
        self, me: Process, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Some points of the whole grid, from their owners."""
        owner, within = self.partition.owners(rows, columns)
        return await me.gather(self.array, self._firsts[owner] + within)  # type: ignore[no-any-return]

    async def exchange(self, me: Process, colour: int | None = None) -> None:
        """Copy the neighbours' border points into the process's own border.

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
        """Assemble the grid, edges included, from all elements of its array."""
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
        """Indices of neighbours' border points of a process, and of its copies of them.

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


RED, BLACK = 0, 1  # points whose row and column add to an even and to an odd number
SLOW = 0.6  # of the last sweep's error is left: time for a coarser grid
COARSE_SHARE = 0.3  # of the error that sent it there is what a coarser grid has to reach
MOST_WORK = 10_000.0  # sweeps of the finest grid
ERROR_LOCK = "error"


def partitions(side: int, processes: int) -> list[Partition]:
    """The partitions of a grid of ``side`` x ``side`` inner points and its coarser grids.

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
    """One multigrid level: the unknown and the right-hand side."""

    sought: PartitionedGrid
    rhs: PartitionedGrid
    factor: float


class Multigrid:
    """A multigrid solver in shared memory; a process's parts of all levels are contiguous."""

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
                PartitionedGrid(arrays[0], begins, partition),
                PartitionedGrid(arrays[1], begins, partition),
                4 + shift * 4 ** (finest - level),  # a step is twice as long
            )
            for level, (begins, partition) in enumerate(zip(firsts, by_level, strict=True))
        ]
        self._tolerance = tolerance

    @property
    def finest(self) -> Level:
        """The finest level, where the equation is posed."""
        return self._levels[-1]

    async def claim_homes(self, me: Process) -> None:
        """Make the process the home of its parts' pages."""
        for level in self._levels:
            for grid in (level.sought, level.rhs):
                await grid.part(me)

    async def solve(self, me: Process) -> None:
        """Iterate on the finest grid until a sweep's largest change is within the tolerance."""
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
        """Red-black relaxation; the largest change."""
        level = self._levels[at]
        if me.number == 0:
            (await me.write(self._error))[:] = 0
        largest = 0.0
        for colour in (RED, BLACK):
            await me.barrier()
            await level.sought.exchange(me, 1 - colour)
            rhs = await level.rhs.values(me)
            sought = await level.sought.part(me)
            part = level.sought.parts[me.number]
            change = _relax(sought, rhs, level.factor, (part.top + part.left + colour) % 2)
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
        """Restrict a level's residual to the next coarser right-hand side; initial guess 0."""
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
        rhs = (await level.rhs.values(me))[:-1, :-1]
        around = sought[:-2, 1:-1] + sought[2:, 1:-1] + sought[1:-1, :-2] + sought[1:-1, 2:]
        residual = (rhs - around + level.factor * sought[1:-1, 1:-1])[::2, ::2]  # at coarse points
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
        """Interpolate a level's solution and add it to the next finer one."""
        level, finer = self._levels[at], self._levels[at + 1]
        await level.sought.exchange(me)
        found = await level.sought.values(me)
        part = level.sought.parts[me.number]
        along = _interpolated(found, part.top, part.rows, part.side)
        correction = _interpolated(along.T, part.left, part.columns, part.side).T
        (await finer.sought.part(me))[1:-1, 1:-1] += correction
        me.work(6 * correction.size)


def _packed(by_level: Sequence[Partition]) -> list[list[int]]:
    """Offsets of each process's part of each level, process by process."""
    firsts: list[list[int]] = [[] for _ in by_level]
    used = 0
    for process in range(len(by_level[0].parts)):
        for begins, partition in zip(firsts, by_level, strict=True):
            begins.append(used)
            used += partition.parts[process].elements
    return firsts


def _relax(
    sought: NDArray[np.float64], rhs: NDArray[np.float64], factor: float, parity: int
) -> float:
    """Relax the inner points whose row and column add to ``parity``; the largest change."""
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


RESOLUTION = 20_000.0  # between points
STEP = 28_800.0
UPPER, LOWER = 1000.0, 4000.0  # depth of the layers
WHOLE = UPPER + LOWER
CORIOLIS = 8.3e-5  # in the middle
BETA = 2e-11  # its growth with each metre
REDUCED_GRAVITY = 0.02
FRICTION = -5.12e11  # of the sixth derivative
WIND = 0.5e-4
SHIFT = WHOLE * CORIOLIS**2 / (UPPER * LOWER * REDUCED_GRAVITY) * RESOLUTION**2
EDDIES = 4  # waves across the basin at most
EDDY_FLOW = 1000.0  # m^2/s: largest amplitude of one


def initial_eddies(side: int, seed: int) -> NDArray[np.float64]:
    """Initial stream functions of two layers: a few random waves, zero on the edge."""
    amplitudes = np.random.default_rng(seed).uniform(-EDDY_FLOW, EDDY_FLOW, (2, EDDIES, EDDIES))
    waves = np.sin(np.pi * np.outer(np.arange(1, EDDIES + 1), np.arange(side)) / (side - 1))
    eddies: NDArray[np.float64] = np.einsum("lij,ix,jy->lxy", amplitudes, waves, waves)
    for axis in (1, 2):
        eddies.swapaxes(0, axis)[[0, -1]] = 0
    return eddies


def wind(columns: NDArray[np.int64], side: int) -> NDArray[np.float64]:
    """The curl of the wind stress: two gyres, one on each half of the columns."""
    half = RESOLUTION * (side - 1) / 2
    curl: NDArray[np.float64] = np.sin(np.pi * columns * RESOLUTION / half)
    return -WIND * np.pi / half * curl


def reference_solution(
    side: int, given: NDArray[np.float64], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both layers' stream functions after some steps, solved by sine transforms: the reference."""
    psi = [layer.copy() for layer in given]
    earlier = [layer.copy() for layer in given]
    places = np.arange(side)
    turning = CORIOLIS + BETA * RESOLUTION * (places - (side - 1) / 2)
    force = np.broadcast_to(wind(places, side), (side, side))
    edge = np.ones((side, side))
    edge[1:-1, 1:-1] = 0
    carrier = _solved(edge)
    for _ in range(steps):
        moved = [_transport(_curl(layer) + turning, layer) for layer in psi]
        rubbed = [FRICTION * _curl(_curl(_curl(layer))) for layer in earlier]
        total = [move + rub for move, rub in zip(moved, rubbed, strict=True)]
        shear, mean = psi[0] - psi[1], (LOWER * psi[0] + UPPER * psi[1]) / WHOLE
        between = SHIFT / RESOLUTION**2 * _transport(shear, mean)
        baroclinic = _solved(total[0] - total[1] - between + force / UPPER)
        baroclinic -= _integral(baroclinic) / _integral(carrier) * carrier
        barotropic = _solved((UPPER * total[0] + LOWER * total[1] + force) / WHOLE)
        rates = (barotropic + LOWER / WHOLE * baroclinic, barotropic - UPPER / WHOLE * baroclinic)
        later = [layer + 2 * STEP * rate for layer, rate in zip(earlier, rates, strict=True)]
        earlier, psi = psi, later
    return psi[0], psi[1]


def _curl(psi: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Laplacian, zero on the edge."""
    found = np.zeros_like(psi)
    found[1:-1] += np.diff(psi, 2, axis=0)
    found[:, 1:-1] += np.diff(psi, 2, axis=1)
    found[[0, -1]] = 0
    found[:, [0, -1]] = 0
    return found / RESOLUTION**2


def _transport(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Arakawa's Jacobian J(x, y), the mean of three equivalent forms, zero on the edge."""

    def down(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.roll(z, -1, 0) - np.roll(z, 1, 0)) / 2

    def right(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.roll(z, -1, 1) - np.roll(z, 1, 1)) / 2

    three = (
        down(y) * right(x) - right(y) * down(x),
        right(x * down(y)) - down(x * right(y)),
        down(y * right(x)) - right(y * down(x)),
    )
    found = sum(three[1:], three[0]) / 3 / RESOLUTION**2
    found[[0, -1]] = 0
    found[:, [0, -1]] = 0
    return found


def _solved(field: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution of the Helmholtz equation for ``field``, with ``field`` on the edge."""
    inner = (field * RESOLUTION**2)[1:-1, 1:-1]
    inner[0] -= field[0, 1:-1]
    inner[-1] -= field[-1, 1:-1]
    inner[:, 0] -= field[1:-1, 0]
    inner[:, -1] -= field[1:-1, -1]
    points = len(inner)
    waves = 2 * np.cos(np.pi * np.arange(1, points + 1) / (points + 1))
    found = field.copy()
    found[1:-1, 1:-1] = _sines(_sines(inner) / (np.add.outer(waves, waves) - 4 - SHIFT))
    return found


def _sines(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two-dimensional sine transform, scaled to be its own inverse."""
    for _ in range(2):
        odd = np.zeros((len(grid), 2 * len(grid) + 2))
        odd[:, 1 : len(grid) + 1] = grid
        odd[:, len(grid) + 2 :] = -grid[:, ::-1]
        grid = -np.fft.fft(odd).imag[:, 1 : len(grid) + 1].T / np.sqrt(2 * len(grid) + 2)
    return grid


def _integral(field: NDArray[np.float64]) -> float:
    """By the trapezoidal rule."""
    weights = np.ones(len(field))
    weights[[0, -1]] = 0.5
    return float(weights @ field @ weights)


STEPS = 6  # two days
TOLERANCE = 1e-7
ERRORS_OF_SWEEP = 50.0  # how far a solution may be off, in changes by its last sweep
SUM_LOCK = "sum"
# In the order in which a process's parts lie; two of a layer each where there is a number.
FIELDS = (
    *("psi0", "psi1", "psim0", "psim1", "psium", "psilm", "psib", "ga", "gb"),
    *("work1_0", "work1_1", "work2", "work3", "work4_0", "work4_1", "work5_0", "work5_1"),
    *("work6", "work7_0", "work7_1", "temp0", "temp1", "tauz", "oldga", "oldgb"),
)


def ocean(
    side: int, processes: int, seed: int = 0, steps: int = STEPS, tolerance: float = TOLERANCE
) -> SharedProgram:
    """``steps`` steps of a basin of ``side`` x ``side`` points, edges included, from random eddies.

    A process's parts of all fields lie in one piece, behind those of the process before.  In a
    step, fields are combined point by point and with their neighbours, and two elliptic equations
    solved; one more before the first step.
    """
    if steps < 1:
        raise SimulationError(f"ocean: {steps} steps; one at least")
    by_level = partitions(side - 2, processes)
    layout = Layout()
    field = _fields(layout, by_level[-1])
    coriolis = layout.array("coriolis", side)
    sums = layout.array("sums", 2)  # of what is to be taken away from the first equation's solution
    multigrid = Multigrid(layout, by_level, SHIFT, tolerance)
    given = initial_eddies(side, seed)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        elements = array_of(field["psi0"].array)
        for name, grid in zip(("psi0", "psi1", "psim0", "psim1"), (*given, *given), strict=True):
            field[name].scatter_whole(elements, grid)

    async def put(me: Process, name: str, values: Any, *, inner: bool = False) -> None:
        """Write what the process owns of a field, or only its inner points, the edge being zero."""
        part = field[name].parts[me.number]
        view = await field[name].part(me)
        if inner:
            view[part.own] = 0
            view[1:-1, 1:-1] = values
        else:
            view[part.own] = values[part.own]
        me.work(part.elements)

    async def get(me: Process, *names: str) -> list[Any]:
        return [await field[name].values(me) for name in names]

    async def laplacian(me: Process, source: str, target: str) -> None:
        await field[source].exchange(me)
        values = await field[source].values(me)
        around = values[:-2, 1:-1] + values[2:, 1:-1] + values[1:-1, :-2] + values[1:-1, 2:]
        await put(me, target, (around - 4 * values[1:-1, 1:-1]) / RESOLUTION**2, inner=True)
        me.work(4 * values.size)

    async def jacobian(me: Process, first: str, second: str, target: str) -> None:
        await field[first].exchange(me)
        await field[second].exchange(me)
        x, y = await get(me, first, second)
        await put(me, target, _jacobian(x, y), inner=True)
        me.work(30 * x.size)

    async def solve(me: Process, rhs: str, guess: str, solved: tuple[str, ...]) -> None:
        """The field ``rhs`` is its own edge, too; the solution goes to ``solved``."""
        part = field[rhs].parts[me.number]
        wanted, first = await get(me, rhs, guess)
        (await multigrid.finest.rhs.part(me))[part.own] = (wanted * RESOLUTION**2)[part.own]
        view = await multigrid.finest.sought.part(me)
        view[part.own] = wanted[part.own]
        view[1:-1, 1:-1] = first[1:-1, 1:-1]
        await multigrid.solve(me)
        found = await multigrid.finest.sought.values(me)
        for name in solved:
            await put(me, name, found)

    async def add_up(me: Process, name: str, place: int) -> None:
        """Add the process's share of a field's integral to that of all."""
        part = field[name].parts[me.number]
        values = await field[name].values(me)
        share = float((values * _quadrature(part.shape, part.own))[part.own].sum())
        me.work(part.elements)
        await me.acquire(SUM_LOCK)
        (await me.write(sums))[place] += share
        await me.release(SUM_LOCK)

    async def begin(me: Process) -> None:
        """What is done once: forces, and the flow that carries a sum away."""
        part = by_level[-1].parts[me.number]
        for name in FIELDS:
            await field[name].part(me)
        await multigrid.claim_homes(me)
        if me.number == 0:
            (await me.write(coriolis))[:] = CORIOLIS + BETA * RESOLUTION * (
                np.arange(side) - (side - 1) / 2
            )
        edge = np.ones(part.shape)
        edge[1:-1, 1:-1] = 0
        await put(me, "psib", edge)
        columns = np.arange(part.left, part.left + part.columns + 2)
        await put(me, "tauz", np.broadcast_to(wind(columns, side), part.shape))
        await me.barrier()
        await field["psib"].exchange(me)
        values = (await get(me, "psib"))[0]
        guess = np.zeros_like(values)
        around = values[:-2, 1:-1] + values[2:, 1:-1] + values[1:-1, :-2] + values[1:-1, 2:]
        guess[1:-1, 1:-1] = around / (4 + SHIFT)
        await put(me, "oldga", guess)
        await solve(me, "psib", "oldga", ("psib",))
        (await field["oldga"].part(me))[:] = 0
        await me.barrier()
        await add_up(me, "psib", 1)
        await me.barrier()

    async def derive(me: Process) -> None:
        """The first four phases of a step: vorticity, its transport, and friction."""
        psi = await get(me, "psi0", "psi1")
        for layer in "01":
            await laplacian(me, f"psi{layer}", f"work1_{layer}")
            await put(me, f"temp{layer}", psi[int(layer)])
        await put(me, "work2", psi[0] - psi[1])
        await put(me, "work3", psi[0] * LOWER / WHOLE + psi[1] * UPPER / WHOLE)
        await me.barrier()
        part = by_level[-1].parts[me.number]
        turning = (await me.read(coriolis, part.left, part.left + part.columns + 2)).copy()
        for layer in "01":
            earlier, whirl = await get(me, f"psim{layer}", f"work1_{layer}")
            await put(me, f"psi{layer}", earlier)
            await laplacian(me, f"psim{layer}", f"work7_{layer}")
            await put(me, f"work1_{layer}", whirl + turning)
        await me.barrier()
        for layer in "01":
            await jacobian(me, f"work1_{layer}", f"temp{layer}", f"work5_{layer}")
            await put(me, f"psim{layer}", (await get(me, f"temp{layer}"))[0])
            await laplacian(me, f"work7_{layer}", f"work4_{layer}")
        await me.barrier()
        await jacobian(me, "work2", "work3", "work6")
        for layer in "01":
            await laplacian(me, f"work4_{layer}", f"work7_{layer}")
        await me.barrier()

    async def step(me: Process) -> None:
        await derive(me)
        shares = UPPER / WHOLE, LOWER / WHOLE
        carried = await get(me, "work5_0", "work5_1")
        rubbed = [FRICTION * each for each in await get(me, "work7_0", "work7_1")]
        between, force = await get(me, "work6", "tauz")
        total = [move + rub for move, rub in zip(carried, rubbed, strict=True)]
        await put(me, "ga", total[0] - total[1] - SHIFT / RESOLUTION**2 * between + force / UPPER)
        await put(me, "gb", shares[0] * total[0] + shares[1] * total[1] + force / WHOLE)
        await me.barrier()
        await solve(me, "ga", "oldga", ("ga", "oldga"))
        if me.number == 0:
            (await me.write(sums))[0] = 0
        await me.barrier()
        await add_up(me, "ga", 0)
        await me.barrier()
        moved, kept = (await me.read(sums)).tolist()
        ga, psib = await get(me, "ga", "psib")
        await put(me, "ga", ga - moved / kept * psib)
        await me.barrier()
        await solve(me, "gb", "oldgb", ("gb", "oldgb"))
        await me.barrier()
        ga, gb = await get(me, "ga", "gb")
        await put(me, "work2", gb - shares[0] * ga)
        await put(me, "work3", gb + shares[1] * ga)
        await me.barrier()
        for name, rate in (("psi0", "work3"), ("psi1", "work2")):
            values, change = await get(me, name, rate)
            await put(me, name, values + 2 * STEP * change)
        await me.barrier()

    async def body(me: Process) -> None:
        await begin(me)
        for _ in range(steps):
            await step(me)
        for total, layer in (("psium", "psim0"), ("psilm", "psim1")):  # for means over days
            so_far, now = await get(me, total, layer)
            await put(me, total, so_far + now)

    def check(run: Run) -> None:
        elements = run.array(field["psi0"].array)
        for layer, wanted in enumerate(reference_solution(side, given, steps)):
            error = np.abs(field[f"psi{layer}"].whole(elements) - wanted).max()
            change = np.abs(wanted - given[layer]).max()
            allowed = ERRORS_OF_SWEEP * tolerance * 2 * STEP * steps + 1e-9 * change
            check_result(
                error <= allowed,
                "ocean",
                f"layer {layer}, which changes by {change:.1e}, is off by {error:.1e}",
            )

    return SharedProgram("ocean", f"{side:,} x {side:,}", layout, set_up, body, check)


def _fields(layout: Layout, partition: Partition) -> dict[str, PartitionedGrid]:
    """All fields in one array: a process's parts one behind the other."""
    parts = partition.parts
    sizes = [part.elements for part in parts]
    array = layout.array("fields", sum(sizes) * len(FIELDS))
    before = [len(FIELDS) * sum(sizes[:process]) for process in range(len(parts))]
    return {
        name: PartitionedGrid(
            array, [first + at * size for first, size in zip(before, sizes, strict=True)], partition
        )
        for at, name in enumerate(FIELDS)
    }


def _jacobian(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Arakawa's, which keeps energy and vorticity: of eight neighbours, what turns past each."""
    here = x[1:-1, 1:-1]

    def at(grid: NDArray[np.float64], down: int, right: int) -> NDArray[np.float64]:
        rows, columns = grid.shape
        return grid[1 + down : rows - 1 + down, 1 + right : columns - 1 + right]

    def past(*points: tuple[int, int]) -> NDArray[np.float64]:
        """The sum of y at the first half of some points, less that at the others."""
        half = len(points) // 2
        signed = [
            at(y, *point) if place < half else -at(y, *point) for place, point in enumerate(points)
        ]
        return sum(signed[1:], signed[0])

    return (
        past((0, -1), (1, -1), (0, 1), (1, 1)) * (at(x, 1, 0) - here)
        + past((-1, -1), (0, -1), (-1, 1), (0, 1)) * (here - at(x, -1, 0))
        + past((1, 0), (1, 1), (-1, 0), (-1, 1)) * (at(x, 0, 1) - here)
        + past((1, -1), (1, 0), (-1, -1), (-1, 0)) * (here - at(x, 0, -1))
        + past((1, 0), (0, 1)) * (at(x, 1, 1) - here)
        + past((0, -1), (-1, 0)) * (here - at(x, -1, -1))
        + past((0, 1), (-1, 0)) * (at(x, -1, 1) - here)
        + past((1, 0), (0, -1)) * (here - at(x, 1, -1))
    ) / (12 * RESOLUTION**2)


def _quadrature(shape: tuple[int, int], own: tuple[slice, slice]) -> NDArray[np.float64]:
    """The weights of a part's points in an integral: half on an edge, a quarter in a corner."""
    weights = np.ones(shape)
    for axis, kept in enumerate(own):
        ends = [at for at in (0, shape[axis] - 1) if kept.start <= at < kept.stop]
        weights.swapaxes(0, axis)[ends] /= 2
    return weights
