"""Each program is right on any number of processes, odd ones too, of any size that it takes."""

from __future__ import annotations

import numpy as np
import pytest
from machine_runs import OF_ODD_SIZES, name_of, shared

from nicscope.apps.splash.kernels import fft, lu
from nicscope.apps.splash.water import water_nsquared
from nicscope.apps.svm import process
from nicscope.apps.svm.coherence import Coherence
from nicscope.apps.svm.process import Placement
from nicscope.errors import SimulationError
from pairwise import others_marked
from refusals import refused

PLACEMENTS = [
    Placement(nodes, processes, private)
    for nodes, processes, private in (
        *((1, 1, False), (1, 2, False), (2, 1, False), (3, 1, False), (2, 2, True), (5, 1, False)),
        *((3, 2, True), (1, 7, True), (4, 2, False), (3, 4, False), (4, 4, True), (16, 1, False)),
    )
]
EVERY = [(name, placement) for name in OF_ODD_SIZES for placement in PLACEMENTS]
# A third of the placements for each program, and of the programs for each placement.
THIRD = [
    (name, placement)
    for first, name in enumerate(OF_ODD_SIZES)
    for placement in PLACEMENTS[first % 3 :: 3]
]


@pytest.mark.parametrize(
    ("name", "placement"),
    others_marked(pytest.mark.long, EVERY, THIRD),
    ids=lambda one: one if isinstance(one, str) else name_of(one),
)
def test_the_result_is_right(name, placement):
    program = OF_ODD_SIZES[name](placement.nodes * placement.processes)

    run = shared(program, placement)

    program.check(run)
    if name not in ("raytrace", "volrend"):  # whose pixels may all be of one node
        is_shared_out = placement.nodes > 1 or placement.are_copies_private
        assert (run.records.fetches > 0) == is_shared_out


@pytest.mark.parametrize("name", OF_ODD_SIZES)
def test_a_seed_decides_everything(name):
    runs = [shared(OF_ODD_SIZES[name](4, seed), Placement(2, 2)) for seed in (1, 1, 2)]

    (columns, same), (first, again, other) = [run.records.columns() for run in runs[:2]], runs
    assert all(np.array_equal(columns[key], same[key]) for key in columns)
    assert len(columns["pid"])
    assert first.microseconds == again.microseconds
    assert np.array_equal(first.memory, again.memory)
    assert not np.array_equal(first.memory, other.memory)


@pytest.mark.parametrize("side", [1, 5, 16, 33, 50])
def test_lu_takes_a_matrix_of_any_side(side):
    program = lu(side, 4, seed=2)
    run = shared(program, Placement(2, 2))

    program.check(run)


def test_lus_panels_come_page_by_page_and_each_page_once():
    """Of blocks of 16 rows two are in a page, and next to each other in a row of blocks."""
    program = lu(256, 16, seed=2)
    run = shared(program, Placement(4, 4))

    columns = run.records.columns()
    fetched = (columns["op"] == 4) & ~columns["initial"]
    once, times = np.unique(
        np.stack([columns["node"][fetched].astype(np.uint64), columns["address"][fetched]]),
        axis=1,
        return_counts=True,
    )
    assert (times == 1).mean() > 0.9
    assert len(once.T)


def test_ffts_transposes_fetch_each_row_of_others_in_three_pages():
    """Of rows of 8 KB for one node, padded by a line, three pages: three times, from every row."""
    side = 512  # 128 columns of a node are 2 KB
    program = fft(side * side, 16)

    run = shared(program, Placement(4, 4))

    program.check(run)
    fetched = run.records.fetches / 4
    assert 3 * (side - 128) <= fetched <= 3 * (side - 128) * 2


def test_ffts_arrays_are_a_page_apart_and_rows_padded_by_a_line_that_makes_whole_pages_of_a_share():
    """As the original allocates them; on pages of 4 KB, and of 32 bytes of a Pentium Pro's line."""
    side, processes = 1024, 4
    x, trans, roots = fft(side * side, processes).layout.arrays.values()

    assert x.byte_count == side * (side + 2) * 16  # two elements, or two pages of 256 rows
    assert x.byte_count % 4096 == 0
    assert (trans.first, roots.first) == (x.byte_count + 4096, 2 * (x.byte_count + 4096))


@pytest.mark.parametrize("placement", [Placement(1, 1), Placement(4, 2)])
def test_a_transform_forth_and_back_fetches_each_page_twice(placement):
    """Of both matrices, as the UTLB paper's Table 3 has it: 43,132 lookups, two each, of 10,803."""
    side = 512
    program = fft(side * side, placement.nodes * placement.processes, seed=3, forth_and_back=1)

    run = shared(program, placement)

    program.check(run)
    columns = run.records.columns()
    fetched = (columns["op"] == 4) & ~columns["initial"]
    pages = np.stack([columns["node"][fetched].astype(np.uint64), columns["address"][fetched]])
    _, times = np.unique(pages, axis=1, return_counts=True)
    assert (times == 2).all()
    assert len(times) > 0 or placement.nodes == 1
    run.array(program.layout.arrays["x"])[3, 5] += 1e-3
    with refused(SimulationError, "fft: the result is wrong"):
        program.check(run)


def test_the_spectrum_of_a_transform_forth_and_back_is_checked_too(monkeypatch):
    """Else whatever is undone again would be right."""
    program = fft(64 * 64, 4, seed=3, forth_and_back=1)
    monkeypatch.setattr(np.fft, "fft", lambda values: values)
    monkeypatch.setattr(np.fft, "ifft", lambda values: values)

    run = shared(program, Placement(2, 2))

    with refused(SimulationError, "fft: the result is wrong"):
        program.check(run)


def test_waters_processes_do_the_part_after_their_own_number(monkeypatch):
    """As the originals', which take numbers from 1 on: so parts side by side are on two nodes."""
    made = []

    def keep(*of, **how):
        made.append(Coherence(*of, **how))
        return made[0]

    monkeypatch.setattr(process, "Coherence", keep)
    program = water_nsquared(27, 3, seed=1, steps=1)
    shared(program, Placement(3, 1))

    first = program.layout.arrays["molecules"].first // program.layout.page_bytes
    assert made[0].homes[first] == 2  # whose node's process has the first molecules
