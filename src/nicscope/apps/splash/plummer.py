"""Two clusters of bodies after Plummer's model, at rest as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_OF_MASS = 0.999  # what lies within the largest radius that is drawn
LARGEST_RADIUS = 9.0
LENGTH = 9 * np.pi / 16  # of a unit of the model where M = -4E = G = 1
APART = 4.0  # of the second cluster from the first, in every axis


def plummer(bodies: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions and velocities of ``bodies``, in no order of space; the second half is shifted.

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
    """Radii by the share of the mass within them, the largest drawn again."""
    radius = np.full(many, np.inf)
    while len(again := np.flatnonzero(radius > LARGEST_RADIUS)):
        share = rng.uniform(0.0, MOST_OF_MASS, len(again))
        radius[again] = 1 / np.sqrt(share ** (-2.0 / 3.0) - 1)
    return radius


def _fractions(rng: np.random.Generator, many: int) -> NDArray[np.float64]:
    """Speeds as fractions of the speed of escape, drawn by rejection."""
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
