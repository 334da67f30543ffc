"""Barnes-Hut: gravitation between bodies, distant ones grouped by an octree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.octree import (
    ROOT,
    Builder,
    Octree,
    direct_accelerations,
    eighths,
    find_accelerations,
    find_mass_centres,
    find_own_bodies,
    lay_out,
    plummer,
)
from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.domain import Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import SharedArray
    from nicscope.apps.svm.process import Process, Run

STEP = 0.025  # of time
BATCH = 128  # bodies whose pull is found at once
MARGIN = 1e-5  # of the root's side, around the bodies
FAR = 1e99
BOUNDS = np.dtype(
    [
        ("low", np.float64, 3),  # of the bodies that have been advanced in this step
        ("high", np.float64, 3),
        ("corner", np.float64, 3),  # of the root
        ("side", np.float64),
        ("deepest", np.int64),  # level of cells
    ]
)
SAMPLE = 256  # bodies whose acceleration is checked one by one
LARGEST_MEAN_ERROR = 0.03  # of accelerations beside their mean: cells act as one
FEW = 20  # bodies: what a cell far from its own corner does to itself is not small among them
LARGEST_DRIFT = 2e-3  # of the momentum, beside the sum of all momenta's sizes


def barnes(bodies: int, processes: int, seed: int = 0, steps: int = 1) -> SharedProgram:
    """Simulate ``steps`` steps of ``bodies`` in two clusters.

    In the first step each process loads bodies that lie next to each other in memory, anywhere in
    space; from then on those of its zone.  Barriers part cutting zones, forces and advancing, where
    the original lets costs and places be read that are of the next step already.
    """
    if bodies < max(2, processes) or steps < 1:
        raise SimulationError(
            f"barnes: {bodies} bodies and {steps} steps: at least 2 bodies, one for each of "
            f"{processes} processes, and 1 step"
        )
    layout = Layout()
    tree = lay_out(layout, bodies, processes)
    bounds = layout.array("bounds", 1, BOUNDS)
    positions, velocities = plummer(bodies, seed)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        given = array_of(tree.bodies)
        given["pos"], given["vel"] = positions, velocities
        given["mass"], given["cost"] = 1 / bodies, 1
        bound = array_of(bounds)[0]
        bound["low"], bound["high"] = positions.min(axis=0), positions.max(axis=0)

    async def body(me: Process) -> None:
        first, last = (bodies * each // processes for each in (me.number, me.number + 1))
        await me.write(tree.bodies, first, last)  # their homes are here
        mine = np.arange(first, last)
        for step in range(1, steps + 1):
            builder = await _build(me, tree, bounds, mine, step)
            bound = (await me.read(bounds))[0]
            deepest, side = int(bound["deepest"]), float(bound["side"])
            await find_mass_centres(me, tree, builder, deepest)
            mine = np.array(await find_own_bodies(me, tree), np.int64)
            await me.barrier()  # zones are cut by the costs that forces replace
            for batch in range(0, len(mine), BATCH):
                await _attract(me, tree, mine[batch : batch + BATCH], side, is_first=step == 1)
            await me.barrier()
            await _advance(me, tree, bounds, mine)
            await me.barrier()

    def check(run: Run) -> None:
        end = run.array(tree.bodies)
        before = end["pos"] - STEP * (end["vel"] - STEP / 2 * end["acc"])
        _check_tree(run, tree, before)
        if steps == 1:
            error = np.abs(before - positions).max()
            check_result(error < 1e-9, "barnes", f"a body has come {error:.1e} off its way")
        _check_motion(end, before, seed)

    return SharedProgram("barnes", f"{bodies:,} bodies", layout, set_up, body, check)


async def _build(
    me: Process, tree: Octree, bounds: SharedArray, mine: NDArray[np.int64], step: int
) -> Builder:
    """Build the tree together; the nodes that the process has created."""
    builder = Builder(me, tree, step)
    if me.number == 0:
        bound = (await me.write(bounds))[0]
        side = (bound["high"] - bound["low"]).max()
        bound["corner"], bound["side"] = bound["low"] - side * MARGIN, side * (1 + 2 * MARGIN)
        bound["low"], bound["high"], bound["deepest"] = FAR, -FAR, 0
        await builder.make_root()
    await me.barrier()
    bound = (await me.read(bounds))[0]
    builder.cube = (bound["corner"].copy(), float(bound["side"]))
    paths = eighths((await me.read_elements(tree.bodies, mine))["pos"][mine], *builder.cube)
    for number, path in zip(mine.tolist(), paths.tolist(), strict=True):
        await builder.load(number, path)
    await me.acquire("count")
    bound = (await me.write(bounds))[0]
    bound["deepest"] = max(int(bound["deepest"]), *builder.cell_levels, 0)
    await me.release("count")
    await me.barrier()
    return builder


async def _attract(
    me: Process, tree: Octree, batch: NDArray[np.int64], side: float, *, is_first: bool
) -> None:
    """Compute the accelerations of a batch of bodies."""
    pull = await find_accelerations(me, tree, batch, side)
    whole = await me.write_elements(tree.bodies, batch)
    if not is_first:  # their velocities were advanced with the acceleration of the step before
        whole["vel"][batch] += (pull.acc - whole["acc"][batch]) * (STEP / 2)
    whole["acc"][batch], whole["phi"][batch] = pull.acc, pull.phi
    whole["cost"][batch] = pull.count


async def _advance(me: Process, tree: Octree, bounds: SharedArray, mine: NDArray[np.int64]) -> None:
    """Move the process's bodies, and extend the global bounds by their positions."""
    if not len(mine):
        return
    whole = await me.write_elements(tree.bodies, mine)
    half = whole["acc"][mine] * (STEP / 2)
    middle = whole["vel"][mine] + half
    whole["pos"][mine] += middle * STEP
    whole["vel"][mine] = middle + half
    low, high = whole["pos"][mine].min(axis=0), whole["pos"][mine].max(axis=0)
    me.work(9 * len(mine))
    await me.acquire("count")
    bound = (await me.write(bounds))[0]
    bound["low"] = np.minimum(bound["low"], low)
    bound["high"] = np.maximum(bound["high"], high)
    await me.release("count")


def _check_tree(run: Run, tree: Octree, positions: NDArray[np.float64]) -> None:
    """Check that the last tree holds every body once, in its leaf, and that its root has all."""
    bodies, cells, leaves = (run.array(array) for array in tree[:3])
    waiting, found = [ROOT], [np.empty(0, np.int64)]
    while waiting:
        below = cells[waiting.pop()]["below"]
        waiting += (below[below > 0] - 1).tolist()
        for leaf in (-1 - below[below < 0]).tolist():
            held = leaves[leaf]["bodies"][: leaves[leaf]["count"][0]]
            is_told = (bodies["parent"][held] == leaf).all()
            check_result(is_told, "barnes", f"a body of leaf {leaf} has another for its own")
            found.append(held)
    every = np.sort(np.concatenate(found))
    is_whole = len(every) == len(bodies) and (every == np.arange(len(bodies))).all()
    check_result(is_whole, "barnes", "the tree does not have every body once")
    off = np.abs(cells[ROOT]["pos"] - positions.mean(axis=0)).max()
    check_result(off < 1e-9, "barnes", f"the root's centre of mass is off by {off:.1e}")


def _check_motion(end: NDArray[Any], before: NDArray[np.float64], seed: int) -> None:
    """Check accelerations against direct summation, and that total momentum is conserved."""
    sample = np.random.default_rng(seed).permutation(len(end))[:SAMPLE]
    wanted = direct_accelerations(before, end["mass"], sample)
    sizes = np.linalg.norm(wanted, axis=1)
    error = np.linalg.norm(end["acc"][sample] - wanted, axis=1).sum() / sizes.sum()
    check_result(
        error < LARGEST_MEAN_ERROR or len(end) < FEW,
        "barnes",
        f"accelerations are off by {error:.1%} of their mean",
    )
    momenta = end["mass"][:, None] * end["vel"]
    drift = np.abs(momenta.sum(axis=0)).max() / np.abs(momenta).sum()
    check_result(drift < LARGEST_DRIFT, "barnes", f"all bodies together drift by {drift:.1e}")
