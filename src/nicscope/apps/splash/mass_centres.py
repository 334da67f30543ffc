"""Mass, its centre and its quadrupole moment in an octree's leaves and cells, from below."""

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
    parts = Parts(len(leaves))
    await parts.add(me, tree.bodies, bodies, parents)
    parts.write(await me.write_elements(tree.leaves, leaves), leaves)


async def _centre_cells(me: Process, tree: Octree, cells: NDArray[np.int64]) -> None:
    below = (await me.read_elements(tree.cells, cells))["below"][cells]
    inner, outer = below > 0, below < 0
    parts = Parts(len(cells))
    await parts.add(me, tree.cells, below[inner] - 1, np.nonzero(inner)[0])
    await parts.add(me, tree.leaves, -1 - below[outer], np.nonzero(outer)[0])
    parts.write(await me.write_elements(tree.cells, cells), cells)


class Parts:
    """What lies directly below some leaves or cells."""

    def __init__(self, many: int) -> None:
        self._many = many
        self._added: list[tuple[Any, ...]] = []

    async def add(
        self,
        me: Process,
        array: SharedArray,
        children: NDArray[np.int64],
        parents: NDArray[np.int64],
    ) -> None:
        """``children`` of an array, each below one of ``parents``."""
        if len(children):
            whole = await me.read_elements(array, children)
            me.work(13 * len(children))
            own = [whole[name][children] for name in ("mass", "pos", "cost")]
            has_quad = "quad" in (array.dtype.names or ())
            quad = whole["quad"][children] if has_quad else np.zeros((len(children), 3, 3))
            self._added.append((parents, *own, quad))

    def write(self, whole: Any, which: NDArray[np.int64]) -> None:
        """Have them in the nodes ``which`` of an array."""
        columns = zip(*self._added, strict=True)
        parents, mass, pos, cost, quad = (np.concatenate(each) for each in columns)
        total = self._sums(parents, mass)
        centre = self._sums(parents, mass[:, None] * pos) / total[:, None]
        away = pos - centre[parents]
        squared = np.einsum("ij,ij->i", away, away)
        moment = 3 * away[:, :, None] * away[:, None] - squared[:, None, None] * np.eye(3)
        whole["mass"][which], whole["pos"][which] = total, centre
        whole["cost"][which] = np.rint(self._sums(parents, cost)).astype(np.int64)
        whole["quad"][which] = self._sums(parents, quad + mass[:, None, None] * moment)

    def _sums(self, parents: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.float64]:
        flat = values.reshape(len(parents), -1).T
        sums: NDArray[np.float64] = np.empty((self._many, len(flat)))
        for place, each in enumerate(flat):
            sums[:, place] = np.bincount(parents, each, self._many)
        return sums.reshape(self._many, *values.shape[1:])
