"""A result that is wrong is told, whoever spoilt it; and what would spoil it does."""

import pytest
from machine_runs import shared

from nicscope.apps.svm.memory import Diff
from nicscope.apps.svm.process import Placement
from nicscope.errors import SimulationError
from nicscope.studies.applications import APPLICATIONS
from refusals import refused

# How large, and of how many processes.
SIZES = {
    "barnes": (100, 4), "fft": (256, 4), "lu": (80, 4), "ocean": (10, 2), "radix": (3001, 4),
    "raytrace": (24, 4), "volrend": (32, 1), "water-nsquared": (27, 2), "water-spatial": (125, 2),
}  # fmt: skip
OPTIONS = {
    "ocean": {"seed": 3, "steps": 1, "tolerance": 1e-7},
    "raytrace": {"primitives": 150, "lot": 16},
    "volrend": {"rotations": 2, "slices": None},
    "water-nsquared": {"steps": 1},
    "water-spatial": {"steps": 1, "cutoff": 4.0},
}
NODES = {1: Placement(1, 1), 2: Placement(2, 1), 4: Placement(2, 2)}


def made_and_run(name, processes=None):
    size, usual = SIZES[name]
    program = APPLICATIONS[name].make(
        size, processes or usual, **{"seed": 3, **OPTIONS.get(name, {})}
    )
    placement = NODES[processes or usual]
    return program, shared(program, placement)


def more(array, place, by=1, field=None):
    """What adds to an element of a shared array of a run, or to a field of it."""

    def spoil(program, run):
        elements = run.array(program.layout.arrays[array])
        (elements if field is None else elements[field])[place] += by

    return spoil


def other_bits(_, run):
    run.memory.view("uint32")[:, 5] ^= 1 << 18


def other_image(_, run):
    run.results[0][1][:] += 1


@pytest.mark.parametrize(
    ("name", "spoil", "fact"),
    [
        ("barnes", more("bodies", 7, field="acc"), ""),
        ("barnes", more("bodies", 7, field="pos"), ""),
        ("barnes", more("bodies", 7, field="vel"), ""),
        ("barnes", more("bodies", 7, field="parent"), "another"),
        ("fft", other_bits, ""),
        ("lu", other_bits, ""),
        ("radix", other_bits, ""),
        ("ocean", more("fields", 13), "layer 0"),
        ("raytrace", more("image", slice(None), field="shades"), "colour"),
        ("raytrace", more("heap", 1, -40), "160 bytes of jobs"),
        ("raytrace", more("rays", slice(None)), "numbers"),
        ("volrend", other_image, "image 1"),
        ("water-nsquared", more("sums", 1, 1e-3), "potential"),
        ("water-nsquared", more("molecules", (3, 0, 1, 1), 1e-6, "terms"), "a molecule"),
        ("water-spatial", more("sums", 1, 1e-3), "potential"),
        ("water-spatial", more("links", (3, 0, 1, 1), 1e-6, "terms"), "a molecule"),
    ],
)
def test_a_result_that_is_wrong_is_told(name, spoil, fact):
    program, run = made_and_run(name)
    program.check(run)
    spoil(program, run)
    with refused(SimulationError, f"{name}: the result is wrong", fact):
        program.check(run)


@pytest.mark.parametrize(
    ("name", "processes"), [("radix", 4), ("volrend", 4), ("water-nsquared", 2)]
)
def test_it_goes_wrong_when_diffs_do_not_arrive(name, processes, monkeypatch):
    monkeypatch.setattr(Diff, "apply", lambda *_: None)
    program, run = made_and_run(name, processes)
    with refused(SimulationError, f"{name}: the result is wrong"):
        program.check(run)
