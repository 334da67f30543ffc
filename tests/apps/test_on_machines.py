"""The protocol on simulated machines: results are right with the bytes that NICs delivered."""

from __future__ import annotations

import numpy as np
import pytest
from nicscope.apps.svm.vmmc_wire import VmmcWire

from nicscope.apps.splash.fft import fft
from nicscope.apps.splash.lu import lu
from nicscope.apps.splash.radix import radix
from nicscope.apps.svm.layout import Layout
from nicscope.apps.svm.running import Placement, run_on_machines
from nicscope.errors import SimulationError
from nicscope.interfaces import Faults, Transport

LOSSY = {
    "faults": Faults(seed=5, loss=0.1, duplication=0.05, corruption=0.05),
    "transport": Transport(time_out_ps=2_000_000_000, most_retries=30),
}
PROGRAMS = {
    "fft": lambda processes: fft((8 * processes) ** 2, processes, seed=2),
    "lu": lambda processes: lu(64, processes, seed=2, block=16),
    "radix": lambda processes: radix(1501, processes, seed=2, digits=64),
}


def run_of(program, nodes, design="utlb", **options):
    return run_on_machines(
        program.body, program.layout, Placement(nodes, 1), program.set_up, design, **options
    )


@pytest.mark.parametrize("design", ["utlb", "vmmc-interrupt"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_right(name, design):
    program = PROGRAMS[name](3 if name == "radix" else 4)

    run = run_of(program, 3 if name == "radix" else 4, design)

    program.check(run)
    assert run.records.fetches > 0


def test_results_are_right_when_packets_are_lost():
    program = PROGRAMS["radix"](2)

    run = run_of(program, 2, **LOSSY)

    program.check(run)
    assert run.microseconds > run_of(program, 2).microseconds


def test_results_are_wrong_when_a_page_is_not_taken_from_the_machine(monkeypatch):
    program = PROGRAMS["radix"](2)
    monkeypatch.setattr(VmmcWire, "accept", lambda *_: None)

    with pytest.raises(SimulationError, match="the result is wrong"):
        program.check(run_of(program, 2))


def test_two_who_write_one_page_keep_each_others_words():
    layout = Layout()
    page = layout.array("page", 64, np.uint32)

    async def program(me):
        if me.number == 0:
            await me.read(page)
        await me.barrier()
        for i in range(me.number, 64, me.processes):
            (await me.write(page, i, i + 1))[0] = i
        await me.barrier()
        return int((await me.read(page)).sum())

    assert run_on_machines(program, layout, Placement(3, 1)).results == [63 * 32] * 3


def test_several_processes_of_a_node_are_refused():
    program = PROGRAMS["radix"](4)

    with pytest.raises(SimulationError, match="one process on each node"):
        run_on_machines(program.body, program.layout, Placement(2, 2), program.set_up)
