"""Barnes on shared memory moves bodies as gravity does, wherever its processes run."""

from __future__ import annotations

import numpy as np
import pytest

from nicscope.apps.splash import barnes as barnes_module
from nicscope.apps.splash.barnes import barnes
from nicscope.apps.splash.costzones import curve
from nicscope.apps.splash.octree import Builder
from nicscope.apps.svm.running import Placement, run_on_shared_memory
from nicscope.errors import SimulationError

PLACEMENTS = [Placement(2, 1), Placement(1, 3), Placement(2, 2), Placement(3, 5)]


def run_of(program, placement):
    return run_on_shared_memory(program.body, program.layout, placement, program.set_up)


def bodies_of(program, run):
    return run.array(program.layout.arrays["bodies"]).copy()


@pytest.fixture(scope="module")
def alone():
    program = barnes(300, 1, seed=3, steps=2)
    return bodies_of(program, run_of(program, Placement(1, 1)))


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda p: f"{p.nodes}x{p.processes}")
def test_bodies_move_as_with_one_process(placement, private, alone):
    program = barnes(300, placement.nodes * placement.processes, seed=3, steps=2)

    run = run_of(program, placement._replace(are_copies_private=private))

    program.check(run)
    found = bodies_of(program, run)
    for field in ("pos", "vel", "acc", "phi"):
        np.testing.assert_allclose(found[field], alone[field], rtol=0, atol=1e-13)
    assert (found["cost"] == alone["cost"]).all()


@pytest.mark.parametrize("bodies", [2, 17, 64])
def test_few_bodies_find_their_places(bodies):
    """Some processes have none, and zones end within leaves."""
    processes = min(bodies, 16)
    program = barnes(bodies, processes, steps=3)

    program.check(run_of(program, Placement(processes, 1, are_copies_private=True)))


def test_a_cell_that_is_only_half_there_is_not_trusted():
    """Many nodes see links to cells before the cells themselves: then the lock says what is so."""
    program = barnes(1000, 16, seed=1, steps=2)

    program.check(run_of(program, Placement(16, 1)))


def test_one_run_is_like_another():
    runs = []
    for _ in range(2):
        program = barnes(300, 4)
        runs.append(run_of(program, Placement(2, 2)))
    first, second = (run.records.columns() for run in runs)

    assert all((first[name] == second[name]).all() for name in first)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("acc", "off its way|centre of mass"),
        ("pos", "off its way|centre of mass"),
        ("vel", "off its way|centre of mass"),
        ("parent", "has another for its own"),
    ],
)
def test_a_result_that_is_wrong_is_told(field, said):
    program = barnes(100, 4)
    run = run_of(program, Placement(2, 2))
    for domain in run.coherence.domains:
        array = program.layout.arrays["bodies"].in_bytes(domain.memory)
        array[field][7] += 1

    with pytest.raises(SimulationError, match=f"barnes: the result is wrong: .*({said})"):
        program.check(run)


def test_forces_that_are_wrong_for_all_are_told(monkeypatch):
    monkeypatch.setattr(barnes_module, "find_pull", halved(barnes_module.find_pull))
    program = barnes(300, 2, steps=2)

    with pytest.raises(SimulationError, match=r"accelerations are off by [45]"):
        program.check(run_of(program, Placement(2, 1)))


def halved(find_pull):
    async def weak(*arguments):
        pull = await find_pull(*arguments)
        pull.acc /= 2
        return pull

    return weak


def test_without_locks_bodies_are_lost(monkeypatch):
    """The builders' locks are what keeps two processes from filling one place."""
    monkeypatch.setattr(Builder, "_lock", lambda self, *_: ("own", self._me.number, object()))
    program = barnes(300, 4)

    with pytest.raises((SimulationError, ValueError, IndexError)):
        program.check(run_of(program, Placement(4, 1)))


def test_bodies_without_two_or_a_step_are_refused():
    for bodies, steps in ((1, 1), (100, 0)):
        with pytest.raises(SimulationError, match=f"barnes: {bodies} bodies and {steps} steps"):
            barnes(bodies, 1, steps=steps)


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
