"""Centres of mass of an octree's leaves and cells, from below, a level at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.octree import LEAF_BODIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.splash.octree import Builder, Octree
    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process


async def find_mass_centres(me: Process, tree: Octree, builder: Builder, deepest: int) -> None:
    """Each process does this for what it has made; ``deepest``: the lowest level of cells of all.

    The original waits for a flag of each child, which says nothing on memory that is consistent
    only after locks and barriers: here a barrier parts one level from the next.
    """
    if builder.leaves:
        await _centre_leaves(me, tree, np.array(builder.leaves))
    levels = np.array(builder.cell_levels)
    cells = np.array(builder.cells)
    for level in range(deepest, -1, -1):
        await me.barrier()
        if (levels == level).any():
            await _centre_cells(me, tree, cells[levels == level])
    await me.barrier()


async def _centre_leaves(me: Process, tree: Octree, leaves: NDArray[np.int64]) -> None:
    held = await me.read_elements(tree.leaves, leaves)
    is_held = np.arange(LEAF_BODIES) < held["count"][leaves][:, :1]
    parents = np.nonzero(is_held)[0]
    bodies = held["bodies"][leaves][is_held]
    sums = await _sums_of(me, tree.bodies, bodies, parents, len(leaves))
    _set(await me.write_elements(tree.leaves, leaves), leaves, sums)


async def _centre_cells(me: Process, tree: Octree, cells: NDArray[np.int64]) -> None:
    below = (await me.read_elements(tree.cells, cells))["below"][cells]
    many = len(cells)
    inner, outer = below > 0, below < 0
    sums = await _sums_of(me, tree.cells, below[inner] - 1, np.nonzero(inner)[0], many)
    sums += await _sums_of(me, tree.leaves, -1 - below[outer], np.nonzero(outer)[0], many)
    _set(await me.write_elements(tree.cells, cells), cells, sums)


async def _sums_of(
    me: Process,
    array: SharedArray,
    children: NDArray[np.int64],
    parents: NDArray[np.int64],
    many: int,
) -> NDArray[np.float64]:
    """For each of ``many`` parents, its children's mass, mass times place, and cost."""
    sums = np.zeros((many, 5))
    if len(children):
        whole = await me.read_elements(array, children)
        me.work(4 * len(children))
        mass = whole["mass"][children]
        values = [mass, *(mass * whole["pos"][children].T), whole["cost"][children]]
        for place, weights in enumerate(values):
            sums[:, place] = np.bincount(parents, weights, many)
    return sums


def _set(whole: Any, which: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    whole["mass"][which] = sums[:, 0]
    whole["pos"][which] = sums[:, 1:4] / sums[:, :1]
    whole["cost"][which] = np.rint(sums[:, 4]).astype(np.int64)
