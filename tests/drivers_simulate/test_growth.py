"""The driver stops for what must be made first, and goes on as if it had been there."""

import numpy as np
import pytest

from nicscope.config.design import DELIVERY_COSTS, Delivery
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.machine import continue_run
from nicscope.drivers.simulate.records import PATHS
from nicscope.drivers.simulate.script import Run, give_script, simulate_script
from nicscope.drivers.simulate.store import no_store
from nicscope.fabric import paths as paths_of
from nicscope.fabric.topology import Topology, crossbar
from nicscope.kernel.entry import bound

COSTS = [dict.fromkeys(DELIVERY_COSTS, 100)] * 4
for each in COSTS:
    each["nic_memory_per_byte"] = 1


def machine_of(runs):
    machine = new_machine(COSTS, Delivery(), crossbar(4), no_store(4), 0, 0, runs=len(runs))
    give_script(machine, runs)
    return machine


def test_it_stops_after_the_event_that_wants_a_path_and_fires_the_rest_when_it_is_made():
    machine = machine_of([Run(0, 1, 64, 3), Run(2, 3, 64, 3)])
    entry = bound(advance, machine)
    most = 10_000

    fired = entry(-1, most)
    assert machine.tally[0]["wants"] == PATHS
    assert 0 < fired < most
    assert machine.tally[0]["messages"] == 0
    fired += continue_run(entry, machine, crossbar(4), most - fired)

    assert machine.tally[0]["wants"] == 0
    assert machine.tally[0]["messages"] == 6
    assert machine.tally[0]["events"] == fired < most
    assert machine.paths.summary[0]["made"] == 1 + 4  # of 12


def test_what_had_ended_when_it_stopped_is_still_in_the_inbox_when_it_goes_on():
    machine = machine_of([Run(0, 1, 64, 1)])
    entry = bound(advance, machine)
    machine.tally["ended"], machine.tally["wants"] = 2, PATHS

    assert continue_run(entry, machine, crossbar(4), 0) == 0
    assert (machine.tally[0]["ended"], machine.tally[0]["wants"]) == (2, 0)

    assert entry(0, 0) == 0  # as the next of the driver's own calls
    assert machine.tally[0]["ended"] == 0


@pytest.mark.parametrize("first", [1, 2, 1000])
def test_the_room_for_paths_and_a_table_in_place_of_a_rule_change_nothing(monkeypatch, first):
    runs = [Run(s, d, 200 * s + d, 4) for s in range(4) for d in range(4) if s != d]
    rule = crossbar(4)
    table = Topology("table", 4, rule.links, dict(rule.paths), dict(rule.hops))
    before = simulate_script(COSTS, Delivery(), rule, runs, keep_log=5000)
    monkeypatch.setattr(paths_of, "FIRST", first)

    after = simulate_script(COSTS, Delivery(), table, runs, keep_log=5000)

    assert (after.events, after.end_ps) == (before.events, before.end_ps)
    for name in ("messages", "log", "counters"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
