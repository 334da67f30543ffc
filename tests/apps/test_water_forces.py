"""Forces on water's atoms are how their energy falls, and motion keeps the energy."""

import numpy as np
import pytest

from nicscope.apps.splash.water import (
    KINETIC,
    MASSES,
    POTENTIAL,
    TEMPERATURE,
    Box,
    box_of,
    inner_energy,
    inner_forces,
    kinetic_energy,
    lattice,
    near,
    reference_forces,
    reference_motion,
    wrap,
)

MOLECULES = 27
BOX = box_of("water", MOLECULES, 0)
GIVEN = lattice("water", MOLECULES, BOX, 5)
ONE_CELL = np.zeros((MOLECULES, 3), np.int64)
NUDGE = 1e-5


def shaken():
    places = GIVEN["terms"][:, 0].copy()
    return places + np.random.default_rng(6).normal(0, 0.05, places.shape)


@pytest.mark.parametrize("box", [BOX, Box(60.0, 6.0)], ids=["full", "large"])
@pytest.mark.parametrize("at", [(0, 0, 0), (5, 1, 1), (13, 2, 2), (26, 0, 1)])
def test_a_force_is_how_energy_falls(at, box):
    places = shaken()

    forces, _ = reference_forces(places, box, ONE_CELL)

    energies = []
    for nudge in (NUDGE, -NUDGE):
        moved = places.copy()
        moved[at] += nudge
        energies.append(reference_forces(moved, box, ONE_CELL, is_energy=True)[1])
    assert forces[at] == pytest.approx(-(energies[0] - energies[1]) / (2 * NUDGE), abs=1e-6)


def test_a_molecule_at_rest_has_no_inner_force_and_no_energy():
    places = GIVEN["terms"][:, 0]

    assert np.abs(inner_forces(places)).max() < 1e-12
    assert np.abs(inner_energy(places)).max() < 1e-12


def test_forces_within_a_molecule_neither_push_nor_turn_it():
    places = shaken()

    forces = inner_forces(places)

    assert np.abs(forces.sum(axis=2)).max() < 1e-12
    turning = np.cross(places, forces, axis=1).sum(axis=2)
    assert np.abs(turning).max() < 1e-10


def test_motion_keeps_the_energy_and_begins_at_the_temperature():
    start = reference_motion(GIVEN, BOX, 0)[1]
    later = reference_motion(GIVEN, BOX, 30)[1]

    assert start[KINETIC] == pytest.approx(1.5 * 3 * MOLECULES * TEMPERATURE, rel=1e-6)
    assert abs(later[KINETIC] - start[KINETIC]) > 0.05 * start[KINETIC]  # it has gone to and fro
    assert later[KINETIC] + later[POTENTIAL] == pytest.approx(
        start[KINETIC] + start[POTENTIAL], rel=5e-3
    )


def test_nothing_moves_as_a_whole():
    pushes = (GIVEN["terms"][:, 1] * MASSES).sum(axis=(0, 2))

    assert np.abs(pushes).max() < 1e-12
    assert kinetic_energy(GIVEN["terms"]) > 0


def test_molecules_that_leave_the_box_come_in_on_the_other_side():
    terms = GIVEN["terms"].copy()
    terms[0, 0] -= [[BOX.side], [0], [0]]
    terms[1, 0] += [[0], [0], [BOX.side]]

    wrap(terms, BOX.side)

    np.testing.assert_allclose(terms[:, 0], GIVEN["terms"][:, 0], atol=1e-12)


def test_molecules_of_cells_that_are_no_neighbours_feel_nothing():
    places = shaken()[:2]
    apart = np.array([[0, 0, 0], [2, 0, 0]])

    far, _ = reference_forces(places, Box(50.0, 11.0, cells=4), apart)
    close, _ = reference_forces(places, Box(50.0, 11.0, cells=3), apart)  # round the box

    assert np.array_equal(far, inner_forces(places))
    assert not np.array_equal(close, far)


def test_what_is_near_is_near_across_the_boxs_sides():
    ends = np.array([[0.5, 0, 0], [49.5, 0, 0], [25, 0, 0]])

    first, second = near(ends, ends, 50.0, 3.0)

    assert [*zip(first.tolist(), second.tolist(), strict=True)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 2),
    ]
