"""Water-spatial: molecular dynamics of water over pairs in neighbouring cells."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.ocean import cube, edges
from nicscope.apps.splash.program import SharedProgram, check_result
from nicscope.apps.splash.water_forces import (
    ACCELERATION,
    FORCES,
    KINETIC,
    MOLECULE,
    PLACE,
    POTENTIAL,
    SUMS,
    VIRIAL,
    atoms_of,
    box_of,
    check_motion,
    correct,
    inner_energy,
    inner_forces,
    kinetic_energy,
    lattice,
    near,
    negative_charges,
    pair_energy,
    pair_forces,
    predict,
    reference_motion,
    role,
    scaled,
    sites,
    virial,
    wrap,
)
from nicscope.apps.svm.domain import Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import SharedArray
    from nicscope.apps.svm.process import Process, Run

PAIR = 100  # accesses to shared elements for two molecules that reach each other
NONE = 0  # what ends a list: links in it are numbers from 1 on
# As the original allocates each: with what follows it in its cell, and what its allocator adds.
LINK = np.dtype([*MOLECULE.descr, ("next", np.int64), ("allocator", np.int64, 3)])
CELL = np.dtype([("list", np.int64), ("lock", np.int64, 5)])
STEPS = 3


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
        await add(me, VIRIAL, virial(terms[:, FORCES], terms[:, PLACE]))

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
        await add(me, VIRIAL, share)
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
        await add(me, KINETIC, kinetic_energy(terms))

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

    async def add(me: Process, place: int, share: float) -> None:
        await me.acquire(("sum", place))
        (await me.write(sums))[place] += share
        await me.release(("sum", place))

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
        await add(me, POTENTIAL, share)
        await me.barrier()

    async def body(me: Process) -> None:
        mine = await own(me)
        rows = _joined(mine)
        await within(me, rows, is_step=False)
        await me.barrier()
        await between(me, mine)
        held = await me.write_rows(links, rows)
        held["terms"][rows, ACCELERATION] = scaled(held["terms"][rows, FORCES])
        for _ in range(steps):
            if me.number == 0:
                (await me.write(sums))[:] = 0
            await me.barrier()
            mine = await own(me)
            await within(me, _joined(mine), is_step=True)
            await me.barrier()
            await between(me, mine)
            await move(me, mine)
            await me.barrier()
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
