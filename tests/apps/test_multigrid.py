"""Coarser grids bring an elliptic equation's solution near in few sweeps of the finest."""

import numpy as np
import pytest

from nicscope.apps.splash import ocean
from nicscope.apps.splash.ocean import Multigrid, partitions
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, run_on_shared_memory

SIDE = 8


def solved(processes, levels, monkeypatch):
    """A solution with 1 on the edge and -1 / 16 inside, and the work: points relaxed."""
    layout = Layout()
    by_level = partitions(SIDE, processes)[-levels:]
    solver = Multigrid(layout, by_level, 0.0, 1e-5)
    relaxed = []
    relax = ocean._relax

    def counted(sought, *rest):
        relaxed.append(sought.size)
        return relax(sought, *rest)

    monkeypatch.setattr(ocean, "_relax", counted)

    async def program(me):
        part = by_level[-1].parts[me.number]
        await solver.claim_homes(me)
        (await solver.finest.rhs.part(me))[:] = -1 / 16
        view = await solver.finest.sought.part(me)
        view[part.own] = 1
        view[1:-1, 1:-1] = 0
        await solver.solve(me)

    run = run_on_shared_memory(program, layout, Placement(1, processes))
    grid = solver.finest.sought
    return grid.whole(run.array(grid.array)), sum(relaxed)


@pytest.mark.parametrize("processes", [1, 2])
def test_coarser_grids_save_work_and_change_nothing(monkeypatch, processes):
    with monkeypatch.context() as patch:
        alone, most = solved(processes, 1, patch)
    with monkeypatch.context() as patch:
        together, work = solved(processes, 4, patch)

    np.testing.assert_allclose(alone, together, atol=2e-3)
    around = alone[:-2, 1:-1] + alone[2:, 1:-1] + alone[1:-1, :-2] + alone[1:-1, 2:]
    np.testing.assert_allclose(around - 4 * alone[1:-1, 1:-1], -1 / 16, atol=1e-4)
    assert work < most / 2


def test_interpolation_keeps_what_is_linear():
    """On the coarse grid and the fine one, whose points divide the same square otherwise."""
    coarse, fine = np.linspace(0, 1, 8), np.linspace(0, 1, 14)  # 6 and 12 inner points

    found = ocean._interpolated(coarse[2:6, None], 2, 2, 6)  # points 3 and 4 of them

    np.testing.assert_allclose(found[:, 0], fine[5:9])


def test_injection_takes_the_residual_at_the_coarse_points_place():
    fine = np.linspace(0, 1, 14)[::2]  # every second point from the edge on

    weights = ocean._weights(0, 6, 6) / 2
    found = ocean._injected(np.add.outer(fine, 2 * fine), weights, weights)

    coarse = np.linspace(0, 1, 8)[1:-1]
    np.testing.assert_allclose(found, np.add.outer(coarse, 2 * coarse))


def test_how_many_share_a_grid_changes_nothing(monkeypatch):
    """Not even on the way: near others' points too, coarser grids are what one process makes."""
    grids = []
    for processes in (1, 4):
        with monkeypatch.context() as patch:
            grids.append(solved(processes, 2, patch)[0])

    np.testing.assert_allclose(grids[0], grids[1], rtol=0, atol=1e-13)
