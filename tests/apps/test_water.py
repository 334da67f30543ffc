"""Both Water programs on shared memory move molecules as one process does."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from nicscope.apps.splash.process_grid import cube, edges, plane
from nicscope.apps.splash.water_nsquared import water_nsquared
from nicscope.apps.splash.water_spatial import water_spatial
from nicscope.apps.svm.process import Process
from nicscope.apps.svm.running import Placement, run_on_shared_memory
from nicscope.errors import SimulationError
from refusals import refused

PLACEMENTS = [
    Placement(1, 1),
    Placement(2, 1),
    Placement(3, 1),
    Placement(2, 2),
    Placement(2, 2, are_copies_private=True),
    Placement(4, 2),
]
MAKERS = {
    "water-nsquared": lambda processes, seed=3: water_nsquared(27, processes, seed, steps=1),
    "water-spatial": lambda processes, seed=3: water_spatial(125, processes, seed, 1, 4.0),
}


def run_of(program, placement):
    return run_on_shared_memory(program.body, program.layout, placement, program.set_up)


@pytest.mark.parametrize(
    "placement", PLACEMENTS, ids=lambda p: f"{p.nodes}x{p.processes}{'p' * p.are_copies_private}"
)
@pytest.mark.parametrize("name", MAKERS)
def test_the_result_is_right(name, placement):
    program = MAKERS[name](placement.nodes * placement.processes)

    run = run_of(program, placement)

    program.check(run)
    assert (run.records.fetches > 0) == (placement.nodes > 1)


@pytest.mark.parametrize(
    "program",
    [
        lambda: water_nsquared(64, 4, steps=2),  # an even number: pairs half of it apart
        lambda: water_nsquared(27, 4, steps=2, cutoff=3.0),
        lambda: water_spatial(64, 4, steps=2),  # two cells a side, each with all others around it
        lambda: water_spatial(27, 16, cutoff=3.0),  # more processes than it has cells
    ],
    ids=["even", "near", "two", "few"],
)
def test_other_sizes_are_right(program):
    made = program()
    processes = 16 if made.size.startswith("27") and "spatial" in made.name else 4
    run = run_of(made, Placement(processes // 2, 2))

    made.check(run)


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_decides_everything(name):
    def once(seed):
        program = MAKERS[name](4, seed)
        run = run_of(program, Placement(2, 2))
        sums = run.array(program.layout.arrays["sums"])
        return run.records.columns(), run.microseconds, sums.tolist()

    (columns, time, sums), again, other = once(1), once(1), once(2)
    assert all(np.array_equal(columns[key], again[0][key]) for key in columns)
    assert (time, sums) == again[1:]
    assert sums != other[2]


def test_each_molecule_is_added_to_under_its_own_lock(monkeypatch):
    """By each process that has looked at it: half of all and its own, but all of one's own."""
    taken = count_locks(monkeypatch)
    program = MAKERS["water-nsquared"](3)

    run_of(program, Placement(3, 1))

    for number in range(3):  # in two evaluations of forces
        assert sum(taken[number]["molecule"].values()) == 2 * (27 // 2 + 9)
        assert {*taken[number]["molecule"].values()} == {2}


def test_a_molecule_that_leaves_its_cell_goes_to_the_others_list_under_locks(monkeypatch):
    """Of an odd number a side in two cells, a plane lies between and goes either way."""
    taken = count_locks(monkeypatch)
    program = water_spatial(125, 2, 3, 1, 7.7)

    run = run_of(program, Placement(2, 1))

    program.check(run)
    cells = [sum(of["cell"].values()) for of in taken.values()]
    assert sum(cells) >= 20
    assert sum(cells) % 2 == 0


def test_a_molecule_in_no_list_is_told():
    program = MAKERS["water-spatial"](2)
    run = run_of(program, Placement(2, 1))
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
