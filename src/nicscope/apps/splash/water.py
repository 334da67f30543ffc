"""Water: molecular dynamics over all pairs of molecules (nsquared) or over cells (spatial)."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.splash.ocean import cube, edges
from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.svm.memory import Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Process, Run


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
# Steps from one potential energy to the next: NPRINT of the original's input, by which mdmain.C
# calls POTENG.  A run of fewer steps never asks for it.
POTENTIAL_EVERY = 3


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
    """The reference: the same molecules after some steps in one process, and ``SUMS``.

    The potential energy is 0 where the last step does not compute it.
    """
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
    potential = 0.0
    if steps % POTENTIAL_EVERY == 0:
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


async def _add(me: Process, sums: SharedArray, place: int, share: float) -> None:
    """Add a process's share of one of ``SUMS`` to that of all."""
    await me.acquire(("sum", place))
    (await me.write(sums))[place] += share
    await me.release(("sum", place))


STEPS = 3
PAIR = 100  # accesses to shared elements for two molecules that reach each other
ENTRIES_AT_ONCE = 1 << 20  # of a table of pairs
FEW = 6  # molecules that about fill a page: what is looked at before the next is
# What the original allocates for each, with what its allocator adds.
PARTIAL = np.dtype([("allocator", np.int64, 6), ("forces", np.float64, (3, 6))])


def water_nsquared(
    molecules: int, processes: int, seed: int = 0, steps: int = STEPS, cutoff: float = 0.0
) -> SharedProgram:
    """Simulate ``steps`` steps of so many molecules, a cube, from a lattice.

    A process has molecules one behind the other, and looks at each with the half of all that come
    after it.  What it finds it adds up in an array of its own, then to each molecule under its
    lock.
    """
    if molecules < processes or steps < 1:
        raise SimulationError(
            f"water-nsquared: {molecules:,} molecules and {steps} steps for {processes} processes; "
            "each has one of both at least"
        )
    box = box_of("water-nsquared", molecules, cutoff)
    given = lattice("water-nsquared", molecules, box, seed)
    shares = edges(molecules, processes)
    layout = Layout()
    held = layout.array("molecules", molecules, MOLECULE)
    partial = layout.array("partial", (processes, molecules), PARTIAL)
    sums = layout.array("sums", SUMS)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(held)[:] = given
        array_of(partial)["allocator"] = 1

    async def own(me: Process) -> Any:
        return await me.write(held, *bounds(me))

    def bounds(me: Process) -> tuple[int, int]:
        which = role(me.number, processes)
        return shares[which], shares[which + 1]

    async def within(me: Process, *, is_step: bool) -> None:
        mine = await own(me)
        if is_step:
            predict(mine["terms"])
        mine["charge"] = negative_charges(mine["terms"][:, PLACE])
        mine["terms"][:, FORCES] = inner_forces(mine["terms"][:, PLACE])
        me.work(300 * len(mine))
        await _add(me, sums, VIRIAL, virial(mine["terms"][:, FORCES], mine["terms"][:, PLACE]))

    async def reached(me: Process) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers and sites of the process's molecules and all that come up to half behind."""
        first, last = bounds(me)
        end = min(last + molecules // 2, first + molecules)
        found = []
        for begin in range(first, end, FEW):
            few = np.arange(begin, min(begin + FEW, end)) % molecules
            found.append(await me.gather_rows(held, few))
            await me.compute(PAIR * len(few))
        whole = np.concatenate(found)
        return np.arange(first, end) % molecules, sites(whole["terms"][:, PLACE], whole["charge"])

    async def between(me: Process) -> None:
        order, placed = await reached(me)
        total = np.zeros((molecules, 3, 3))
        first_own, last_own = bounds(me)
        mine = last_own - first_own
        for first, second in _pairs(order, placed, mine, molecules, box.side, box.cutoff):
            on = pair_forces(placed[first], placed[second], box.side, box.cutoff)
            for index, force in zip((first, second), on, strict=True):
                np.add.at(total, order[index], force)
            me.work(PAIR * len(first))
        begin = role(me.number, processes) * molecules
        (await me.write(partial, begin, begin + molecules))["forces"][:, :, :3] = total
        await _add(me, sums, VIRIAL, virial(total[order], atoms_of(placed)))
        for number in order.tolist():
            await me.acquire(("molecule", number))
            (await me.write(held, number, number + 1))["terms"][0, FORCES] += total[number]
            await me.release(("molecule", number))
            me.work(18)
        await me.barrier()

    async def potential(me: Process) -> None:
        mine = await own(me)
        mine["charge"] = negative_charges(mine["terms"][:, PLACE])
        share = float(inner_energy(mine["terms"][:, PLACE]).sum())
        await me.barrier()
        order, placed = await reached(me)
        for first, second in _pairs(order, placed, len(mine), molecules, box.side, box.cutoff):
            share += pair_energy(placed[first], placed[second], box.side, box.cutoff)
            me.work(PAIR * len(first))
        await _add(me, sums, POTENTIAL, share)
        await me.barrier()

    async def body(me: Process) -> None:
        await within(me, is_step=False)
        await me.barrier()
        await between(me)
        mine = await own(me)
        mine["terms"][:, ACCELERATION] = scaled(mine["terms"][:, FORCES])
        for step in range(1, steps + 1):
            if me.number == 0:
                (await me.write(sums))[:] = 0
            await me.barrier()
            await within(me, is_step=True)
            await me.barrier()
            await between(me)
            mine = await own(me)
            correct(mine["terms"])
            wrap(mine["terms"], box.side)
            me.work(200 * len(mine))
            await _add(me, sums, KINETIC, kinetic_energy(mine["terms"]))
            await me.barrier()
            if step % POTENTIAL_EVERY == 0:
                await potential(me)

    def check(run: Run) -> None:
        check_motion(
            "water-nsquared", run.array(held), run.array(sums), reference_motion(given, box, steps)
        )

    return SharedProgram("water-nsquared", f"{molecules:,} molecules", layout, set_up, body, check)


def _pairs(
    order: NDArray[np.int64],
    placed: NDArray[np.float64],
    mine: int,
    molecules: int,
    side: float,
    cutoff: float,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Places in ``order`` of pairs near each other: the first ``mine`` with up to half behind.

    Of an even number, two half of it apart are the first's or the second's by turns.
    """
    half = molecules // 2
    charges = placed[:, :, 0]
    rows = max(1, ENTRIES_AT_ONCE // len(order))
    for begin in range(0, mine, rows):
        first, second = near(charges[begin : min(begin + rows, mine)], charges, side, cutoff)
        first += begin
        behind = (second - first) % molecules
        taken = (behind > 0) & (behind <= half)
        if molecules % 2 == 0:
            number = order[first]
            taken &= (behind < half) | np.where(
                number < half, (number + half) % 2 == 0, number % 2 == 1
            )
        yield first[taken], second[taken]


NONE = 0  # what ends a list: links in it are numbers from 1 on
# As the original allocates each: with what follows it in its cell, and what its allocator adds.
LINK = np.dtype([*MOLECULE.descr, ("next", np.int64), ("allocator", np.int64, 3)])
CELL = np.dtype([("list", np.int64), ("lock", np.int64, 5)])


def water_spatial(
    molecules: int, processes: int, seed: int = 0, steps: int = STEPS, cutoff: float = 0.0
) -> SharedProgram:
    """Simulate ``steps`` steps of so many molecules, a cube, from a lattice.

    The box is cut into cells no smaller than the cutoff, each with a list of its molecules;
    a process has a block of cells.  It finds what its molecules feel from all around, so that it
    writes but its own; those that leave a cell go to the other's list under the locks of both.
    """
    name = "water-spatial"
    if steps < 1:
        raise SimulationError(f"{name}: {steps} steps; one at least")
    box = box_of(name, molecules, cutoff)
    box = box._replace(cells=int(box.side / box.cutoff))
    given = lattice(name, molecules, box, seed)
    blocks = _blocks(box.cells, processes)
    layout = Layout()
    links = layout.array("links", molecules, LINK)
    cells = layout.array("cells", box.cells**3, CELL)
    sums = layout.array("sums", SUMS)

    def numbers(terms: NDArray[np.float64]) -> NDArray[np.int64]:
        """The cell of each molecule."""
        return box.cell_of(terms[:, PLACE]) @ np.array([box.cells**2, box.cells, 1])  # type: ignore[no-any-return]

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        held, first = array_of(links), array_of(cells)["list"]
        for field in MOLECULE.names or ():
            held[field] = given[field]
        last: dict[int, int] = {}
        for at, cell in enumerate(numbers(given["terms"]).tolist()):
            if cell in last:
                held["next"][last[cell]] = at + 1
            else:
                first[cell] = at + 1
            last[cell] = at

    async def chain(me: Process, cell: int) -> list[int]:
        """Which molecules a cell has."""
        found = []
        link = int((await me.read(cells, cell, cell + 1))["list"][0])
        while link != NONE:
            found.append(link - 1)
            link = int((await me.read(links, link - 1, link))["next"][0])
        return found

    async def own(me: Process) -> list[NDArray[np.int64]]:
        """Which molecules are the process's, cell by cell."""
        return [np.array(await chain(me, cell), np.int64) for cell in cells_of(me)]

    def cells_of(me: Process) -> list[int]:
        return blocks[role(me.number, processes)]

    async def within(me: Process, rows: NDArray[np.int64], *, is_step: bool) -> None:
        held = await me.write_rows(links, rows)
        terms = held["terms"][rows]
        if is_step:
            predict(terms)
        held["charge"][rows] = negative_charges(terms[:, PLACE])
        terms[:, FORCES] = inner_forces(terms[:, PLACE])
        held["terms"][rows] = terms
        me.work(300 * len(rows))
        await _add(me, sums, VIRIAL, virial(terms[:, FORCES], terms[:, PLACE]))

    async def around(
        me: Process, mine: list[NDArray[np.int64]]
    ) -> AsyncIterator[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
        """Pairs, cell by cell: whose of the process's molecules, its sites and the other's.

        Molecules of cells around are looked at when first needed.
        """
        seen: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for cell, rows in zip(cells_of(me), mine, strict=True):
            close = _neighbours(cell, box.cells)
            for other in close:
                if other not in seen:
                    there = np.array(await chain(me, other), np.int64)
                    held = await me.gather_rows(links, there)
                    seen[other] = there, sites(held["terms"][:, PLACE], held["charge"])
            numbers = np.concatenate([seen[other][0] for other in close])
            placed = np.concatenate([seen[other][1] for other in close])
            first, second = near(seen[cell][1][:, :, 0], placed[:, :, 0], box.side, box.cutoff)
            others = rows[first] != numbers[second]
            first, second = first[others], second[others]
            me.work(PAIR * len(first))
            yield rows[first], seen[cell][1][first], placed[second]

    async def between(me: Process, mine: list[NDArray[np.int64]]) -> None:
        share = 0.0
        async for rows, here, there in around(me, mine):
            if len(rows):
                felt, at = np.unique(rows, return_inverse=True)
                total = np.zeros((len(felt), 3, 3))
                on = pair_forces(here, there, box.side, box.cutoff)[0]
                np.add.at(total, at, on)
                held = await me.write_rows(links, felt)
                held["terms"][felt, FORCES] += total
                share += virial(on, atoms_of(here))
        await _add(me, sums, VIRIAL, share)
        await me.barrier()

    async def move(me: Process, mine: list[NDArray[np.int64]]) -> None:
        """Correct what was predicted, and have molecules in the lists of the cells they are in."""
        rows = _joined(mine)
        held = await me.write_rows(links, rows)
        terms = held["terms"][rows]
        correct(terms)
        wrap(terms, box.side)
        held["terms"][rows] = terms
        me.work(200 * len(rows))
        before = np.repeat(np.array(cells_of(me), np.int64), [len(each) for each in mine])
        after = numbers(terms)
        for at in np.flatnonzero(before != after).tolist():
            await unlink(me, int(rows[at]), int(before[at]))
            await put_first(me, int(rows[at]), int(after[at]))
        await _add(me, sums, KINETIC, kinetic_energy(terms))

    async def unlink(me: Process, row: int, cell: int) -> None:
        """Take a molecule out of a cell's list, in which others may have put some meanwhile."""
        await me.acquire(("cell", cell))
        listed = await chain(me, cell)
        at = listed.index(row)
        following = listed[at + 1] + 1 if at + 1 < len(listed) else NONE
        if at:
            (await me.write(links, listed[at - 1], listed[at - 1] + 1))["next"] = following
        else:
            (await me.write(cells, cell, cell + 1))["list"] = following
        await me.release(("cell", cell))

    async def put_first(me: Process, row: int, cell: int) -> None:
        await me.acquire(("cell", cell))
        following = int((await me.read(cells, cell, cell + 1))["list"][0])
        (await me.write(links, row, row + 1))["next"] = following
        (await me.write(cells, cell, cell + 1))["list"] = row + 1
        await me.release(("cell", cell))

    async def potential(me: Process) -> None:
        mine = await own(me)
        rows = _joined(mine)
        held = await me.write_rows(links, rows)
        places = held["terms"][rows, PLACE]
        held["charge"][rows] = negative_charges(places)
        share = float(inner_energy(places).sum())
        await me.barrier()
        async for _, here, there in around(me, mine):  # each pair from both sides
            share += pair_energy(here, there, box.side, box.cutoff) / 2
        await _add(me, sums, POTENTIAL, share)
        await me.barrier()

    async def body(me: Process) -> None:
        mine = await own(me)
        rows = _joined(mine)
        await within(me, rows, is_step=False)
        await me.barrier()
        await between(me, mine)
        held = await me.write_rows(links, rows)
        held["terms"][rows, ACCELERATION] = scaled(held["terms"][rows, FORCES])
        for step in range(1, steps + 1):
            if me.number == 0:
                (await me.write(sums))[:] = 0
            await me.barrier()
            mine = await own(me)
            await within(me, _joined(mine), is_step=True)
            await me.barrier()
            await between(me, mine)
            await move(me, mine)
            await me.barrier()
            if step % POTENTIAL_EVERY == 0:
                await potential(me)

    def check(run: Run) -> None:
        held = run.array(links)
        check_motion(name, held, run.array(sums), reference_motion(given, box, steps))
        listed = _listed(run.array(cells)["list"], held["next"])
        check_result(
            np.array_equal(listed, numbers(held["terms"])),
            name,
            "a molecule is not in the list of its cell",
        )

    return SharedProgram(name, f"{molecules:,} molecules", layout, set_up, body, check)


def _joined(rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """All of them, of which there may be none: processes can be more than cells."""
    return np.concatenate([np.empty(0, np.int64), *rows])


def _blocks(cells: int, processes: int) -> list[list[int]]:
    """Each process's cells: a block with sides as equal as possible."""
    bounds = [edges(cells, shares) for shares in cube(processes)]
    ranges = [[range(*pair) for pair in pairwise(along)] for along in bounds]
    return [
        [(x * cells + y) * cells + z for x, y, z in product(*block)] for block in product(*ranges)
    ]


def _neighbours(cell: int, cells: int) -> list[int]:
    """A cell and its neighbours in the periodic box, each once."""
    x, yz = divmod(cell, cells * cells)
    at = (x, *divmod(yz, cells))
    along = [[(place + step) % cells for step in (-1, 0, 1)] for place in at]
    return [*dict.fromkeys((a * cells + b) * cells + c for a, b, c in product(*along))]


def _listed(first: NDArray[np.int64], following: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cell list that holds each molecule; -1 if none or two do."""
    cell_of = np.full(len(following), -1)
    times = np.zeros(len(following), np.int64)
    for cell, link in enumerate(first.tolist()):
        while link != NONE and times[link - 1] < 2:
            times[link - 1] += 1
            cell_of[link - 1] = cell
            link = int(following[link - 1])
    cell_of[times != 1] = -1
    return cell_of
