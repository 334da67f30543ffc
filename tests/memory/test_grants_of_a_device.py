"""Single grants of the bus to a device, in states that programs seldom come to."""

import numpy as np
import pytest

from bus_by_hand import Bus
from nicscope.memory.coherence.bus import (
    ENGINE_IN,
    MADE,
    VOID,
    grant_device,
    host_of,
    watch_block,
    watcher_of,
)
from nicscope.memory.coherence.layout import (
    DEVICE,
    EMPTY,
    INVALID,
    MODIFIED,
    SHARED,
    UPGRADE,
    WRITE_BACK,
)

BLOCK, HOME = 3, 1


@pytest.fixture
def bus():
    """One node whose interface keeps block 3 of the host's memory at its own place 1."""
    bus = Bus(nodes=1).bus
    watch_block(watcher_of(bus.ways.agents, 0), BLOCK, HOME, -1)
    return bus


def granted(bus, kind, count, state, now=1000):
    host, agent = host_of(bus.hosts, 0), watcher_of(bus.ways.agents, 0)
    width = 1 << int(host.config[0]["l2_shift"])
    ask = bus.ways.asks[0, ENGINE_IN]
    ask["kind"], ask["address"], ask["count"] = (
        kind,
        BLOCK * width,
        width if count is None else count,
    )
    agent.copies[HOME]["state"] = state
    before = host.counts[DEVICE].copy()
    how, end = grant_device(host, agent, agent.memory, bus.ways.asks[0], ENGINE_IN, np.int64(now))
    made = host.counts[DEVICE] - before
    return how, int(end), {kind: int(made[kind]) for kind in np.flatnonzero(made)}, agent


@pytest.mark.parametrize("count", [1, 4, 8, 31])
def test_a_block_that_was_lost_is_not_upgraded_for_a_part_of_it(bus, count):
    how, end, made, agent = granted(bus, UPGRADE, count, INVALID)

    assert (how, end, made) == (VOID, 1000, {})
    assert agent.copies[HOME]["state"] == INVALID


@pytest.mark.parametrize(("count", "state"), [(8, SHARED), (None, SHARED), (None, INVALID)])
def test_a_block_that_is_there_or_written_as_a_whole_becomes_the_agents_alone(bus, count, state):
    how, end, made, agent = granted(bus, UPGRADE, count, state)

    assert (how, end, made) == (MADE, 1000, {UPGRADE: 1})
    assert (agent.copies[HOME]["state"], agent.copies[HOME]["arrived"]) == (MODIFIED, 1000)


@pytest.mark.parametrize("state", [INVALID, SHARED])
def test_what_is_not_modified_any_more_is_not_written_back(bus, state):
    how, end, made, _ = granted(bus, WRITE_BACK, None, state)

    assert (how, end, made) == (VOID, 1000, {})


def test_a_write_back_puts_the_whole_block_in_memory_and_keeps_it_shared(bus):
    host, agent = host_of(bus.hosts, 0), watcher_of(bus.ways.agents, 0)
    width = 1 << int(host.config[0]["l2_shift"])
    agent.memory[HOME * width : (HOME + 1) * width] = np.arange(width) + 1
    how, end, made, agent = granted(bus, WRITE_BACK, None, MODIFIED)

    assert (how, made) == (MADE, {WRITE_BACK: 1})
    assert end > 1000
    assert agent.copies[HOME]["state"] == SHARED
    assert host.memory[BLOCK * width : (BLOCK + 1) * width].tolist() == list(range(1, width + 1))
    assert not host.memory[: BLOCK * width].any()
    assert not host.memory[(BLOCK + 1) * width :].any()
    assert agent.home[BLOCK] == HOME != EMPTY
