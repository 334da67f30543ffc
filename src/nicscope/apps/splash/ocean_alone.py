"""Ocean in one process, by other means: what the shared program's result is checked against.

The basin's constants are here too; lengths are metres, times seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESOLUTION = 20_000.0  # between points
STEP = 28_800.0
UPPER, LOWER = 1000.0, 4000.0  # depth of the layers
WHOLE = UPPER + LOWER
CORIOLIS = 8.3e-5  # in the middle
BETA = 2e-11  # its growth with each metre
REDUCED_GRAVITY = 0.02
FRICTION = -5.12e11  # of the sixth derivative
WIND = 0.5e-4
SHIFT = WHOLE * CORIOLIS**2 / (UPPER * LOWER * REDUCED_GRAVITY) * RESOLUTION**2
EDDIES = 4  # waves across the basin at most
EDDY_FLOW = 1000.0  # m^2/s: largest amplitude of one


def given_eddies(side: int, seed: int) -> NDArray[np.float64]:
    """Two layers' stream functions to begin with: a few random waves, none on the edge."""
    amplitudes = np.random.default_rng(seed).uniform(-EDDY_FLOW, EDDY_FLOW, (2, EDDIES, EDDIES))
    waves = np.sin(np.pi * np.outer(np.arange(1, EDDIES + 1), np.arange(side)) / (side - 1))
    eddies: NDArray[np.float64] = np.einsum("lij,ix,jy->lxy", amplitudes, waves, waves)
    for axis in (1, 2):
        eddies.swapaxes(0, axis)[[0, -1]] = 0
    return eddies


def wind(columns: NDArray[np.int64], side: int) -> NDArray[np.float64]:
    """The curl of the wind's stress: two gyres, one on each half of the columns."""
    half = RESOLUTION * (side - 1) / 2
    curl: NDArray[np.float64] = np.sin(np.pi * columns * RESOLUTION / half)
    return -WIND * np.pi / half * curl


def solution_alone(
    side: int, given: NDArray[np.float64], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both layers' stream functions after some steps, with sine transforms as the solver."""
    psi = [layer.copy() for layer in given]
    earlier = [layer.copy() for layer in given]
    places = np.arange(side)
    turning = CORIOLIS + BETA * RESOLUTION * (places - (side - 1) / 2)
    force = np.broadcast_to(wind(places, side), (side, side))
    edge = np.ones((side, side))
    edge[1:-1, 1:-1] = 0
    carrier = _solved(edge)
    for _ in range(steps):
        moved = [_transport(_curl(layer) + turning, layer) for layer in psi]
        rubbed = [FRICTION * _curl(_curl(_curl(layer))) for layer in earlier]
        total = [move + rub for move, rub in zip(moved, rubbed, strict=True)]
        shear, mean = psi[0] - psi[1], (LOWER * psi[0] + UPPER * psi[1]) / WHOLE
        between = SHIFT / RESOLUTION**2 * _transport(shear, mean)
        baroclinic = _solved(total[0] - total[1] - between + force / UPPER)
        baroclinic -= _integral(baroclinic) / _integral(carrier) * carrier
        barotropic = _solved((UPPER * total[0] + LOWER * total[1] + force) / WHOLE)
        rates = (barotropic + LOWER / WHOLE * baroclinic, barotropic - UPPER / WHOLE * baroclinic)
        later = [layer + 2 * STEP * rate for layer, rate in zip(earlier, rates, strict=True)]
        earlier, psi = psi, later
    return psi[0], psi[1]


def _curl(psi: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Laplacian, zero on the edge."""
    found = np.zeros_like(psi)
    found[1:-1] += np.diff(psi, 2, axis=0)
    found[:, 1:-1] += np.diff(psi, 2, axis=1)
    found[[0, -1]] = 0
    found[:, [0, -1]] = 0
    return found / RESOLUTION**2


def _transport(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Arakawa's Jacobian as the mean of three that say the same: J(x, y), zero on the edge."""

    def down(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.roll(z, -1, 0) - np.roll(z, 1, 0)) / 2

    def right(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.roll(z, -1, 1) - np.roll(z, 1, 1)) / 2

    three = (
        down(y) * right(x) - right(y) * down(x),
        right(x * down(y)) - down(x * right(y)),
        down(y * right(x)) - right(y * down(x)),
    )
    found = sum(three[1:], three[0]) / 3 / RESOLUTION**2
    found[[0, -1]] = 0
    found[:, [0, -1]] = 0
    return found


def _solved(field: NDArray[np.float64]) -> NDArray[np.float64]:
    """What has ``field`` as its Helmholtz image inside, and is ``field`` on the edge."""
    inner = (field * RESOLUTION**2)[1:-1, 1:-1]
    inner[0] -= field[0, 1:-1]
    inner[-1] -= field[-1, 1:-1]
    inner[:, 0] -= field[1:-1, 0]
    inner[:, -1] -= field[1:-1, -1]
    points = len(inner)
    waves = 2 * np.cos(np.pi * np.arange(1, points + 1) / (points + 1))
    found = field.copy()
    found[1:-1, 1:-1] = _sines(_sines(inner) / (np.add.outer(waves, waves) - 4 - SHIFT))
    return found


def _sines(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sine transform along both axes, scaled so that it is its own inverse."""
    for _ in range(2):
        odd = np.zeros((len(grid), 2 * len(grid) + 2))
        odd[:, 1 : len(grid) + 1] = grid
        odd[:, len(grid) + 2 :] = -grid[:, ::-1]
        grid = -np.fft.fft(odd).imag[:, 1 : len(grid) + 1].T / np.sqrt(2 * len(grid) + 2)
    return grid


def _integral(field: NDArray[np.float64]) -> float:
    """By the trapezoidal rule."""
    weights = np.ones(len(field))
    weights[[0, -1]] = 0.5
    return float(weights @ field @ weights)
