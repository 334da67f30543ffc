"""Gravity of an octree's cells, leaves and bodies on bodies, many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.octree import LEAF_BODIES, ROOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.splash.octree import Octree
    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process

OPENING = 1.0  # a cell acts as one body from so many times its side on
SOFTENING_SQUARED = 0.05**2


class Pull:
    """What acts on some bodies: the sums so far."""

    def __init__(self, positions: NDArray[np.float64]) -> None:
        self.positions = positions
        self.acc = np.zeros_like(positions)
        self.phi = np.zeros(len(positions))
        self.count = np.zeros(len(positions), np.int64)  # of what has acted on each

    def add(
        self,
        which: NDArray[np.int64],
        masses: Any,
        away: NDArray[np.float64],
        quads: NDArray[np.float64] | None = None,
    ) -> None:
        """Have masses act, each on one of the bodies and ``away`` from it.

        ``quads``: their quadrupole moments, unless they are points.
        """
        squared = np.einsum("ij,ij->i", away, away) + SOFTENING_SQUARED
        potential = masses / np.sqrt(squared)
        pulls = (potential / squared)[:, None] * away
        if quads is not None:
            turned = np.einsum("ijk,ik->ij", quads, away) / (squared**2 * np.sqrt(squared))[:, None]
            more = np.einsum("ij,ij->i", away, turned) / 2
            potential = potential + more
            pulls += (5 * more / squared)[:, None] * away - turned
        many = len(self.positions)
        self.phi -= np.bincount(which, potential, many)
        self.count += np.bincount(which, minlength=many)
        for axis in range(3):
            self.acc[:, axis] += np.bincount(which, pulls[:, axis], many)


async def find_pull(me: Process, tree: Octree, bodies: NDArray[np.int64], side: float) -> Pull:
    """What acts on ``bodies``; ``side``: the root's."""
    pull = Pull((await me.read_elements(tree.bodies, bodies))["pos"][bodies])
    which = np.arange(len(bodies))
    cells, leaves = np.full(len(bodies), ROOT), np.empty(0, np.int64)
    of_leaves = leaves
    squared = side * side
    while len(cells) or len(leaves):
        near = await _act(me, tree.leaves, leaves, of_leaves, pull, squared)
        await _act_singly(me, tree, leaves[near], of_leaves[near], bodies, pull)
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
    pull: Pull,
    squared: float,
) -> NDArray[np.bool_]:
    """Have nodes that are far enough act as one body each; which are not.

    ``squared``: of the nodes' side.
    """
    whole = await me.read_elements(array, nodes)
    me.work(12 * len(nodes))
    away = whole["pos"][nodes] - pull.positions[which]
    near = OPENING**2 * np.einsum("ij,ij->i", away, away) < squared
    far = ~near
    acting = nodes[far]
    pull.add(which[far], whole["mass"][acting], away[far], whole["quad"][acting])
    result: NDArray[np.bool_] = near
    return result


async def _act_singly(
    me: Process,
    tree: Octree,
    leaves: NDArray[np.int64],
    which: NDArray[np.int64],
    bodies: NDArray[np.int64],
    pull: Pull,
) -> None:
    """Have the bodies of leaves act, but on themselves."""
    whole = await me.read_elements(tree.leaves, leaves)
    is_held = np.arange(LEAF_BODIES) < whole["count"][leaves][:, :1]
    others = whole["bodies"][leaves][is_held]
    on = np.broadcast_to(which[:, None], is_held.shape)[is_held]
    is_other = others != bodies[on]
    others, on = others[is_other], on[is_other]
    whole = await me.read_elements(tree.bodies, others)
    me.work(3 * len(others))
    pull.add(on, whole["mass"][others], whole["pos"][others] - pull.positions[on])


def pull_of_all(
    positions: NDArray[np.float64], masses: NDArray[np.float64], sample: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Accelerations of some bodies by all others, one by one."""
    acc = np.empty((len(sample), 3))
    for place, body in enumerate(sample.tolist()):
        away = positions - positions[body]
        squared = np.einsum("ij,ij->i", away, away) + SOFTENING_SQUARED
        acc[place] = (masses / (squared * np.sqrt(squared))) @ away
    return acc
