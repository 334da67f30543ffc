"""What does not get through on simulated machines ends the run, and what is skipped is noticed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_runs import INTERFACES, PROGRAMS, lossy, run_of

from nicscope.apps.svm.machines.messages import MessageWire, Region, RemoteWire
from nicscope.apps.svm.machines.node import ReceivedNotices, clock_bytes, run_on_machines
from nicscope.apps.svm.memory import Domain, Layout
from nicscope.apps.svm.process import Placement
from nicscope.errors import SimulationError
from nicscope.interfaces import Faults
from pairwise import pairs_of
from refusals import refused
from suite import share

ON = pytest.mark.parametrize("on", INTERFACES)
PS_PER_MS = 1_000_000_000


@pytest.mark.parametrize(
    ("on", "dies", "which", "at_ms"),
    pairs_of(on=INTERFACES, dies=["link_deaths", "node_deaths"], which=[0, 2], at_ms=[3, 5]),
)
def test_what_dies_in_the_middle_of_a_run_ends_it_in_one_line(on, dies, which, at_ms):
    program = PROGRAMS["radix"](3)

    with pytest.raises(SimulationError) as failed:
        run_of(program, Placement(3, 1), on, faults=Faults(**{dies: {which: at_ms * PS_PER_MS}}))

    told = str(failed.value)
    assert "\n" not in told
    assert f"{dies.partition('_')[0]} {which} died at {at_ms},000.0 us" in told
    assert "us of virtual time" in told
    assert "of node" in told
    assert " has waited for " in told
    if dies == "node_deaths":  # who is dead waits for nothing
        assert f"of node {which} has waited" not in told


@ON
def test_who_waits_for_a_lock_that_is_lost_with_its_node_says_which(on):
    layout = Layout()
    layout.array("a", 1, np.uint32)

    async def program(me):
        if me.number == 1:
            await me.acquire("gone")
        await me.barrier()
        if me.number == 0:
            await me.acquire("gone")

    with refused(SimulationError, "process 0 of node 0", "'gone'"):
        # It is held for good, and whoever holds it dies.
        run_on_machines(
            program, layout, Placement(2, 1), on=on,
            faults=Faults(node_deaths={1: 40 * PS_PER_MS}),
        )  # fmt: skip


def is_right_by_turns(on, **options):
    """Whether words are, to all of which each process adds by barriers and then under a lock."""
    layout = Layout(512)
    words = layout.array("words", 256, np.uint32)

    async def program(me):
        for turn in range(3):
            mine = range(me.number, 256, me.processes)
            for i in mine[turn::5]:
                (await me.write(words, i, i + 1))[0] += 1
            await me.barrier()
            seen = (await me.read(words)).copy()
            await me.barrier()
        await me.acquire("lock")
        (await me.write(words))[:] += 10
        await me.release("lock")
        return seen.tolist()

    run = run_on_machines(program, layout, Placement(3, 1), on=on, **options)
    by_turns = [int(i // 3 % 5 < 3) for i in range(256)]
    last = [each + 30 for each in by_turns]
    return run.results == [by_turns] * 3 and run.array(words).tolist() == last


@ON
def test_words_shared_by_turns_are_right(on):
    assert is_right_by_turns(on)


def nothing(*_, **__):
    return None


async def nothing_comes(*_, **__):
    return None


def still_valid(self, page):
    """Outdates nothing."""


TAKEN_AWAY = {
    "a diff": [(RemoteWire, "_deposit", nothing_comes), (MessageWire, "_deposit", nothing_comes)],
    "a page": [(RemoteWire, "_fetch", nothing_comes), (MessageWire, "_fetch", nothing_comes)],
    "a notice": [(ReceivedNotices, "told", lambda *given: clock_bytes(given[2]))],
    "an invalidation": [(Domain, "invalidate_copy", still_valid)],
    "what came home": [(Region, "agree", nothing)],
}


@ON
@pytest.mark.parametrize("what", TAKEN_AWAY)
def test_a_result_without_it_is_not_right(what, on, monkeypatch):
    for owner, name, instead in TAKEN_AWAY[what]:
        monkeypatch.setattr(owner, name, instead)

    try:
        is_right = is_right_by_turns(on)
    except SimulationError:
        is_right = False

    assert not is_right


@share(1)
@given(st.data())
def test_random_programs_without_races_read_what_was_written_last(data):
    """Under faults: owners of words change by barriers, and counts are guarded by locks."""
    on = data.draw(st.sampled_from(INTERFACES))
    placement = data.draw(st.builds(Placement, st.integers(1, 3), st.integers(1, 2), st.booleans()))
    many = placement.nodes * placement.processes
    seed = data.draw(st.integers(0, 1 << 30))
    phases = data.draw(st.integers(1, 3))
    draw = np.random.default_rng(seed)
    writers = draw.integers(-1, many, (phases, 200))
    readers = draw.integers(0, many, (phases, 200))
    locks = draw.integers(0, 3, (phases, many, 2))
    layout = Layout(512)
    words = layout.array("words", 200, np.uint32)
    counts = layout.array("counts", (3, 20), np.uint32)

    async def program(me):
        seen = []
        for phase in range(phases):
            own = (readers[phase] == me.number) & (writers[phase] < 0)
            for i in np.flatnonzero(own).tolist():
                [value] = await me.read(words, i, i + 1)
                seen.append((phase, i, int(value)))
            for i in np.flatnonzero(writers[phase] == me.number).tolist():
                (await me.write(words, i, i + 1))[0] += phase + 1
            for which in locks[phase, me.number].tolist():
                await me.acquire(which)
                (await me.write(counts, which * 20, which * 20 + 20))[:] += 1
                await me.release(which)
            await me.barrier()
        return seen

    first = np.arange(200, dtype=np.uint32) + 7
    faults = lossy(seed, on) if data.draw(st.booleans()) else Faults()
    run = run_on_machines(
        program, layout, placement, lambda of: of(words).__setitem__(slice(None), first), on,
        faults=faults,
    )  # fmt: skip

    now = [first]
    for phase in range(phases):
        now.append(now[-1] + np.uint32(phase + 1) * (writers[phase] >= 0).astype(np.uint32))
    assert (run.array(words) == now[-1]).all()
    assert run.array(counts)[:, 0].tolist() == np.bincount(locks.ravel(), minlength=3).tolist()
    assert (run.array(counts) == run.array(counts)[:, :1]).all()
    for seen in run.results:
        assert all(now[phase][i] == value for phase, i, value in seen)
