"""An event looks at what it names alone: looking at everything finds nothing more.

Steps are replaced as the interpreter calls them, so this is run without the compiler.
"""

import pytest
from hypothesis import given

from drivers_simulate.test_delivery_agrees_with_the_oracle import driven
from interfaces import small_programs
from nicscope.drivers.simulate import advance
from nicscope.drivers.simulate.firmware import look
from oracle.delivery_strategies import scenarios
from ports.apart import keep_runs
from suite import share


def look_at_everything(monkeypatch):
    """Have both ends of every event look, and all their rates be set, whatever it names."""
    go_on = advance._resume_node
    looks = []

    def all_changed(machine, n, peer, now, changed):
        everything = advance.HERE | advance.THERE | advance.RATES
        looks.append(changed != everything)
        go_on(machine, n, peer, now, everything)

    monkeypatch.setattr(advance, "_resume_node", all_changed)
    monkeypatch.setattr(advance, "rest", lambda machine, n: look(machine, n, machine.tally[0].now))
    return looks


def left_by_script(scenario):
    done = driven(scenario, keep_log=5000)
    parts = (done.messages, done.log, done.counters)
    return done.end_ps, done.events, [part.tobytes() for part in parts]


@share(6)
@given(scenario=scenarios())
def test_traffic_is_the_same_where_every_event_looks_at_everything(scenario):
    named = left_by_script(scenario)
    with pytest.MonkeyPatch.context() as changed:
        looks = look_at_everything(changed)
        everything = left_by_script(scenario)

    assert any(looks)
    assert named == everything


@pytest.mark.parametrize("program", ["on_unet", "on_vmmc", "on_mini", "on_trapeze"])
def test_a_program_leaves_the_same_where_every_event_looks_at_everything(program):
    with pytest.MonkeyPatch.context() as changed:
        named = keep_runs(changed)
        getattr(small_programs, program)()
    with pytest.MonkeyPatch.context() as changed:
        everything = keep_runs(changed)
        looks = look_at_everything(changed)
        getattr(small_programs, program)()

    assert any(looks)
    assert named == everything
