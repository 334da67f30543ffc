"""Ocean: currents driven by wind in a square basin of two layers, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.multigrid import Multigrid, partitions
from nicscope.apps.splash.ocean_alone import (
    BETA,
    CORIOLIS,
    FRICTION,
    LOWER,
    RESOLUTION,
    SHIFT,
    STEP,
    UPPER,
    WHOLE,
    given_eddies,
    solution_alone,
    wind,
)
from nicscope.apps.splash.partitions import PartedGrid
from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.layout import Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.splash.partitions import Partition
    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process
    from nicscope.apps.svm.running import Run

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
    given = given_eddies(side, seed)

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
        await put(me, target, _laplacian(values), inner=True)
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
        await multigrid.have_homes(me)
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
        for layer, wanted in enumerate(solution_alone(side, given, steps)):
            error = np.abs(field[f"psi{layer}"].whole(elements) - wanted).max()
            change = np.abs(wanted - given[layer]).max()
            allowed = ERRORS_OF_SWEEP * tolerance * 2 * STEP * steps + 1e-9 * change
            check_result(
                error <= allowed,
                "ocean",
                f"layer {layer}, which changes by {change:.1e}, is off by {error:.1e}",
            )

    return SharedProgram("ocean", f"{side:,} x {side:,}", layout, set_up, body, check)


def _fields(layout: Layout, partition: Partition) -> dict[str, PartedGrid]:
    """All fields in one array: a process's parts one behind the other."""
    parts = partition.parts
    sizes = [part.elements for part in parts]
    array = layout.array("fields", sum(sizes) * len(FIELDS))
    before = [len(FIELDS) * sum(sizes[:process]) for process in range(len(parts))]
    return {
        name: PartedGrid(
            array, [first + at * size for first, size in zip(before, sizes, strict=True)], partition
        )
        for at, name in enumerate(FIELDS)
    }


def _laplacian(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """At the inner points of a part."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return (around - 4 * x[1:-1, 1:-1]) / RESOLUTION**2


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
    """What each point of a part counts in an integral: half on an edge, a quarter in a corner."""
    weights = np.ones(shape)
    for axis, kept in enumerate(own):
        ends = [at for at in (0, shape[axis] - 1) if kept.start <= at < kept.stop]
        weights.swapaxes(0, axis)[ends] /= 2
    return weights
