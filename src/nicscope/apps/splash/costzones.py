"""Costzones: bodies along a curve through the octree, cut into shares of equal cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.splash.octree import ROOT

if TYPE_CHECKING:
    from nicscope.apps.splash.octree import Octree
    from nicscope.apps.svm.process import Process

AXES = 3


async def find_zone(me: Process, tree: Octree) -> list[int]:
    """The process's bodies, in the order of the curve, by what each cost in the last step."""
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
    """Hilbert's curve through a cell: its eighths in order, and the curve's way through each.

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
    """Along which axis the curve goes through a cell's ``step``-th eighth."""
    if step == 0:
        return 0
    odd = step if step % 2 else step - 1
    return ((odd + 1 & -(odd + 1)).bit_length() - 1) % AXES
