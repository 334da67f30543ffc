"""Barnes-Hut: gravitation between bodies, distant ones grouped by a shared octree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.memory import Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Process, Run


LEVELS = 30  # a body's place is known to so many bits in each axis
LEAF_BODIES = 10
LOCKS = 2048  # of each level, which its cells share
ROOT = 0
AXIS_BITS = (4, 2, 1)  # what each axis adds to the number of an eighth of a cell

# With the sizes of the original's structures (defs.H) on the papers' Pentium Pros, where integers
# and pointers take four bytes.  Its cells have a quadrupole moment if it is compiled with
# ``QUADPOLE``, which "should not be defined" (README.barnes).
NODE = [
    ("made", np.int32),  # in which step
    ("mass", np.float64),
    ("pos", np.float64, 3),
    ("cost", np.int32),
    ("level", np.int32),
    ("parent", np.int32),
    ("child_number", np.int32),
]
BODY = np.dtype(
    [*NODE, ("vel", np.float64, 3), ("acc", np.float64, 3), ("phi", np.float64)], align=True
)
OWNER = ("owner", np.int32, 4)
# What is below a cell is 0 for nothing, a cell's number + 1, or less than 0: -1 - a leaf's number.
# ``sealed`` is as ``made``.
CELL = np.dtype([*NODE, OWNER, ("sealed", np.int32), ("below", np.int32, 8)], align=True)
LEAF = np.dtype([*NODE, OWNER, ("count", np.int32, 2), ("bodies", np.int32, 10)], align=True)


class Octree(NamedTuple):
    """The octree's arrays; each process allocates cells and leaves from its own share."""

    bodies: SharedArray
    cells: SharedArray
    leaves: SharedArray
    each: int  # cells, and leaves, of a process


def lay_out(layout: Layout, bodies: int, processes: int) -> Octree:
    """Allocate an octree for so many bodies."""
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
    """The octant of each position at every level: a row of ``LEVELS``."""
    places = ((positions - corner) / side * (1 << LEVELS)).astype(np.int64)
    bits = places[:, None, :] >> np.arange(LEVELS - 1, -1, -1)[None, :, None] & 1
    numbers: NDArray[np.int64] = bits @ np.array(AXIS_BITS)
    return numbers


class Builder:
    """One process's state while the tree of one step is built."""

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
        """Create the root cell; the first process does, before a barrier."""
        self.cells.append(ROOT)
        self.cell_levels.append(0)
        await self._make_cell(ROOT, 0, [0] * 8)

    async def load(self, body: int, path: list[int]) -> None:
        """Insert a body, ``path`` being its octants at every level."""
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
        """Whether the process's copy of a cell is complete and of this step."""
        target = (await self._me.read(self._tree.cells, cell, cell + 1))[0]
        return bool(target["made"] == self._step and target["sealed"] == self._step)

    async def _place(self, body: int, node: int, level: int, eighth: int) -> tuple[int, bool]:
        """Insert under the cell's lock; the octant's child, and whether the body is in it now."""
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
        """Replace a full leaf by a new cell that contains it."""
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
        """Store the leaf into its bodies, and their places in it from ``first`` on."""
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


AXES = 3


async def find_own_bodies(me: Process, tree: Octree) -> list[int]:
    """The process's share of bodies along the Hilbert curve, balanced by the last step's costs."""
    total = int((await me.read(tree.cells, ROOT, ROOT + 1))[0]["cost"])
    first, last = (total * each // me.processes for each in (me.number, me.number + 1))
    zone: list[int] = []
    waiting = [(ROOT + 1, 0, (0, 0))]  # what, the cost before it, the curve's way through it
    while waiting:
        link, before, way = waiting.pop()
        if link < 0:
            zone += await _of_leaf(me, tree, -1 - link, before, first, last)
            continue
        below = (await me.read(tree.cells, link - 1, link))[0]["below"].tolist()
        inside = []
        for eighth, further in curve(*way):
            child = below[eighth]
            if child and before < last:
                array, number = (tree.cells, child - 1) if child > 0 else (tree.leaves, -1 - child)
                cost = int((await me.read(array, number, number + 1))[0]["cost"])
                if before + cost > first:
                    inside.append((child, before, further))
                before += cost
        waiting += reversed(inside)
    return zone


async def _of_leaf(
    me: Process, tree: Octree, leaf: int, before: int, first: int, last: int
) -> list[int]:
    """A leaf's bodies whose costs begin from ``first`` to ``last``."""
    held = (await me.read(tree.leaves, leaf, leaf + 1))[0]
    bodies = held["bodies"][: int(held["count"][0])].copy()
    costs = (await me.read_elements(tree.bodies, bodies))["cost"][bodies]
    begins = before + np.cumsum(costs) - costs
    mine: list[int] = bodies[(begins >= first) & (begins < last)].tolist()
    return mine


def curve(entry: int, axis: int) -> list[tuple[int, tuple[int, int]]]:
    """The octants of a cell in Hilbert order, and the curve's orientation in each.

    ``entry``: the corner where it comes in; ``axis``: along which it leaves (Hamilton, Compact
    Hilbert Indices, 2006).
    """
    order = []
    for step in range(1 << AXES):
        eighth = _turned(step ^ step >> 1, axis + 1) ^ entry
        corner = max(0, (step - 1) // 2 * 2)
        into = entry ^ _turned(corner ^ corner >> 1, axis + 1)
        order.append((eighth, (into, (axis + _direction(step) + 1) % AXES)))
    return order


def _turned(bits: int, by: int) -> int:
    by %= AXES
    return (bits << by | bits >> (AXES - by)) & ((1 << AXES) - 1)


def _direction(step: int) -> int:
    """The axis of the curve's ``step``-th move through a cell."""
    if step == 0:
        return 0
    odd = step if step % 2 else step - 1
    return ((odd + 1 & -(odd + 1)).bit_length() - 1) % AXES


OPENING = 1.0  # a cell acts as one body from so many times its side on
SOFTENING_SQUARED = 0.05**2


class AccelerationSums:
    """Accumulated accelerations of some bodies."""

    def __init__(self, positions: NDArray[np.float64]) -> None:
        self.positions = positions
        self.acc = np.zeros_like(positions)
        self.phi = np.zeros(len(positions))
        self.count = np.zeros(len(positions), np.int64)  # of what has acted on each

    def add(self, which: NDArray[np.int64], masses: Any, away: NDArray[np.float64]) -> None:
        """Add the acceleration by masses, each on one body and ``away`` from it."""
        squared = np.einsum("ij,ij->i", away, away) + SOFTENING_SQUARED
        potential = masses / np.sqrt(squared)
        pulls = (potential / squared)[:, None] * away
        many = len(self.positions)
        self.phi -= np.bincount(which, potential, many)
        self.count += np.bincount(which, minlength=many)
        for axis in range(3):
            self.acc[:, axis] += np.bincount(which, pulls[:, axis], many)


async def find_accelerations(
    me: Process, tree: Octree, bodies: NDArray[np.int64], side: float
) -> AccelerationSums:
    """The accelerations of ``bodies`` by the whole tree; ``side``: the root's."""
    pull = AccelerationSums((await me.read_elements(tree.bodies, bodies))["pos"][bodies])
    which = np.arange(len(bodies))
    cells, leaves = np.full(len(bodies), ROOT), np.empty(0, np.int64)
    of_leaves = leaves
    squared = side * side
    while len(cells) or len(leaves):
        near = await _act(me, tree.leaves, leaves, of_leaves, pull, squared)
        # Bodies of leaves act one by one, except on themselves.
        opened = leaves[near]
        whole = await me.read_elements(tree.leaves, opened)
        is_held = np.arange(LEAF_BODIES) < whole["count"][opened][:, :1]
        others = whole["bodies"][opened][is_held]
        on = np.broadcast_to(of_leaves[near][:, None], is_held.shape)[is_held]
        is_other = others != bodies[on]
        others, on = others[is_other], on[is_other]
        whole = await me.read_elements(tree.bodies, others)
        me.work(3 * len(others))
        pull.add(on, whole["mass"][others], whole["pos"][others] - pull.positions[on])
        near = await _act(me, tree.cells, cells, which, pull, squared)
        opened = cells[near]
        below = (await me.read_elements(tree.cells, opened))["below"][opened]
        above = np.broadcast_to(which[near][:, None], below.shape)
        cells, which, leaves, of_leaves = (
            below[below > 0] - 1,
            above[below > 0],
            -1 - below[below < 0],
            above[below < 0],
        )
        squared /= 4
    return pull


async def _act(
    me: Process,
    array: SharedArray,
    nodes: NDArray[np.int64],
    which: NDArray[np.int64],
    pull: AccelerationSums,
    squared: float,
) -> NDArray[np.bool_]:
    """Apply distant nodes as one body each; the nodes that are too close for that.

    ``squared``: of the nodes' side.
    """
    whole = await me.read_elements(array, nodes)
    me.work(12 * len(nodes))
    away = whole["pos"][nodes] - pull.positions[which]
    near = OPENING**2 * np.einsum("ij,ij->i", away, away) < squared
    far = ~near
    acting = nodes[far]
    pull.add(which[far], whole["mass"][acting], away[far])
    result: NDArray[np.bool_] = near
    return result


def direct_accelerations(
    positions: NDArray[np.float64], masses: NDArray[np.float64], sample: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Accelerations of some bodies by direct summation."""
    acc = np.empty((len(sample), 3))
    for place, body in enumerate(sample.tolist()):
        away = positions - positions[body]
        squared = np.einsum("ij,ij->i", away, away) + SOFTENING_SQUARED
        acc[place] = (masses / (squared * np.sqrt(squared))) @ away
    return acc


async def find_mass_centres(me: Process, tree: Octree, builder: Builder, deepest: int) -> None:
    """Compute centres of mass of the process's own nodes; ``deepest``: the lowest level of all.

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
    """Sums over the children of some leaves or cells."""

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
            self._added.append((parents, *own))

    def write(self, whole: Any, which: NDArray[np.int64]) -> None:
        """Have them in the nodes ``which`` of an array."""
        columns = zip(*self._added, strict=True)
        parents, mass, pos, cost = (np.concatenate(each) for each in columns)
        total = np.bincount(parents, mass, self._many)
        whole["mass"][which] = total
        for axis in range(AXES):
            summed = np.bincount(parents, mass * pos[:, axis], self._many)
            whole["pos"][which, axis] = summed / total
        whole["cost"][which] = np.rint(np.bincount(parents, cost, self._many)).astype(np.int64)


MOST_OF_MASS = 0.999  # what lies within the largest radius that is drawn
LARGEST_RADIUS = 9.0
LENGTH = 9 * np.pi / 16  # of a unit of the model where M = -4E = G = 1
APART = 4.0  # of the second cluster from the first, in every axis


def plummer(bodies: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions and velocities of ``bodies`` of two Plummer spheres, in random order.

    Aarseth, Henon and Wielen, Astronomy and Astrophysics 37 (1974) 183.
    """
    rng = np.random.default_rng(seed)
    half = -(-bodies // 2)
    radius = _radii(rng, half)
    positions = LENGTH * radius[:, None] * _directions(rng, half)
    escape = np.sqrt(2.0) / (1 + radius**2) ** 0.25
    speed = _fractions(rng, half) * escape / np.sqrt(LENGTH)
    velocities = speed[:, None] * _directions(rng, half)
    positions = np.concatenate([positions, positions[: bodies - half] + APART])
    velocities = np.concatenate([velocities, velocities[: bodies - half]])
    return positions - positions.mean(axis=0), velocities - velocities.mean(axis=0)


def _radii(rng: np.random.Generator, many: int) -> NDArray[np.float64]:
    """Radii by enclosed mass, the largest ones drawn again."""
    radius = np.full(many, np.inf)
    while len(again := np.flatnonzero(radius > LARGEST_RADIUS)):
        share = rng.uniform(0.0, MOST_OF_MASS, len(again))
        radius[again] = 1 / np.sqrt(share ** (-2.0 / 3.0) - 1)
    return radius


def _fractions(rng: np.random.Generator, many: int) -> NDArray[np.float64]:
    """Fractions of the escape velocity, drawn by rejection."""
    fraction = np.full(many, np.nan)
    while len(again := np.flatnonzero(np.isnan(fraction))):
        x = rng.uniform(0.0, 1.0, len(again))
        is_kept = rng.uniform(0.0, 0.1, len(again)) <= x**2 * (1 - x**2) ** 3.5
        fraction[again[is_kept]] = x[is_kept]
    return fraction


def _directions(rng: np.random.Generator, many: int) -> NDArray[np.float64]:
    drawn = rng.standard_normal((many, 3))
    directions: NDArray[np.float64] = drawn / np.linalg.norm(drawn, axis=1)[:, None]
    return directions


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
LARGEST_MEAN_ERROR = 0.06  # of accelerations beside their mean: cells act as one, as points
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
