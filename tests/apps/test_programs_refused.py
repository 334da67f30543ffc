"""Sizes that programs cannot share out, and what they may not ask of shared memory."""

import numpy as np
import pytest

from nicscope.apps.splash.barnes import barnes
from nicscope.apps.splash.kernels import fft, lu, radix
from nicscope.apps.splash.ocean import ocean
from nicscope.apps.splash.raytrace import raytrace
from nicscope.apps.splash.volrend import volrend
from nicscope.apps.splash.water import box_of, lattice, water_nsquared, water_spatial
from nicscope.apps.svm.machines.node import MOST_PAGES, run_on_machines
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, run_on_shared_memory
from nicscope.errors import SimulationError
from refusals import refused


def layout_with(elements=8, kind=np.uint32):
    layout = Layout()
    layout.array("a", elements, kind)
    return layout


def on_trapeze(**options):
    run_on_machines(lambda _: None, layout_with(), Placement(2, 1), on="trapeze", **options)


def on_machines(*placement, on="vmmc"):
    layout = layout_with((MOST_PAGES + 1) * 512, np.float64)
    run_on_machines(lambda _: None, layout, Placement(*placement), on=on)


REFUSED = [
    (lambda: barnes(1, 1, steps=1), "barnes", "1 bodies", "1 steps"),
    (lambda: barnes(100, 1, steps=0), "barnes", "100 bodies", "0 steps"),
    (lambda: fft(1000, 2), "2 processes", "1,024"),
    (lambda: fft(64, 3), "3 processes", "81"),
    (lambda: fft(1, 16), "16 processes", "256"),
    (lambda: lu(0, 2), "0 rows"),
    (lambda: ocean(9, 16), "7 points", "4 x 4 processes"),
    (lambda: ocean(34, 1, steps=0), "0 steps"),
    (lambda: radix(3, 4), "4 processes"),
    (lambda: raytrace(0, 1), "raytrace", "0 pixels"),
    (lambda: volrend(4, 1, rotations=1), "4 voxels", "4 slices", "powers of two from 8"),
    (lambda: volrend(48, 1, rotations=1), "48 voxels"),
    (lambda: volrend(32, 1, rotations=1, slices=24), "24 slices", "powers of two"),
    (lambda: volrend(16, 1, rotations=1, slices=32), "32 slices", "at most 16"),
    (lambda: volrend(16, 1, rotations=0), "0 rotations"),
    (lambda: water_nsquared(27, 28), "27 molecules", "3 steps", "28 processes"),
    (lambda: water_nsquared(27, 2, steps=0), "0 steps"),
    (lambda: water_nsquared(30, 2), "water-nsquared", "30 molecules", "27"),
    (lambda: water_spatial(27, 2, steps=0), "water-spatial", "0 steps"),
    (lambda: water_spatial(27, 2, cutoff=99.0), "99.0 A"),
    (lambda: box_of("water", 27, 9), "water", "9 A", "9.3 A"),
    (lambda: lattice("water", 28, box_of("water", 27, 0), 0), "water", "28 molecules"),
    (lambda: layout_with().array("a", 1), "already"),
    (lambda: layout_with().array("b", 0), "no elements"),
    (lambda: layout_with().array("c", 4, np.uint8), "whole words"),
    (lambda: Layout(1000), "power of two"),
    (lambda: on_machines(2, 2, on="vmcc"), "'vmcc'", "'vmmc'"),
    (lambda: on_trapeze(design="utlb"), "Trapeze has no designs", "leave the design out"),
    (lambda: on_machines(0, 1), "at least one process"),
    (lambda: on_machines(2, 1), f"{MOST_PAGES + 1:,} pages"),
    (lambda: on_machines(2, 2, True, on="mini"), f"{2 * (MOST_PAGES + 1):,} pages"),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: " ".join(row[1:]))
def test_what_cannot_be_is_refused_at_once(row):
    make, *facts = row
    with refused(SimulationError, *facts):
        make()


async def writes_what_it_reads(me, array):
    (await me.read(array))[0] = 1


async def reads_beyond(me, array):
    await me.read(array, 0, 9)


async def takes_twice(me, _):
    await me.acquire("lock")
    await me.acquire("lock")


async def lets_go(me, _):
    await me.release("lock")


@pytest.mark.parametrize("run", [run_on_shared_memory, run_on_machines])
@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        (writes_what_it_reads, ["read-only"]),
        (reads_beyond, ["elements 0 to 9", "'a'", "8"]),
        (takes_twice, ["acquires", "'lock'"]),
        (lets_go, ["releases", "'lock'"]),
    ],
)
def test_what_is_read_cannot_be_written_and_locks_are_their_holders(run, wrong, facts):
    layout = layout_with()
    with refused((ValueError, SimulationError), *facts):
        run(lambda me: wrong(me, layout.arrays["a"]), layout, Placement(1, 1))
