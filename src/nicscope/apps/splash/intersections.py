"""Where rays meet primitives first: by the hierarchy of boxes, or by trying all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.splash.scene import LEAF_PRIMITIVES, SPHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process

DEEPEST = 64  # boxes that wait for one ray
NEAREST = 1e-9  # a ray does not meet what it comes from
NOTHING = -1


class Rays(NamedTuple):
    """Origins, directions of length 1, and how far each goes."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    reach: NDArray[np.float64]


class Hits(NamedTuple):
    """Which primitive each ray meets first, ``NOTHING`` if none, and how far off."""

    which: NDArray[np.int64]
    distances: NDArray[np.float64]


def dot(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each row with its like; in the same order of additions for any number of rows."""
    products = left * right
    total: NDArray[np.float64] = products[..., 0] + products[..., 1] + products[..., 2]
    return total


def cross(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product of each row with its like that is across both; NumPy's takes long for few."""
    product = np.empty(np.broadcast_shapes(left.shape, right.shape))
    for axis in range(3):
        one, two = (axis + 1) % 3, (axis + 2) % 3
        product[..., axis] = left[..., one] * right[..., two] - left[..., two] * right[..., one]
    return product


async def hits_by_boxes(
    me: Process, boxes: SharedArray, primitives: SharedArray, rays: Rays, *, any_will_do: bool
) -> Hits:
    """The rays go through the hierarchy side by side, each to its nearer boxes first.

    ``any_will_do``: a ray that has met something ends there.
    """
    many = len(rays.origins)
    which, best = np.full(many, NOTHING), rays.reach.copy()
    with np.errstate(divide="ignore"):
        inverse = 1.0 / rays.directions
    stack, height = np.zeros((many, DEEPEST), np.int64), np.ones(many, np.int64)
    while len(going := np.flatnonzero(height)):
        height[going] -= 1
        tops = stack[going, height[going]]
        whole = await me.read_elements(boxes, tops)
        me.work(2 * len(tops))
        enters = _enters(whole[tops], rays.origins[going], inverse[going], best[going])
        going, tops = going[enters], tops[enters]
        found = whole[tops]
        is_leaf = found["count"] > 0
        _push(stack, height, going[~is_leaf], tops[~is_leaf], found[~is_leaf], rays.directions)
        leaves, on = found[is_leaf], going[is_leaf]
        inside = np.arange(LEAF_PRIMITIVES) < leaves["count"][:, None]
        tried = (leaves["first"][:, None] + np.arange(LEAF_PRIMITIVES))[inside].astype(np.int64)
        on = np.repeat(on, leaves["count"])
        whole = await me.read_elements(primitives, tried)
        me.work(4 * len(tried))
        far = distances_to(whole[tried], rays.origins[on], rays.directions[on])
        _keep_nearest(which, best, on, tried, far)
        if any_will_do:
            height[which != NOTHING] = 0
    return Hits(which, best)


def _enters(
    boxes: NDArray[Any],
    origins: NDArray[np.float64],
    inverse: NDArray[np.float64],
    best: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Whether each ray comes into its box before what it has met."""
    with np.errstate(invalid="ignore"):
        one, other = (boxes["low"] - origins) * inverse, (boxes["high"] - origins) * inverse
    first = np.fmax.reduce(np.fmin(one, other), axis=1)
    last = np.fmin.reduce(np.fmax(one, other), axis=1)
    entered: NDArray[np.bool_] = (first <= last) & (last >= 0) & (first <= best)
    return entered


def _push(
    stack: NDArray[np.int64],
    height: NDArray[np.int64],
    rays: NDArray[np.int64],
    parents: NDArray[np.int64],
    boxes: NDArray[Any],
    directions: NDArray[np.float64],
) -> None:
    """Both boxes within each wait for the ray, the nearer one above the other."""
    back = directions[rays, boxes["axis"]] < 0
    nearer = np.where(back, boxes["second"], parents + 1)
    further = np.where(back, parents + 1, boxes["second"])
    stack[rays, height[rays]] = further
    stack[rays, height[rays] + 1] = nearer
    height[rays] += 2


def _keep_nearest(
    which: NDArray[np.int64],
    best: NDArray[np.float64],
    rays: NDArray[np.int64],
    tried: NDArray[np.int64],
    far: NDArray[np.float64],
) -> None:
    """Of all that a ray was tried on, and what it had met, the nearest."""
    order = np.lexsort((tried, far))[::-1]  # the nearest is written last
    order = order[far[order] < best[rays[order]]]
    best[rays[order]] = far[order]
    which[rays[order]] = tried[order]


def distances_to(
    primitives: NDArray[Any], origins: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How far each ray goes to its primitive; infinity if it does not meet it."""
    round_ones = primitives["kind"] == SPHERE
    far = _to_triangles(primitives["points"], origins, directions)
    if round_ones.any():
        to_spheres = _to_spheres(
            primitives["points"][..., 0, :], primitives["radius"], origins, directions
        )
        far = np.where(round_ones, to_spheres, far)
    return far


def _to_triangles(
    points: NDArray[np.float64], origins: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Moeller and Trumbore, Journal of Graphics Tools 2 (1997) 21."""
    one, two = points[..., 1, :] - points[..., 0, :], points[..., 2, :] - points[..., 0, :]
    across = cross(directions, two)
    scale = dot(one, across)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = origins - points[..., 0, :]
        u = dot(away, across) / scale
        over = cross(away, one)
        v = dot(directions, over) / scale
        far = dot(two, over) / scale
        meets = (u >= 0) & (v >= 0) & (u + v <= 1) & (far > NEAREST)
    return np.where(meets, far, np.inf)


def _to_spheres(
    centres: NDArray[np.float64],
    radius: NDArray[np.float64],
    origins: NDArray[np.float64],
    directions: NDArray[np.float64],
) -> NDArray[np.float64]:
    away = centres - origins
    along = dot(away, directions)
    within = radius * radius - (dot(away, away) - along * along)
    half = np.sqrt(np.maximum(within, 0))
    far = np.where(along - half > NEAREST, along - half, along + half)
    return np.where((within >= 0) & (far > NEAREST), far, np.inf)


def hits_by_trying_all(primitives: NDArray[Any], rays: Rays) -> Hits:
    """Every ray against every primitive."""
    which, best = np.full(len(rays.origins), NOTHING), rays.reach.copy()
    for ray in range(len(which)):
        far = distances_to(primitives, rays.origins[ray], rays.directions[ray])
        nearest = int(far.argmin())
        if far[nearest] < best[ray]:
            which[ray], best[ray] = nearest, far[nearest]
    return Hits(which, best)
