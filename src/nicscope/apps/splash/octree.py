"""An octree of bodies in shared memory, which all processes build at once under a lock per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import Layout, SharedArray
    from nicscope.apps.svm.process import Process

LEVELS = 30  # a body's place is known to so many bits in each axis
LEAF_BODIES = 10
LOCKS = 2048  # of each level, which its cells share
ROOT = 0
AXIS_BITS = (4, 2, 1)  # what each axis adds to the number of an eighth of a cell

# With the sizes of the original's structures, whose words are of eight bytes.
NODE = [
    ("made", np.int64),  # in which step
    ("mass", np.float64),
    ("pos", np.float64, 3),
    ("cost", np.int64),
    ("level", np.int64),
    ("parent", np.int64),
    ("child_number", np.int64),
]
BODY = np.dtype([*NODE, ("vel", np.float64, 3), ("acc", np.float64, 3), ("phi", np.float64)])
# What is below a cell is 0 for nothing, a cell's number + 1, or less than 0: -1 - a leaf's number.
# ``quad`` is the quadrupole moment about ``pos``; ``sealed`` is as ``made``.
QUAD = ("quad", np.float64, (3, 3))
CELL = np.dtype([*NODE, ("owner", np.int64, 4), ("below", np.int64, 8), ("sealed", np.int64), QUAD])
LEAF = np.dtype(
    [*NODE, ("owner", np.int64, 4), ("count", np.int64, 2), ("bodies", np.int64, 10), QUAD]
)


class Octree(NamedTuple):
    """Its arrays; each process has a share of the cells and leaves to make new ones of."""

    bodies: SharedArray
    cells: SharedArray
    leaves: SharedArray
    each: int  # cells, and leaves, of a process


def lay_out(layout: Layout, bodies: int, processes: int) -> Octree:
    """An octree of so many bodies."""
    each = -(-bodies // processes) + 64
    return Octree(
        layout.array("bodies", bodies, BODY),
        layout.array("cells", each * processes, CELL),
        layout.array("leaves", each * processes, LEAF),
        each,
    )


def eighths(
    positions: NDArray[np.float64], corner: NDArray[np.float64], side: float
) -> NDArray[np.int64]:
    """In which eighth of its cell each position lies, at every level: a row of ``LEVELS``."""
    places = ((positions - corner) / side * (1 << LEVELS)).astype(np.int64)
    bits = places[:, None, :] >> np.arange(LEVELS - 1, -1, -1)[None, :, None] & 1
    numbers: NDArray[np.int64] = bits @ np.array(AXIS_BITS)
    return numbers


class Builder:
    """One process's part in building the tree of one step."""

    def __init__(self, me: Process, tree: Octree, step: int) -> None:
        """``step`` counts from 1."""
        self._me = me
        self._tree = tree
        self._step = step
        self.cube = (np.zeros(3), 1.0)  # the root's lowest corner, and its side
        self.cells: list[int] = []  # that it has made
        self.cell_levels: list[int] = []
        self.leaves: list[int] = []

    async def make_root(self) -> None:
        """Make the cell that all are below; the first process does, before a barrier."""
        self.cells.append(ROOT)
        self.cell_levels.append(0)
        await self._make_cell(ROOT, 0, [0] * 8)

    async def load(self, body: int, path: list[int]) -> None:
        """Place a body, ``path`` saying in which eighth at every level."""
        node, level = ROOT, 0
        while level < LEVELS - 1:
            cell = (await self._me.read(self._tree.cells, node, node + 1))[0]
            link = int(cell["below"][path[level]])
            if link > 0 and await self._is_known(link - 1):
                node, level = link - 1, level + 1
                continue
            # Not before the lock is its own does a process know what lies below the cell.
            lock = self._lock(node, level)
            await self._me.acquire(lock)
            link, is_placed = await self._place(body, node, level, path[level])
            await self._me.release(lock)
            if is_placed:
                return
            node, level = link - 1, level + 1
        raise SimulationError(f"barnes: more than {LEAF_BODIES} bodies at the place of {body}")

    async def _is_known(self, cell: int) -> bool:
        """Whether the process's copy of a cell is of this step, and all of it."""
        target = (await self._me.read(self._tree.cells, cell, cell + 1))[0]
        return bool(target["made"] == self._step and target["sealed"] == self._step)

    async def _place(self, body: int, node: int, level: int, eighth: int) -> tuple[int, bool]:
        """Under the cell's lock: what lies in its eighth, and whether the body is there now."""
        cells = await self._me.read(self._tree.cells, node, node + 1)
        link = int(cells[0]["below"][eighth])
        if link > 0:
            return link, False
        if link == 0:
            leaf = await self._make_leaf(node, level + 1, eighth, [body])
            await self._link(node, eighth, -1 - leaf)
            return 0, True
        leaf = -1 - link
        held = (await self._me.read(self._tree.leaves, leaf, leaf + 1))[0]
        count = int(held["count"][0])
        if count < LEAF_BODIES:
            held = (await self._me.write(self._tree.leaves, leaf, leaf + 1))[0]
            held["bodies"][count] = body
            held["count"][0] = count + 1
            await self._tell_bodies([body], leaf, level + 1, count)
            return 0, True
        cell = await self._subdivide(leaf, node, level + 1, eighth)
        await self._link(node, eighth, cell + 1)
        return cell + 1, False

    async def _subdivide(self, leaf: int, parent: int, level: int, eighth: int) -> int:
        """A new cell in the place of a full leaf, which is one of those below it from now on."""
        me, tree = self._me, self._tree
        bodies = (await me.read(tree.leaves, leaf, leaf + 1))[0]["bodies"].copy()
        positions = (await me.read_elements(tree.bodies, bodies))["pos"][bodies]
        parts = eighths(positions, *self.cube)[:, level]
        cell = self._next(self.cells, "cells")
        self.cells.append(cell)
        self.cell_levels.append(level)
        # Who holds the new cell's lock next has to know of its leaves; locks are taken downwards.
        lock = self._lock(cell, level)
        await me.acquire(lock)
        below = [0] * 8
        for part in dict.fromkeys(parts.tolist()):
            inside = bodies[parts == part].tolist()
            if part == parts[0]:
                await self._fill_leaf(leaf, cell, level + 1, part, inside)
                below[part] = -1 - leaf
            else:
                below[part] = -1 - await self._make_leaf(cell, level + 1, part, inside)
        await self._make_cell(cell, level, below, parent, eighth)
        await me.release(lock)
        return cell

    async def _make_cell(
        self, number: int, level: int, below: list[int], parent: int = ROOT, eighth: int = 0
    ) -> None:
        cell = (await self._me.write(self._tree.cells, number, number + 1))[0]
        cell["parent"], cell["child_number"], cell["level"] = parent, eighth, level
        cell["owner"], cell["below"] = self._me.number, below
        cell["mass"] = cell["cost"] = 0
        cell["made"] = cell["sealed"] = self._step

    async def _make_leaf(self, parent: int, level: int, eighth: int, bodies: list[int]) -> int:
        leaf = self._next(self.leaves, "leaves")
        self.leaves.append(leaf)
        await self._fill_leaf(leaf, parent, level, eighth, bodies)
        return leaf

    async def _fill_leaf(
        self, number: int, parent: int, level: int, eighth: int, bodies: list[int]
    ) -> None:
        leaf = (await self._me.write(self._tree.leaves, number, number + 1))[0]
        leaf["parent"], leaf["child_number"], leaf["level"] = parent, eighth, level
        leaf["made"], leaf["owner"] = self._step, self._me.number
        leaf["bodies"] = bodies + [0] * (LEAF_BODIES - len(bodies))
        leaf["count"][0] = len(bodies)
        await self._tell_bodies(bodies, number, level, 0)

    async def _tell_bodies(self, bodies: list[int], leaf: int, level: int, first: int) -> None:
        """Have bodies know their leaf, and their places in it from ``first`` on."""
        which = np.array(bodies)
        whole = await self._me.write_elements(self._tree.bodies, which)
        whole["parent"][which], whole["level"][which] = leaf, level
        whole["child_number"][which] = first + np.arange(len(which))

    async def _link(self, node: int, eighth: int, link: int) -> None:
        cells = await self._me.write(self._tree.cells, node, node + 1)
        cells[0]["below"][eighth] = link

    def _next(self, made: list[int], what: str) -> int:
        if len(made) == self._tree.each:
            raise SimulationError(f"barnes: process {self._me.number} is out of {what}")
        return self._me.number * self._tree.each + len(made)

    def _lock(self, cell: int, level: int) -> Any:
        return ("cell", level, cell % LOCKS)
