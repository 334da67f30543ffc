"""Water-nsquared: molecular dynamics of water over all pairs of molecules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.ocean import edges
from nicscope.apps.splash.program import SharedProgram
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
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import SharedArray
    from nicscope.apps.svm.process import Process, Run

STEPS = 3
ENTRIES_AT_ONCE = 1 << 20  # of a table of pairs
PAIR = 100  # accesses to shared elements for two molecules that reach each other
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
        await add(me, VIRIAL, virial(mine["terms"][:, FORCES], mine["terms"][:, PLACE]))

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
        await add(me, VIRIAL, virial(total[order], atoms_of(placed)))
        for number in order.tolist():
            await me.acquire(("molecule", number))
            (await me.write(held, number, number + 1))["terms"][0, FORCES] += total[number]
            await me.release(("molecule", number))
            me.work(18)
        await me.barrier()

    async def add(me: Process, place: int, share: float) -> None:
        await me.acquire(("sum", place))
        (await me.write(sums))[place] += share
        await me.release(("sum", place))

    async def potential(me: Process) -> None:
        mine = await own(me)
        mine["charge"] = negative_charges(mine["terms"][:, PLACE])
        share = float(inner_energy(mine["terms"][:, PLACE]).sum())
        await me.barrier()
        order, placed = await reached(me)
        for first, second in _pairs(order, placed, len(mine), molecules, box.side, box.cutoff):
            share += pair_energy(placed[first], placed[second], box.side, box.cutoff)
            me.work(PAIR * len(first))
        await add(me, POTENTIAL, share)
        await me.barrier()

    async def body(me: Process) -> None:
        await within(me, is_step=False)
        await me.barrier()
        await between(me)
        mine = await own(me)
        mine["terms"][:, ACCELERATION] = scaled(mine["terms"][:, FORCES])
        for _ in range(steps):
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
            await add(me, KINETIC, kinetic_energy(mine["terms"]))
            await me.barrier()
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
