"""Motion of water molecules: a sixth-order predictor-corrector, and where they begin.

Of each atom's place as it moves, a molecule keeps the Taylor coefficients: derivative n times
(step^n / n!).
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.splash.program import check_result
from nicscope.apps.splash.water_forces import (
    ANGLE,
    BOND,
    MASSES,
    inner_energy,
    inner_forces,
    near,
    negative_charges,
    pair_energy,
    pair_forces,
    sites,
)
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = 0.15  # fs
LARGEST_ERROR = 1e-9  # what the order of sums leaves
TEMPERATURE = 298.0 * 1.380662e-16 / 1.6605655e-10  # in units of energy
VOLUME = (MASSES.sum() * 1.6605655) / 0.998  # of a molecule, in cubic angstrom
CUTOFF = 6.212752  # as the original's input has it
ORDERS = 7  # the place and six derivatives
PLACE, VELOCITY, ACCELERATION, FORCES = 0, 1, 2, 7
# As the original has it, with room for one more that nothing uses; ``charge``: the negative one.
MOLECULE = np.dtype([("charge", np.float64, 3), ("terms", np.float64, (9, 3, 3))])
_PREDICTION = np.array([[comb(m, n) for m in range(ORDERS)] for n in range(ORDERS)], np.float64)
_CORRECTION = np.array([863 / 6048, 665 / 1008, 1, 25 / 36, 35 / 144, 1 / 24, 1 / 360])


KINETIC, POTENTIAL, VIRIAL = 0, 1, 2  # what is added up over all molecules
SUMS = 3


def role(number: int, processes: int) -> int:
    """Whose part a process does: the original's take numbers from 1 on, modulo how many they are.

    So the parts that lie next to each other are not all of one node.
    """
    return (number + 1) % processes


class Box(NamedTuple):
    """The cube of which space is full."""

    side: float
    cutoff: float
    cells: int = 1  # a side: molecules of cells that are no neighbours feel nothing of each other

    def cell_of(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Where each molecule's oxygen is: a cell's number along each axis."""
        numbers = (places[:, :, 1] * (self.cells / self.side)).astype(np.int64)
        return np.minimum(numbers, self.cells - 1)


def box_of(name: str, molecules: int, cutoff: float) -> Box:
    """As large as so many need; ``cutoff`` is half of it at most, and the usual one if it is 0."""
    side = (molecules * VOLUME) ** (1 / 3)
    if not 0 <= cutoff <= side / 2:
        raise SimulationError(f"{name}: a cutoff of {cutoff} A is none in a box of {side:.1f} A")
    return Box(side, cutoff or min(side / 2, CUTOFF))


def lattice(name: str, molecules: int, box: Box, seed: int) -> NDArray[np.void]:
    """Molecules at rest in rows, their atoms with random velocities of the right temperature."""
    edge = round(molecules ** (1 / 3))
    if edge**3 != molecules or edge < 2:
        nearest = max(2, edge) ** 3
        raise SimulationError(f"{name}: {molecules:,} molecules fill no cube; {nearest:,} do")
    made = np.zeros(molecules, MOLECULE)
    steps = (np.indices((edge,) * 3).reshape(3, -1).T + 0.5) * box.side / edge
    along, across = BOND * np.cos(ANGLE / 2), BOND * np.sin(ANGLE / 2)
    shape = np.array([[along, 0, along], [across, 0, -across], [0, 0, 0]])
    made["terms"][:, PLACE] = steps[:, :, None] + shape
    pushes = np.random.default_rng(seed).standard_normal((molecules, 3, 3)) * np.sqrt(MASSES)
    pushes -= pushes.mean(axis=(0, 2), keepdims=True)
    pushes *= np.sqrt(3 * molecules * TEMPERATURE / (pushes**2 / MASSES).sum(axis=(0, 2)))[:, None]
    made["terms"][:, VELOCITY] = pushes / MASSES * STEP
    return made


def predict(terms: NDArray[np.float64]) -> None:
    """Move on by a step: each order by those above."""
    terms[:, :ORDERS] = np.einsum("nm,imda->inda", _PREDICTION, terms[:, :ORDERS])


def correct(terms: NDArray[np.float64]) -> None:
    """Have the forces' acceleration, and every order follow."""
    error = scaled(terms[:, FORCES]) - terms[:, ACCELERATION]
    terms[:, :ORDERS] += _CORRECTION[:, None, None] * error[:, None]


def scaled(forces: NDArray[np.float64]) -> NDArray[np.float64]:
    """As the second Taylor coefficient."""
    return forces * (STEP**2 / 2 / MASSES)


def virial(forces: NDArray[np.float64], places: NDArray[np.float64]) -> float:
    """Of forces on atoms at places."""
    return float(np.vdot(forces, places))


def wrap(terms: NDArray[np.float64], side: float) -> None:
    """Put molecules whose oxygen has left the box where their copy has come in."""
    places = terms[:, PLACE]
    oxygen = places[:, :, 1:2]
    places += side * ((oxygen < 0) - (oxygen >= side).astype(np.float64))


def kinetic_energy(terms: NDArray[np.float64]) -> float:
    """Of molecules, all together."""
    return float((MASSES * (terms[:, VELOCITY] / STEP) ** 2).sum() / 2)


def motion_alone(
    molecules: NDArray[np.void], box: Box, steps: int
) -> tuple[NDArray[np.void], list[float]]:
    """The same molecules after some steps in one process; and ``SUMS`` of them."""
    moving = molecules.copy()
    terms = moving["terms"]
    cells = box.cell_of(terms[:, PLACE])
    terms[:, ACCELERATION] = scaled(forces_alone(terms[:, PLACE], box, cells)[0])
    of_forces = 0.0
    for _ in range(steps):
        predict(terms)
        terms[:, FORCES] = forces_alone(terms[:, PLACE], box, cells)[0]
        of_forces = virial(terms[:, FORCES], terms[:, PLACE])
        correct(terms)
        wrap(terms, box.side)
        cells = box.cell_of(terms[:, PLACE])
    moving["charge"] = negative_charges(terms[:, PLACE])
    potential = forces_alone(terms[:, PLACE], box, cells, is_energy=True)[1]
    return moving, [kinetic_energy(terms), potential, of_forces]


def forces_alone(
    places: NDArray[np.float64], box: Box, cells: NDArray[np.int64], *, is_energy: bool = False
) -> tuple[NDArray[np.float64], float]:
    """On all atoms, each pair of molecules taken once; or the potential energy."""
    charges = negative_charges(places)
    whole = sites(places, charges)
    forces = inner_forces(places)
    energy = float(inner_energy(places).sum())
    rows = max(1, (1 << 22) // len(places))
    for begin in range(0, len(places), rows):
        first, second = near(charges[begin : begin + rows], charges[begin:], box.side, box.cutoff)
        first, second = first + begin, second + begin
        far = np.abs(cells[first] - cells[second])
        taken = (first < second) & (np.minimum(far, box.cells - far) <= 1).all(axis=1)
        first, second = first[taken], second[taken]
        if is_energy:
            energy += pair_energy(whole[first], whole[second], box.side, box.cutoff)
        else:
            on = pair_forces(whole[first], whole[second], box.side, box.cutoff)
            for index, force in zip((first, second), on, strict=True):
                np.add.at(forces, index, force)
    return forces, energy


def check_motion(name: str, found: NDArray[np.void], sums: NDArray[np.float64], alone: Any) -> None:
    """Errors: ``SimulationError`` if molecules, or their energies, are not as in one process."""
    wanted, wanted_sums = alone
    error = np.abs(found["terms"][:, :ORDERS] - wanted["terms"][:, :ORDERS]).max()
    check_result(error < LARGEST_ERROR, name, f"a molecule is off by {error:.1e} A")
    names = ("kinetic energy", "potential energy", "virial")
    for what, got, right in zip(names, sums.tolist(), wanted_sums, strict=True):
        check_result(
            abs(got - right) < LARGEST_ERROR * len(found),
            name,
            f"the {what} is {got:.9g}, not {right:.9g}",
        )
