"""FFT, LU and Radix on shared memory give what NumPy gives, wherever their processes run."""

from __future__ import annotations

import pytest

from nicscope.apps.splash.fft import fft
from nicscope.apps.splash.lu import lu
from nicscope.apps.splash.radix import radix
from nicscope.apps.svm.running import Placement, run_on_shared_memory

PLACEMENTS = [
    Placement(1, 1),
    Placement(2, 1),
    Placement(1, 3),
    Placement(2, 2),
    Placement(4, 4),
    Placement(3, 5),
]
MAKERS = {
    "fft": lambda processes: fft((4 * processes) ** 2, processes, seed=3),
    "lu": lambda processes: lu(80, processes, seed=3, block=16),
    "radix": lambda processes: radix(3001, processes, seed=3),
}


def run_of(program, placement):
    return run_on_shared_memory(program.body, program.layout, placement, program.set_up)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda p: f"{p.nodes}x{p.processes}")
@pytest.mark.parametrize("name", MAKERS)
def test_the_result_is_right(name, placement, private):
    program = MAKERS[name](placement.nodes * placement.processes)

    run = run_of(program, placement._replace(are_copies_private=private))

    program.check(run)
    if placement.nodes > 1:
        assert run.records.fetches > 0


def test_ffts_transposes_fetch_each_row_of_others_in_three_pages():
    """Of rows of 8 KB for one node, padded by a line, three pages: three times, from every row."""
    side = 512  # 128 columns of a node are 2 KB
    program = fft(side * side, 16)

    run = run_of(program, Placement(4, 4))

    program.check(run)
    fetched = run.records.fetches / 4
    assert 3 * (side - 128) <= fetched <= 3 * (side - 128) * 2
