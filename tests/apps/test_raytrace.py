"""Raytrace on shared memory sees what one process sees, and what is there without its boxes."""

import numpy as np
import pytest
from machine_runs import name_of, shared

from nicscope.apps.splash.raytrace import (
    BOX,
    NOTHING,
    PRIMITIVE,
    SPHERE,
    Rays,
    distances_to,
    hits_by_boxes,
    hits_by_brute_force,
    make_scene,
    raytrace,
)
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, Process, run_on_shared_memory
from nicscope.errors import SimulationError

PLACEMENTS = [Placement(2, 1), Placement(1, 3, True), Placement(2, 2, True), Placement(3, 5)]


def made(processes, lot=16):
    return raytrace(24, processes, seed=3, primitives=150, lot=lot)


def image_of(program, run):
    return run.array(program.layout.arrays["image"])["shades"].copy()


@pytest.fixture(scope="module")
def alone():
    program = made(1)
    return image_of(program, shared(program, Placement(1, 1)))


@pytest.mark.parametrize("placement", PLACEMENTS, ids=name_of)
def test_the_image_is_that_of_one_process(placement, alone):
    program = made(placement.nodes * placement.processes)

    run = shared(program, placement)

    program.check(run)
    assert (image_of(program, run) == alone).all()
    assert len(np.unique(alone.reshape(-1, 3), axis=0)) > 150  # it shows something


def test_rays_have_a_number_twice_without_the_lock(monkeypatch):
    acquire, release = Process.acquire, Process.release

    async def acquire_others(self, name):
        if name != "rays":
            await acquire(self, name)

    async def release_others(self, name):
        if name != "rays":
            await release(self, name)

    monkeypatch.setattr(Process, "acquire", acquire_others)
    monkeypatch.setattr(Process, "release", release_others)
    program = made(4)

    with pytest.raises(SimulationError, match=r"rays have .* numbers"):
        program.check(shared(program, Placement(4, 1)))


def test_numbers_one_at_a_time_cost_more_of_the_page_that_has_them():
    fetches = []
    for lot in (4, 256):
        program = made(4, lot)
        fetches.append(shared(program, Placement(4, 1)).records.fetches)

    assert fetches[0] > 3 * fetches[1]


def test_nothing_but_the_pools_and_their_heap_is_locked_where_each_process_numbers_its_rays(
    monkeypatch, alone
):
    """UTLB, 6.1: 'Communication in Raytrace revolves around the task queues'."""
    names = []
    acquire = Process.acquire

    async def noted(self, name):
        names.append(name if name == "heap" else name[0])
        await acquire(self, name)

    monkeypatch.setattr(Process, "acquire", noted)
    program = raytrace(24, 4, seed=3, primitives=150)

    run = shared(program, Placement(4, 1))

    program.check(run)
    assert {*names} == {"heap", "pool"}
    assert (image_of(program, run) == alone).all()


def test_a_pixel_is_three_numbers_of_four_bytes():
    image = made(4).layout.arrays["image"]

    assert (image.shape, image.byte_count) == ((24, 24), 24 * 24 * 12)


@pytest.mark.parametrize("any_will_do", [False, True])
def test_boxes_hide_nothing(any_will_do):
    rng = np.random.default_rng(1)
    scene = make_scene(300, seed=5)
    away = rng.standard_normal((200, 3))
    away /= np.linalg.norm(away, axis=1)[:, None]
    away[:3] = np.eye(3)  # along the boxes' sides
    reach = np.where(np.arange(200) % 2, np.inf, 0.2)
    rays = Rays(rng.uniform(0, 1, (200, 3)), away, reach)
    layout = Layout()
    primitives = layout.array("primitives", 300, PRIMITIVE)
    boxes = layout.array("boxes", len(scene.boxes), BOX)

    def set_up(array_of):
        array_of(primitives)[:], array_of(boxes)[:] = scene.primitives, scene.boxes

    async def body(me):
        return await hits_by_boxes(me, boxes, primitives, rays, any_will_do=any_will_do)

    (found,) = run_on_shared_memory(body, layout, Placement(1, 1), set_up).results
    wanted = hits_by_brute_force(scene.primitives, rays)

    assert ((found.which == NOTHING) == (wanted.which == NOTHING)).all()
    assert 20 < np.count_nonzero(found.which != NOTHING) < 190
    if not any_will_do:
        assert (found.which == wanted.which).all()
        assert (found.distances == wanted.distances).all()


def test_distances_are_those_to_the_surface():
    primitives = np.zeros(4, PRIMITIVE)
    primitives["kind"][:2] = SPHERE
    primitives["radius"][:2] = 1
    primitives["points"][0] = (0, 0, 5)
    primitives["points"][1] = (3, 0, 5)
    primitives["points"][2] = [(-1, -1, 2), (1, -1, 2), (0, 2, 2)]
    primitives["points"][3] = [(1, 1, 2), (2, 1, 2), (1, 2, 2)]

    far = distances_to(primitives, np.zeros(3), np.array([0.0, 0.0, 1.0]))

    assert far.tolist() == [4, np.inf, 2, np.inf]
    inside = distances_to(primitives[:1], np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.0, 1.0]))
    assert inside.tolist() == [1]
