"""A scene of many small triangles and spheres, and the hierarchy of boxes around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIANGLE, SPHERE = 0, 1
PRIMITIVE = np.dtype(
    [
        ("kind", np.int64),
        ("points", np.float64, (3, 3)),  # a triangle's corners; a sphere's centre, first
        ("radius", np.float64),
        ("normal", np.float64, 3),  # of a triangle
        ("low", np.float64, 3),
        ("high", np.float64, 3),
        ("colour", np.float64, 3),
        ("diffuse", np.float64),
        ("specular", np.float64),
        ("mirror", np.float64),  # how much of what it reflects
    ]
)
# A leaf has ``count`` primitives from ``first`` on, another node two boxes: its own number + 1,
# and ``second``, which lies further along ``axis``.
BOX = np.dtype(
    [
        ("low", np.float64, 3),
        ("high", np.float64, 3),
        ("second", np.int32),
        ("axis", np.int32),
        ("first", np.int32),
        ("count", np.int32),
    ]
)
LEAF_PRIMITIVES = 4
SPHERES = 4  # one primitive of so many
MIRRORS = 4
COVER = 3.0  # how often the primitives would cover a side of the cube that they fill


class Scene(NamedTuple):
    """Its primitives in the order of the hierarchy's leaves, and the boxes, the root first."""

    primitives: NDArray[Any]
    boxes: NDArray[Any]


def make_scene(many: int, seed: int) -> Scene:
    """So many primitives spread over the unit cube, in the same way for the same seed."""
    rng = np.random.default_rng(seed)
    made = np.zeros(many, PRIMITIVE)
    size = np.sqrt(COVER / many)
    centres = rng.uniform(0.0, 1.0, (many, 3))
    made["kind"] = np.where(np.arange(many) % SPHERES == 0, SPHERE, TRIANGLE)
    corners = centres[:, None, :] + rng.uniform(-size, size, (many, 3, 3))
    made["points"] = corners
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    made["normal"] = normal / np.linalg.norm(normal, axis=1)[:, None]
    made["low"], made["high"] = corners.min(axis=1), corners.max(axis=1)
    round_ones = made["kind"] == SPHERE
    radius = rng.uniform(size / 4, size / 2, many)[round_ones]
    made["radius"][round_ones] = radius
    made["points"][round_ones] = centres[round_ones][:, None, :]
    made["low"][round_ones] = centres[round_ones] - radius[:, None]
    made["high"][round_ones] = centres[round_ones] + radius[:, None]
    made["colour"] = rng.uniform(0.2, 1.0, (many, 3))
    made["diffuse"], made["specular"] = 0.7, 0.3
    made["mirror"] = np.where(rng.integers(0, MIRRORS, many) == 0, 0.5, 0.0)
    return _in_boxes(made)


def _in_boxes(primitives: NDArray[Any]) -> Scene:
    """Boxes cut in halves of as many primitives across their longest side."""
    centres = (primitives["low"] + primitives["high"]) / 2
    boxes = np.zeros(2 * len(primitives), BOX)
    order: list[NDArray[np.int64]] = []
    placed, used = 0, 0
    waiting = [(np.arange(len(primitives)), -1)]  # what is in it, and whose second box it is
    while waiting:
        inside, parent = waiting.pop()
        box, number = boxes[used], used
        used += 1
        if parent >= 0:
            boxes["second"][parent] = number
        box["low"] = primitives["low"][inside].min(axis=0)
        box["high"] = primitives["high"][inside].max(axis=0)
        if len(inside) <= LEAF_PRIMITIVES:
            box["first"], box["count"] = placed, len(inside)
            placed += len(inside)
            order.append(inside)
            continue
        axis = int((box["high"] - box["low"]).argmax())
        box["axis"] = axis
        half = len(inside) // 2
        parted = inside[np.argpartition(centres[inside, axis], half)]
        waiting += [(parted[half:], number), (parted[:half], -1)]
    return Scene(primitives[np.concatenate(order)], boxes[:used].copy())
