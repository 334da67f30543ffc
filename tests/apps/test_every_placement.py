"""Each program is right on any number of processes, odd ones too, of any size that it takes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nicscope.apps.splash.barnes import barnes
from nicscope.apps.splash.fft import fft
from nicscope.apps.splash.lu import lu
from nicscope.apps.splash.ocean import ocean
from nicscope.apps.splash.radix import radix
from nicscope.apps.splash.raytrace import raytrace
from nicscope.apps.splash.volrend import volrend
from nicscope.apps.splash.water_nsquared import water_nsquared
from nicscope.apps.splash.water_spatial import water_spatial
from nicscope.apps.svm import running
from nicscope.apps.svm.coherence import Coherence
from nicscope.apps.svm.running import Placement, run_on_shared_memory
from pairwise import others_marked

PLACEMENTS = (
    *((1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (5, 1), (3, 2), (1, 7), (4, 2), (3, 4), (4, 4)),
    (16, 1),
)
# Of so many processes, each of an odd size where it takes one.
MAKERS = {
    "fft": lambda many: fft((math.lcm(many, 3) if many < 8 else many) ** 2, many, seed=1),
    "lu": lambda many: lu(37, many, seed=1, block=4),
    "radix": lambda many: radix(1001, many, seed=1, digits=64),
    "ocean": lambda many: ocean(17, many, seed=1, steps=1, tolerance=1e-3),
    "barnes": lambda many: barnes(37, many, seed=1),
    "water-nsquared": lambda many: water_nsquared(27, many, seed=1, steps=1),
    "water-spatial": lambda many: water_spatial(125, many, seed=1, steps=1, cutoff=4.0),
    "raytrace": lambda many: raytrace(37, many, seed=1, primitives=21),
    "volrend": lambda many: volrend(8, many, seed=1, rotations=1),
}


EVERY = [(name, placement) for name in MAKERS for placement in PLACEMENTS]
# A third of the placements for each program, and of the programs for each placement.
THIRD = [
    (name, placement)
    for first, name in enumerate(MAKERS)
    for placement in PLACEMENTS[first % 3 :: 3]
]


def run_of(name, placement):
    program = MAKERS[name](placement.nodes * placement.processes)
    return program, run_on_shared_memory(program.body, program.layout, placement, program.set_up)


@pytest.mark.parametrize(
    ("name", "placement"),
    others_marked(pytest.mark.long, EVERY, THIRD),
    ids=lambda one: one if isinstance(one, str) else f"{one[0]}x{one[1]}",
)
def test_the_result_is_right(name, placement):
    program, run = run_of(name, Placement(*placement))

    program.check(run)


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_decides_what_is_asked_for(name):
    (_, first), (_, again) = (run_of(name, Placement(3, 2)) for _ in range(2))

    columns, same = first.records.columns(), again.records.columns()
    assert all(np.array_equal(columns[key], same[key]) for key in columns)
    assert len(columns["pid"])


@pytest.mark.parametrize("side", [1, 5, 16, 33, 50])
def test_lu_takes_a_matrix_of_any_side(side):
    program = lu(side, 4, seed=2)
    run = run_on_shared_memory(program.body, program.layout, Placement(2, 2), program.set_up)

    program.check(run)


def test_lus_panels_come_page_by_page_and_each_page_once():
    """Of blocks of 16 rows two are in a page, and next to each other in a row of blocks."""
    program = lu(256, 16, seed=2)
    run = run_on_shared_memory(program.body, program.layout, Placement(4, 4), program.set_up)

    columns = run.records.columns()
    fetched = (columns["op"] == 4) & ~columns["initial"]
    once, times = np.unique(
        np.stack([columns["node"][fetched].astype(np.uint64), columns["address"][fetched]]),
        axis=1,
        return_counts=True,
    )
    assert (times == 1).mean() > 0.9
    assert len(once.T)


def test_waters_processes_do_the_part_after_their_own_number(monkeypatch):
    """As the originals', which take numbers from 1 on: so parts side by side are on two nodes."""
    made = []
    monkeypatch.setattr(running, "Coherence", lambda *of: made.append(Coherence(*of)) or made[0])
    program = water_nsquared(27, 3, seed=1, steps=1)
    run_on_shared_memory(program.body, program.layout, Placement(3, 1), program.set_up)

    first = program.layout.arrays["molecules"].first // program.layout.page_bytes
    assert made[0].homes[first] == 2  # whose node's process has the first molecules
