"""Barnes on shared memory moves bodies as gravity does, wherever its processes run."""

import numpy as np
import pytest
from machine_runs import name_of, shared

from nicscope.apps.splash import barnes as barnes_module
from nicscope.apps.splash.barnes import (
    Builder,
    barnes,
    curve,
    direct_accelerations,
    eighths,
    lay_out,
    plummer,
)
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, run_on_shared_memory
from nicscope.errors import SimulationError

PLACEMENTS = [Placement(2, 1), Placement(1, 3, True), Placement(2, 2, True), Placement(3, 3)]


def bodies_of(program, run):
    return run.array(program.layout.arrays["bodies"]).copy()


@pytest.fixture(scope="module")
def alone():
    program = barnes(200, 1, seed=3, steps=2)
    return bodies_of(program, shared(program, Placement(1, 1)))


@pytest.mark.parametrize("placement", PLACEMENTS, ids=name_of)
def test_bodies_move_as_with_one_process(placement, alone):
    program = barnes(200, placement.nodes * placement.processes, seed=3, steps=2)

    run = shared(program, placement)

    program.check(run)
    found = bodies_of(program, run)
    for field in ("pos", "vel", "acc", "phi"):
        np.testing.assert_allclose(found[field], alone[field], rtol=0, atol=1e-13)
    assert (found["cost"] == alone["cost"]).all()


def test_what_is_far_acts_as_one(alone):
    assert 20 < alone["cost"].mean() < 120  # of 199 others


def test_zones_have_the_same_cost_and_lie_together(monkeypatch):
    zones = {}
    find_own_bodies = barnes_module.find_own_bodies

    async def noted(me, tree):
        zones[me.number] = await find_own_bodies(me, tree)
        return zones[me.number]

    before, program = barnes(300, 4, steps=1), barnes(300, 4, steps=2)
    first = bodies_of(before, shared(before, Placement(2, 2)))
    monkeypatch.setattr(barnes_module, "find_own_bodies", noted)
    shared(program, Placement(2, 2))

    costs = np.array([first["cost"][zones[number]].sum() for number in range(4)])
    assert np.ptp(costs) <= 2 * first["cost"].max()
    spread = np.mean([first["pos"][zones[number]].std(axis=0).mean() for number in range(4)])
    assert spread < 0.8 * first["pos"].std(axis=0).mean()


@pytest.mark.parametrize("bodies", [2, 17, 40])
def test_few_bodies_find_their_places(bodies):
    """Some processes have none, and zones end within leaves."""
    processes = min(bodies, 16)
    program = barnes(bodies, processes, steps=2)

    program.check(shared(program, Placement(processes, 1, are_copies_private=True)))


@pytest.mark.parametrize(
    ("made", "sealed", "locks"),
    [(1, 1, [1]), (1, 0, [0, 1]), (0, 1, [0, 1]), (0, 0, [0, 1])],
)
def test_a_cell_that_is_not_all_there_is_entered_under_the_lock_above(made, sealed, locks):
    """A link may come before the cell, whose two pages may come one after the other."""
    layout = Layout()
    tree = lay_out(layout, 10, 1)
    held = []

    async def body(me):
        acquire = me.acquire

        async def noted(name):
            held.append(name)
            await acquire(name)

        me.acquire = noted
        builder = Builder(me, tree, 1)
        await builder.make_root()
        cells = await me.write(tree.cells)
        cells[0]["below"][5] = 1 + 1
        cells[1]["made"], cells[1]["sealed"] = made, sealed
        await builder.load(4, [5] * 30)

    run = run_on_shared_memory(body, layout, Placement(1, 1))

    assert held == [("cell", number, number) for number in locks]
    assert run.array(tree.cells)[1]["below"].tolist() == [0] * 5 + [-1] + [0] * 2
    assert run.array(tree.leaves)[0]["bodies"][0] == 4


def test_a_full_leaf_is_parted_under_the_lock_of_its_new_cell_too():
    """Else who comes by the new cell's lock first would not know of the leaves below it."""
    layout = Layout()
    tree = lay_out(layout, 11, 1)
    held = []

    async def body(me):
        acquire = me.acquire

        async def noted(name):
            held.append(name[1:])
            await acquire(name)

        me.acquire = noted
        places = np.random.default_rng(1).uniform(0, 0.5, (11, 3))
        (await me.write(tree.bodies))["pos"] = places
        builder = Builder(me, tree, 1)
        await builder.make_root()
        for number, path in enumerate(eighths(places, *builder.cube).tolist()):
            await builder.load(number, path)

    run = run_on_shared_memory(body, layout, Placement(1, 1))

    # Ten are placed; for the eleventh the root's leaf is parted, and then it has its place.
    assert held == [(0, 0)] * 11 + [(1, 1)] * 2
    assert run.array(tree.leaves)["count"][:, 0].sum() == 11


def test_forces_that_are_wrong_for_all_are_told(monkeypatch):
    monkeypatch.setattr(
        barnes_module, "find_accelerations", halved(barnes_module.find_accelerations)
    )
    program = barnes(200, 2, steps=2)

    with pytest.raises(SimulationError, match=r"accelerations are off by [45]"):
        program.check(shared(program, Placement(2, 1)))


def halved(find_accelerations):
    async def weak(*arguments):
        pull = await find_accelerations(*arguments)
        pull.acc /= 2
        return pull

    return weak


def test_without_locks_bodies_are_lost(monkeypatch):
    """The builders' locks are what keeps two processes from filling one place."""
    monkeypatch.setattr(Builder, "_lock", lambda self, *_: ("own", self._me.number, object()))
    program = barnes(200, 4)

    with pytest.raises((SimulationError, ValueError, IndexError)):
        program.check(shared(program, Placement(4, 1)))


def test_hilberts_curve_goes_from_each_eighth_to_the_next_across_a_side():
    def places(way, depth):
        """The corners of the cells of ``depth`` levels, in the curve's order."""
        if not depth:
            return [np.zeros(3, int)]
        return [
            np.array([eighth >> 2 & 1, eighth >> 1 & 1, eighth & 1]) * (1 << depth - 1) + place
            for eighth, further in curve(*way)
            for place in places(further, depth - 1)
        ]

    along = np.array(places((0, 0), 3))

    assert len(np.unique(along, axis=0)) == 512
    assert (np.abs(np.diff(along, axis=0)).sum(axis=1) == 1).all()


@pytest.mark.requirement("UT-80")
def test_bodies_cells_and_leaves_are_as_large_as_on_a_pentium_pro():
    """SPLASH-2's defs.H with integers and pointers of four bytes, and no QUADPOLE."""
    node = 8 + 8 + 3 * 8 + 4 * 4  # short type, mass, pos; cost, level, parent, child_num
    body = node + 3 * 8 + 3 * 8 + 8  # vel, acc, phi
    leaf = node + 4 * 4 + 2 * 4 + 10 * 4  # processor to seqnum; done, num_bodies; bodyp
    cell = node + 4 * 4 + 4 + 8 * 4 + 4  # the same; done; subp; up to whole doubles

    layout = Layout()
    tree = lay_out(layout, 100, 4)

    sizes = [array.dtype.itemsize for array in (tree.bodies, tree.cells, tree.leaves)]
    assert sizes == [body, cell, leaf]


def test_what_is_far_acts_as_a_point_at_its_centre_of_mass():
    """Without quadrupole moments, so that accelerations are off by some hundredths."""
    program = barnes(400, 2, seed=5)
    end = bodies_of(program, shared(program, Placement(2, 1)))
    positions, _ = plummer(400, 5)
    wanted = direct_accelerations(positions, end["mass"], np.arange(400))

    off = np.linalg.norm(end["acc"] - wanted, axis=1).sum() / np.linalg.norm(wanted, axis=1).sum()

    assert 0.01 < off < 0.06
