"""Volrend on shared memory shows what one process sees, and what is there if nothing is skipped."""

import numpy as np
import pytest
from machine_runs import name_of, shared

from nicscope.apps.splash import volrend as volrend_module
from nicscope.apps.splash.volrend import (
    NORMALS,
    SharedVoxels,
    make_volume,
    normal_vectors,
    shades_of,
    view_from,
    volrend,
)
from nicscope.apps.svm.process import Placement
from nicscope.errors import SimulationError

PLACEMENTS = [Placement(2, 1), Placement(1, 3, True), Placement(2, 2, True), Placement(3, 5)]


def made(processes, slices=None):
    return volrend(32, processes, seed=3, rotations=2, slices=slices)


@pytest.fixture(scope="module")
def alone():
    return shared(made(1), Placement(1, 1)).results[0]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=name_of)
def test_the_images_are_those_of_one_process(placement, alone):
    program = made(placement.nodes * placement.processes)

    run = shared(program, placement)

    program.check(run)
    assert (np.array(run.results[0]) == np.array(alone)).all()


def test_the_images_show_something_from_two_sides(alone):
    first, second = alone

    assert 0.1 < (first > 0).mean() < 0.5
    assert len(np.unique(first)) > 50
    assert (first != second).mean() > 0.05


def test_it_goes_wrong_when_too_much_is_skipped(monkeypatch):
    """The blocks of the pyramid's lowest level, each for its neighbour."""
    rightly = SharedVoxels.may_be_seen

    async def wrongly(self, samples):
        return await rightly(self, np.maximum(samples - 2, 0))

    monkeypatch.setattr(SharedVoxels, "may_be_seen", wrongly)
    program = made(1)

    with pytest.raises(SimulationError, match="volrend: the result is wrong"):
        program.check(shared(program, Placement(1, 1)))


def test_what_is_empty_is_skipped(monkeypatch):
    """Of the voxels around every sample within the volume, few are looked up."""
    asked = []
    look_up = SharedVoxels._look_up

    async def counted(self, array, kind, places):
        asked.append((array.name, len(places)))
        return await look_up(self, array, kind, places)

    monkeypatch.setattr(SharedVoxels, "_look_up", counted)
    program = volrend(32, 1, rotations=1)

    shared(program, Placement(1, 1))

    assert sum(many for name, many in asked if name == "opacities") < 8 * 32**3 / 2


def test_each_level_of_the_pyramid_has_the_most_of_what_samples_in_a_block_touch():
    volume = make_volume(16, 8, seed=1)

    assert len(volume.levels) == 3
    for level, first in enumerate(volume.levels):
        block = 2 << level
        shape = (8 // block, 16 // block, 16 // block)
        found = volume.pyramid[first : first + np.prod(shape)].reshape(shape)
        for z, y, x in np.ndindex(shape):
            touched = volume.opacities[
                z * block : (z + 1) * block + 1,
                y * block : (y + 1) * block + 1,
                x * block : (x + 1) * block + 1,
            ]
            assert found[z, y, x] == touched.max()


def test_normals_are_of_length_one_and_face_every_way():
    vectors = normal_vectors()

    assert len(vectors) == NORMALS
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.abs(vectors.mean(axis=0)).max() < 1e-12


def test_what_faces_the_eye_is_the_brightest():
    shades, vectors = shades_of(view_from(8, 8, 0)), normal_vectors()

    assert vectors[shades.argmax()][2] < -0.99
    assert shades[vectors[:, 2] > 0].max() == int(255 * volrend_module.AMBIENT)


def test_fewer_slices_show_nearly_the_same(alone):
    program = made(4, slices=16)

    run = shared(program, Placement(2, 2))

    program.check(run)
    for image, fine in zip(run.results[0], alone, strict=True):
        assert np.abs((image > 0).mean() - (fine > 0).mean()) < 0.03
        assert np.corrcoef(image, fine)[0, 1] > 0.8
    assert program.layout.pages < 0.7 * made(4).layout.pages
