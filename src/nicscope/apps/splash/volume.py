"""A volume like a scanned head: what is opaque in it, where its surfaces face, what is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Ellipsoids one in another: half axes beside half the volume's side, and density within.
SHELLS = (
    ((0.70, 0.90, 0.82), 80.0),  # skin
    ((0.62, 0.82, 0.74), 210.0),  # skull
    ((0.55, 0.74, 0.67), 110.0),  # brain
    ((0.12, 0.20, 0.16), 30.0),  # ventricle
)
WAVES = 6  # of random direction, that fold the shells
NOISE = 3  # of a voxel's density, either way
OPAQUE_FROM, OPAQUE_AT = 50.0, 200.0  # densities
STEEPEST = 30.0  # change of density from voxel to voxel that is a whole surface
NORMAL_BITS = 5  # of each axis
NORMALS = 1 << 3 * NORMAL_BITS


class Volume(NamedTuple):
    """Of ``slices`` of ``side`` by ``side`` voxels: z above y above x.

    All is bytes, but ``normals``, which are two each.
    """

    side: int
    slices: int
    opacities: NDArray[np.uint8]
    normals: NDArray[np.uint16]
    # For blocks of 2, 4, 8, ... voxels a side: the largest opacity of what lies between voxels
    # from a block's first to the next one's; one after another, from ``levels`` on.
    pyramid: NDArray[np.uint8]
    levels: tuple[int, ...]


def make_volume(side: int, slices: int, seed: int) -> Volume:
    """The volume for a seed; ``side`` and ``slices``, which fill a cube, are powers of two."""
    rng = np.random.default_rng(seed)
    densities = _densities(side, slices, rng)
    slopes = np.gradient(densities, side / slices, 1.0, 1.0)
    steepness = np.sqrt(sum(slope * slope for slope in slopes))
    opaque = np.clip((densities - OPAQUE_FROM) / (OPAQUE_AT - OPAQUE_FROM), 0, 1)
    opaque *= np.clip((steepness - NOISE) / STEEPEST, 0, 1)
    opacities = (255 * opaque).astype(np.uint8)
    normals = np.zeros(opacities.shape, np.uint16)
    highest = (1 << NORMAL_BITS) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        for slope in slopes:
            part = np.rint((1 - slope / steepness) / 2 * highest)
            normals = normals << NORMAL_BITS | np.nan_to_num(part).astype(np.uint16)
    pyramid, levels = _pyramid(opacities)
    return Volume(side, slices, opacities, normals, pyramid, levels)


def normal_vectors() -> NDArray[np.float64]:
    """The direction of each number of a normal: x, y, z."""
    highest = (1 << NORMAL_BITS) - 1
    parts = np.arange(NORMALS)[:, None] >> np.array([0, NORMAL_BITS, 2 * NORMAL_BITS]) & highest
    vectors = 2 * parts / highest - 1
    directions: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return directions


def _densities(side: int, slices: int, rng: np.random.Generator) -> NDArray[np.float32]:
    along = np.linspace(-1, 1, side, dtype=np.float32)
    z = np.linspace(-1, 1, slices, dtype=np.float32)[:, None, None]
    y, x = along[None, :, None], along[None, None, :]
    folds = np.zeros((slices, side, side), np.float32)
    for _ in range(WAVES):
        a, b, c, phase = (rng.uniform(-12, 12, 4)).astype(np.float32)
        folds += np.float32(0.03) * np.sin(a * z + b * y + c * x + phase)
    densities = np.zeros_like(folds)
    for (one, two, three), density in SHELLS:
        radius = np.sqrt((x / one) ** 2 + (y / two) ** 2 + (z / three) ** 2)
        densities[radius + folds < 1] = density
    densities += rng.integers(-NOISE, NOISE + 1, densities.shape, np.int8)
    return densities


def _pyramid(opacities: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    largest = opacities
    for axis in range(3):
        following = np.delete(largest, 0, axis)
        last = np.take(largest, [-1], axis)
        largest = np.maximum(largest, np.concatenate([following, last], axis))
    parts, levels, used = [], [], 0
    while min(largest.shape) > 1:
        z, y, x = (many // 2 for many in largest.shape)
        largest = largest.reshape(z, 2, y, 2, x, 2).max(axis=(1, 3, 5))
        parts.append(largest.ravel())
        levels.append(used)
        used += largest.size
    return np.concatenate(parts), tuple(levels)
