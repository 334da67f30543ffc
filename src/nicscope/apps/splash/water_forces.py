"""Forces in and between flexible water molecules, and their integration."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.splash.program import check_result
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


BOND = 0.9572
ANGLE = 1.824218
MASSES = np.array([1.007825, 15.99945, 1.007825])
CHARGE = 0.07152158  # two hydrogens' product; the negative one is twice one of theirs
OFFSET = 0.45682590  # of the negative charge from the oxygen, as a share of the way to the middle
OXYGENS = 455.313100, 5.15271070  # a exp(-b r), as in the following
HYDROGENS = 0.27879839, 2.76084370
MIXED = (0.60895706, 2.96189550), (-0.11447336, 2.23326410)
SPREAD = 2.0  # by how much two sites may be closer than two negative charges, at most
PAIRS_AT_ONCE = 4096  # so that what is worked on stays in the cache

# Powers of one bond's stretch, the other's and the bend, with the potential's coefficient for them.
_TERMS = {
    (2, 0, 0): 0.512596 / 2,
    (0, 0, 2): 0.048098 / 2,
    (1, 1, 0): -0.005823,
    (1, 0, 1): 0.016452,
    (3, 0, 0): -0.57191,
    (0, 0, 3): -0.007636,
    (2, 1, 0): -0.001867,
    (2, 0, 1): -0.002047,
    (1, 1, 1): -0.03083,
    (1, 0, 2): -0.0094245,
    (4, 0, 0): 0.8431,
    (0, 0, 4): -0.00193,
    (3, 1, 0): -0.0030,
    (2, 2, 0): 0.0036,
    (3, 0, 1): -0.012,
    (2, 1, 1): 0.0060,
    (2, 0, 2): -0.0048,
    (1, 1, 2): 0.0211,
    (1, 0, 3): 0.006263,
}
_POTENTIAL = {
    powers: factor / BOND ** (sum(powers) - 2)
    for (one, other, bend), factor in _TERMS.items()
    for powers in {(one, other, bend), (other, one, bend)}
}

# Sites are the negative charge, two hydrogens, the oxygen; a force on one is its atoms'.
_ATOMS_OF_SITES = np.array(
    [[OFFSET / 2, 1 - OFFSET, OFFSET / 2], [1, 0, 0], [0, 0, 1], [0, 1, 0]], np.float64
)
_FIRST = np.array([0, 0, 0, 1, 2, 1, 1, 2, 2, 3, 3, 3, 1, 2])
_SECOND = np.array([0, 1, 2, 0, 0, 1, 2, 1, 2, 3, 1, 2, 3, 3])
_CHARGES = CHARGE * np.array([4, -2, -2, -2, -2, 1, 1, 1, 1])
_CHARGED = slice(0, 9)  # of these pairs of sites
_EXPONENTIALS = (
    (slice(5, 9), *HYDROGENS),
    (slice(9, 10), *OXYGENS),
    *((slice(10, 14), *each) for each in MIXED),
)


def negative_charges(atoms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The position of each molecule's negative charge."""
    return np.asarray(atoms @ _ATOMS_OF_SITES[0])


def sites(atoms: NDArray[np.float64], charges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The four interaction sites of each molecule: (.., 3 directions, 4)."""
    return np.concatenate([charges[..., None], atoms[..., [0, 2, 1]]], axis=-1)


def atoms_of(placed: NDArray[np.float64]) -> NDArray[np.float64]:
    """The atoms among the sites of molecules."""
    return placed[..., [1, 3, 2]]


def inner_forces(atoms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intramolecular forces on each atom."""
    stretch, bend, units, lengths = _shape(atoms)
    slopes = [_derivative(axis, stretch, bend)[..., None] for axis in range(3)]
    cosine = (units[0] * units[1]).sum(-1)[..., None]
    sine = np.sqrt(1 - cosine**2)
    forces = np.empty_like(atoms)
    for at, (mine, other) in enumerate(((0, 1), (1, 0))):
        turning = (cosine * units[mine] - units[other]) * BOND / (lengths[mine][..., None] * sine)
        forces[..., 2 * at] = -slopes[mine] * units[mine] - slopes[2] * turning
    forces[..., 1] = -forces[..., 0] - forces[..., 2]
    return forces


def inner_energy(atoms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The intramolecular energy of each molecule."""
    (one, other), bend, _, _ = _shape(atoms)
    terms = [factor * one**a * other**b * bend**c for (a, b, c), factor in _POTENTIAL.items()]
    return np.sum(terms, axis=0)  # type: ignore[no-any-return]


def _shape(
    atoms: NDArray[np.float64],
) -> tuple[
    list[NDArray[np.float64]],
    NDArray[np.float64],
    list[NDArray[np.float64]],
    list[NDArray[np.float64]],
]:
    """Both bonds' stretch, the bend as a length, the bonds' directions and lengths."""
    bonds = [atoms[..., end] - atoms[..., 1] for end in (0, 2)]
    lengths = [np.sqrt((bond**2).sum(-1)) for bond in bonds]
    units = [bond / length[..., None] for bond, length in zip(bonds, lengths, strict=True)]
    bend = (np.arccos((units[0] * units[1]).sum(-1)) - ANGLE) * BOND
    return [length - BOND for length in lengths], bend, units, lengths


def _derivative(
    axis: int, stretch: list[NDArray[np.float64]], bend: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of the potential with respect to a stretch (axis 0 and 1) or the bend (2)."""
    found = np.zeros_like(bend)
    for powers, factor in _POTENTIAL.items():
        if powers[axis]:
            a, b, c = (power - (at == axis) for at, power in enumerate(powers))
            found += factor * powers[axis] * stretch[0] ** a * stretch[1] ** b * bend**c
    return found


def near(
    first: NDArray[np.float64], second: NDArray[np.float64], box: float, cutoff: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of negative charges within the cutoff, periodic images included."""
    apart = first[:, None] - second[None]
    apart -= box * np.rint(apart / box)
    found = np.nonzero((apart**2).sum(-1) < (cutoff + SPREAD) ** 2)
    return found[0], found[1]


def pair_forces(
    first: NDArray[np.float64], second: NDArray[np.float64], box: float, cutoff: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Forces on the atoms of pairs of molecules, given their sites, in a periodic box."""
    on = np.empty((2, len(first), 3, 3))
    for part, apart, squares, is_whole in _apart(first, second, box, cutoff):
        slopes = np.zeros_like(squares)
        lengths = np.sqrt(squares)
        pull = _CHARGES * (1 / (squares * lengths)[:, _CHARGED] - cutoff**-3)
        slopes[:, _CHARGED] = np.where(squares[:, _CHARGED] <= cutoff**2, pull, 0)
        for between, a, b in _EXPONENTIALS:
            long = lengths[is_whole, between]
            slopes[is_whole, between] += a * b * np.exp(-b * long) / long
        vectors = (apart * slopes[:, None]).reshape(-1, len(_FIRST))
        on[0, part] = (vectors @ _ATOMS_OF_SITES[_FIRST]).reshape(-1, 3, 3)
        on[1, part] = (vectors @ -_ATOMS_OF_SITES[_SECOND]).reshape(-1, 3, 3)
    return on[0], on[1]


def pair_energy(
    first: NDArray[np.float64], second: NDArray[np.float64], box: float, cutoff: float
) -> float:
    """The energy of pairs of molecules, given their sites."""
    total = 0.0
    for _, _, squares, is_whole in _apart(first, second, box, cutoff):
        inside = np.minimum(squares[:, _CHARGED], cutoff**2)
        total += float((_CHARGES * (inside**-0.5 + inside / (2 * cutoff**3))).sum())
        for between, a, b in _EXPONENTIALS:
            total += float(a * np.exp(-b * np.sqrt(squares[is_whole, between])).sum())
    return total


def _apart(
    first: NDArray[np.float64], second: NDArray[np.float64], box: float, cutoff: float
) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]]:
    """Distances between sites of pairs, in chunks: vectors, squares, those within the cutoff."""
    for begin in range(0, len(first), PAIRS_AT_ONCE):
        part = slice(begin, begin + PAIRS_AT_ONCE)
        apart = first[part][..., _FIRST] - second[part][..., _SECOND]
        # In a large box, the sites of molecules in reach are near each other in the same copies.
        shown = apart[..., :1] if box > 2 * (cutoff + SPREAD) else apart
        apart -= box * np.rint(shown / box)
        squares = np.einsum("pdk,pdk->pk", apart, apart)
        yield part, apart, squares, (squares[:, _CHARGED] <= cutoff**2).all(1)


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
    """The process that does a part: the original numbers processes from 1 on, modulo their count.

    So the parts that lie next to each other are not all of one node.
    """
    return (number + 1) % processes


class Box(NamedTuple):
    """The periodic box."""

    side: float
    cutoff: float
    cells: int = 1  # a side: molecules of cells that are no neighbours feel nothing of each other

    def cell_of(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        """The cell of each molecule's oxygen, along each axis."""
        numbers = (places[:, :, 1] * (self.cells / self.side)).astype(np.int64)
        return np.minimum(numbers, self.cells - 1)


def box_of(name: str, molecules: int, cutoff: float) -> Box:
    """The box for so many molecules; ``cutoff`` is at most half of it, 0 for the usual one."""
    side = (molecules * VOLUME) ** (1 / 3)
    if not 0 <= cutoff <= side / 2:
        raise SimulationError(f"{name}: a cutoff of {cutoff} A is none in a box of {side:.1f} A")
    return Box(side, cutoff or min(side / 2, CUTOFF))


def lattice(name: str, molecules: int, box: Box, seed: int) -> NDArray[np.void]:
    """Molecules on a lattice, with random atom velocities of the right temperature."""
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
    """The predictor step: each order from those above."""
    terms[:, :ORDERS] = np.einsum("nm,imda->inda", _PREDICTION, terms[:, :ORDERS])


def correct(terms: NDArray[np.float64]) -> None:
    """The corrector step, by the forces' acceleration."""
    error = scaled(terms[:, FORCES]) - terms[:, ACCELERATION]
    terms[:, :ORDERS] += _CORRECTION[:, None, None] * error[:, None]


def scaled(forces: NDArray[np.float64]) -> NDArray[np.float64]:
    """Forces as second Taylor coefficients."""
    return forces * (STEP**2 / 2 / MASSES)


def virial(forces: NDArray[np.float64], places: NDArray[np.float64]) -> float:
    """The virial of forces on atoms at places."""
    return float(np.vdot(forces, places))


def wrap(terms: NDArray[np.float64], side: float) -> None:
    """Move molecules whose oxygen has left the box to their periodic image."""
    places = terms[:, PLACE]
    oxygen = places[:, :, 1:2]
    places += side * ((oxygen < 0) - (oxygen >= side).astype(np.float64))


def kinetic_energy(terms: NDArray[np.float64]) -> float:
    """The total kinetic energy."""
    return float((MASSES * (terms[:, VELOCITY] / STEP) ** 2).sum() / 2)


def reference_motion(
    molecules: NDArray[np.void], box: Box, steps: int
) -> tuple[NDArray[np.void], list[float]]:
    """The reference: the same molecules after some steps in one process, and ``SUMS``."""
    moving = molecules.copy()
    terms = moving["terms"]
    cells = box.cell_of(terms[:, PLACE])
    terms[:, ACCELERATION] = scaled(reference_forces(terms[:, PLACE], box, cells)[0])
    of_forces = 0.0
    for _ in range(steps):
        predict(terms)
        terms[:, FORCES] = reference_forces(terms[:, PLACE], box, cells)[0]
        of_forces = virial(terms[:, FORCES], terms[:, PLACE])
        correct(terms)
        wrap(terms, box.side)
        cells = box.cell_of(terms[:, PLACE])
    moving["charge"] = negative_charges(terms[:, PLACE])
    potential = reference_forces(terms[:, PLACE], box, cells, is_energy=True)[1]
    return moving, [kinetic_energy(terms), potential, of_forces]


def reference_forces(
    places: NDArray[np.float64], box: Box, cells: NDArray[np.int64], *, is_energy: bool = False
) -> tuple[NDArray[np.float64], float]:
    """The reference forces on all atoms, or the potential energy."""
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
    """Errors: ``SimulationError`` if molecules or energies differ from the reference."""
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
