"""Ocean on shared memory gives what sine transforms give in one process."""

from collections import Counter

import numpy as np
import pytest
from machine_runs import shared

from nicscope.apps.splash.ocean import PartitionedGrid, ocean, partitions
from nicscope.apps.svm.process import Placement
from nicscope.errors import SimulationError


def made(side, placement, **options):
    processes = placement.nodes * placement.processes
    tolerance = 1e-7 if processes < 5 else 1e-5
    return ocean(side, processes, **({"seed": 3, "steps": 1, "tolerance": tolerance} | options))


@pytest.mark.parametrize("placement", [Placement(2, 2, are_copies_private=True), Placement(4, 4)])
def test_the_result_is_right_to_the_last_digits(placement):
    program = made(10, placement)

    program.check(shared(program, placement))


def test_several_steps_are_right():
    program = made(10, Placement(2, 1), steps=3)

    program.check(shared(program, Placement(2, 1)))


def test_it_goes_wrong_when_neighbours_points_are_old(monkeypatch):
    exchange = PartitionedGrid.exchange

    async def of_the_solver(grid, me, colour=None):
        if grid.array.name != "fields":
            await exchange(grid, me, colour)

    monkeypatch.setattr(PartitionedGrid, "exchange", of_the_solver)
    program = made(10, Placement(2, 1))

    with pytest.raises(SimulationError, match="ocean: the result is wrong"):
        program.check(shared(program, Placement(2, 1)))


def neighbours(process, colour):
    """Whose points are next to those of a process of 4 x 4, and how many of each."""
    partition = partitions(32, 16)[-1]
    firsts = [part * 100 for part in range(16)]
    theirs, ours = PartitionedGrid(None, firsts, partition)._ring(process, colour)
    assert {*(ours // 100).tolist()} == {process}
    return Counter((theirs // 100).tolist())


def test_a_part_has_a_border_of_each_neighbours_points():
    corners = {0: 1, 2: 1, 8: 1, 10: 1}
    assert neighbours(5, None) == {1: 8, 4: 8, 6: 8, 9: 8, **corners}
    assert neighbours(0, None) == {1: 9, 4: 9, 5: 1}  # with what these have of the grid's edge


@pytest.mark.parametrize("colour", [0, 1])
def test_a_sweep_of_one_colour_needs_half_of_that(colour):
    assert neighbours(5, colour) == {1: 4, 4: 4, 6: 4, 9: 4}


def test_a_point_of_a_grid_is_its_owners():
    partition = partitions(12, 4)[-1]
    grid = np.arange(14 * 14.0).reshape(14, 14)
    parted = PartitionedGrid(None, [0, 64, 128, 192], partition)
    elements = np.zeros(256)

    parted.scatter_whole(elements, grid)

    rows, columns = np.divmod(np.arange(14 * 14), 14)
    owner, within = partition.owners(rows, columns)
    assert np.array_equal(elements[owner * 64 + within].reshape(14, 14), grid)
    assert np.array_equal(parted.whole(elements), grid)


def test_coarser_grids_leave_every_process_two_points_a_side():
    assert [part.side for part in partitions(32, 16)] == [8, 16, 32]
    assert [part.side for part in partitions(24, 3)] == [6, 12, 24]
    assert [part.side for part in partitions(19, 3)] == [19]
    assert [part.side for part in partitions(256, 1)] == [2, 4, 8, 16, 32, 64, 128, 256]
