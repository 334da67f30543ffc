"""Both Water programs on shared memory move molecules as one process does."""

from collections import Counter, defaultdict

import pytest
from machine_runs import OF_ODD_SIZES, shared

from nicscope.apps.splash.ocean import cube, edges, plane
from nicscope.apps.splash.water import POTENTIAL, water_nsquared, water_spatial
from nicscope.apps.svm.process import Placement, Process
from nicscope.errors import SimulationError
from refusals import refused


@pytest.mark.parametrize(
    "program",
    [
        lambda: water_nsquared(64, 4, steps=3),  # an even number: pairs half of it apart
        lambda: water_nsquared(27, 4, steps=3, cutoff=3.0),
        lambda: water_spatial(64, 4, steps=3),  # two cells a side, each with all others around it
        lambda: water_spatial(27, 16, cutoff=3.0),  # more processes than it has cells
    ],
    ids=["even", "near", "two", "few"],
)
def test_other_sizes_are_right(program):
    made = program()
    processes = 16 if made.size.startswith("27") and "spatial" in made.name else 4
    run = shared(made, Placement(processes // 2, 2))

    made.check(run)


@pytest.mark.parametrize("make", [water_nsquared, water_spatial])
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_the_potential_energy_is_computed_every_third_step(make, steps, monkeypatch):
    """As the original's mdmain.C does with the NPRINT of its input; processes add their shares."""
    taken = count_locks(monkeypatch)
    program = make(27, 2, steps=steps)

    run = shared(program, Placement(2, 1))

    program.check(run)
    assert [of["sum"][POTENTIAL] for of in taken.values()] == [steps // 3] * 2
    energy = run.array(program.layout.arrays["sums"])[POTENTIAL]
    assert (energy != 0) == (steps == 3)  # each step begins with sums of 0


def test_each_molecule_is_added_to_under_its_own_lock(monkeypatch):
    """By each process that has looked at it: half of all and its own, but all of one's own."""
    taken = count_locks(monkeypatch)
    program = OF_ODD_SIZES["water-nsquared"](3)

    shared(program, Placement(3, 1))

    for number in range(3):  # in two evaluations of forces
        assert sum(taken[number]["molecule"].values()) == 2 * (27 // 2 + 9)
        assert {*taken[number]["molecule"].values()} == {2}


def test_a_molecule_that_leaves_its_cell_goes_to_the_others_list_under_locks(monkeypatch):
    """Of an odd number a side in two cells, a plane lies between and goes either way."""
    taken = count_locks(monkeypatch)
    program = water_spatial(125, 2, 3, 1, 7.7)

    run = shared(program, Placement(2, 1))

    program.check(run)
    cells = [sum(of["cell"].values()) for of in taken.values()]
    assert sum(cells) >= 20
    assert sum(cells) % 2 == 0


def test_a_molecule_in_no_list_is_told():
    program = OF_ODD_SIZES["water-spatial"](2)
    run = shared(program, Placement(2, 1))
    run.array(program.layout.arrays["cells"])[5] = 0

    with refused(SimulationError, "its cell"):
        program.check(run)


def count_locks(monkeypatch):
    """How often each process takes each lock whose name has two parts."""
    taken = defaultdict(lambda: defaultdict(Counter))
    acquire = Process.acquire

    async def counted(me, name):
        if isinstance(name, tuple):
            taken[me.number][name[0]][name[1]] += 1
        await acquire(me, name)

    monkeypatch.setattr(Process, "acquire", counted)
    return taken


def test_processes_share_a_box_as_evenly_as_can_be():
    assert [cube(many) for many in (1, 2, 3, 4, 8, 16, 27)] == [
        *((1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 2, 2), (2, 2, 2), (2, 2, 4), (3, 3, 3)),
    ]
    assert [plane(many) for many in (1, 2, 6, 16)] == [(1, 1), (2, 1), (3, 2), (4, 4)]
    assert edges(7, 4) == [0, 2, 4, 6, 7]
    assert edges(10, 4) == [0, 3, 6, 8, 10]
