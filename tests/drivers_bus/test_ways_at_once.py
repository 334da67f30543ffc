"""Both sides of a way at work at once, on a bus that others use: bytes, copies and owners."""

import numpy as np
import pytest
from bus_world import BusWorld
from hypothesis import example, given
from hypothesis import strategies as st
from test_the_bus_agrees_with_the_oracle import (
    BLOCK,
    BYTES,
    PAUSE,
    Events,
    constants,
    cpu_steps,
    drive,
    interfaces,
    moves,
    others,
    part,
)

from nicscope.drivers.simulate.bus.arbitration import TO_COLLECT, TO_PUBLISH
from nicscope.drivers.simulate.bus.bus_harness import asked
from nicscope.drivers.simulate.records import ACCESS
from nicscope.memory.coherence import processor
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT, INTERVENED, REPORT
from nicscope.memory.coherence.layout import EMPTY, INVALID, MODIFIED, READ, SHARED
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import DELIVER, FETCH
from suite import share

ROOM = {"memory_bytes": 1 << 16, "l1_bytes": 4 << 10, "l2_bytes": 32 << 10}
NIC = {"memory_bytes": 1 << 17, "staging_bytes": 1 << 13}
CNI, EDT = int(Mechanism.CNI), int(Mechanism.EDT)


@pytest.mark.requirement("ED-42", "ED-43", "ED-44", "ED-50")
@pytest.mark.parametrize("blocks", [2, 8])
@pytest.mark.parametrize("optimised", ["lazy_pointers", "valid_bits", "sense_reverse", None])
def test_messages_longer_than_a_queue_are_taken_out_as_they_come(blocks, optimised):
    less = {} if optimised is None else {optimised: 0}
    world = BusWorld(ROOM, {**NIC, "queue_blocks": blocks, **less})
    rng = np.random.default_rng(blocks)
    for count in (1, 124, 125, 3000, 248):
        out, back = rng.bytes(count), rng.bytes(count)
        world.store(0, out)
        # The CPU fills the send queue while the NIC empties it,
        world.start(ENGINE_OUT, CNI, FETCH, 0, 0, count, world.now)
        assert world.publish(CNI, 0, count, 0) is not None
        world.rest(ENGINE_OUT)
        assert world.nic_bytes(0, count) == out
        # and the other way round.
        world.bus.ways.agents.memory[0, :count] = np.frombuffer(back, np.uint8)
        world.start(ENGINE_IN, CNI, DELIVER, 0x8000, 0, count, world.now)
        assert world.collect(CNI, 0, 0x8000, count) is not None
        world.rest(ENGINE_IN)
        assert world.load(0x8000, count)[0] == back


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_a_move_of_nothing_takes_no_time(mechanism):
    world = BusWorld(ROOM, NIC)

    for kind in (TO_PUBLISH, TO_COLLECT):
        assert world.do(asked(ACCESS, kind, way=mechanism)) == 0
    assert world.fetch(int(mechanism), 0, 0, 0) == 0
    assert world.deliver(int(mechanism), 0, 0, 0) == 0
    assert not world.counts().any()


def test_a_full_queue_waits_for_its_reader_and_no_longer():
    world = BusWorld(ROOM, {**NIC, "queue_blocks": 2})
    world.begin(asked(ACCESS, TO_PUBLISH, 0, 1000, 0, CNI))
    world.settle()
    assert not world.machine.tally[0]["ended"], "1000 bytes do not fit into two entries"

    world.start(ENGINE_OUT, CNI, FETCH, 0, 0, 1000, world.now)

    assert world.run_until_done() is not None
    world.rest(ENGINE_OUT)


class Watching(Events):
    """After each event no block has two owners, and whoever has a valid copy has the same."""

    def __init__(self, *given):
        super().__init__(*given)
        go_on = self.world._run_events

        def one_by_one(begun, most):
            fired = go_on(begun, 0)
            for _ in range(most):
                if self.world.machine.tally[0]["ended"] or not go_on(0, 1):
                    break
                fired += 1
                self.check()
            return fired

        self.world._run_events = one_by_one
        self.checked = 0

    def check(self):
        bus = self.world.bus
        lines, upper = bus.hosts.l2[0], bus.hosts.l1[0]
        self.checked += 1
        for at in range(len(upper)):
            tag = int(upper[at]["tag"])
            if tag != EMPTY:
                below = [line for line in lines if line["tag"] == tag * 32 // BLOCK]
                assert len(below) == 1, "what the first level holds, the second holds"
                assert upper[at]["state"] != MODIFIED or below[0]["state"] == MODIFIED
        for block in range(BYTES // BLOCK):
            self.check_block(block, bus.hosts.memory[0, block * BLOCK : (block + 1) * BLOCK])

    def check_block(self, block, memory):
        bus = self.world.bus
        found = np.flatnonzero(bus.hosts.l2[0]["tag"] == block)
        state = int(bus.hosts.l2[0][found[0]]["state"]) if len(found) else INVALID
        home = int(bus.ways.agents.home[0, block])
        copy = INVALID if home == EMPTY else int(bus.ways.agents.copies[0, home]["state"])
        kept = bus.ways.agents.memory[0, home * BLOCK : (home + 1) * BLOCK]
        assert not (state > SHARED and copy in (SHARED, MODIFIED)), "an owner is alone"
        assert not (copy == MODIFIED and state != INVALID)
        if len(found) and state != MODIFIED:
            start = int(found[0]) * BLOCK
            assert (bus.hosts.l2_data[0, start : start + BLOCK] == memory).all()
        if copy == SHARED and state != MODIFIED:
            assert (kept == memory).all()


@pytest.mark.requirement("SH-8", "ED-10", "ED-17", "ED-20")
@share(1.5)
@given(
    steps=cpu_steps,
    out=moves,
    into=moves,
    other=others,
    host=constants,
    nic=interfaces,
    seed=st.integers(0, 3),
)
@example(  # what comes takes the blocks that the host reads and writes
    steps=[
        *[(processor.LOAD, 0, 130, 0)] * 2,
        *[(PAUSE, 0, 1, 200_000), (processor.STORE, 0, 100, 0)] * 2,
    ],
    out=[(Mechanism.EDT, 0, 128, 0)],
    into=[(Mechanism.EDT, 0, 128, 0), (Mechanism.EDT, 0, 64, 0)],
    other=[],
    host={"l2_bytes": 4096},
    nic={"reaction": 0, "receive_method": 1},
    seed=0,
)
def test_no_event_leaves_two_owners_or_two_versions(steps, out, into, other, host, nic, seed):
    rng = np.random.default_rng(seed)
    rows = [
        (kind, at, address, part(address, count), 64 * row, again)
        for row, (kind, at, address, count, again) in enumerate(other)
    ]
    machine = Watching(host, nic, rng.bytes(1024), rows)
    engines = {ENGINE_OUT: out, ENGINE_IN: into, REPORT: []}

    drive(machine, steps, engines, [rng.bytes(150) for _ in steps])

    assert machine.checked >= len(steps)


def test_a_second_version_would_be_seen():
    # What the checks above would find, were something wrong: each is seen to fail here.
    def broken(spoil):
        machine = Watching(
            {"l2_bytes": 4096},
            {"reaction": 0, "receive_method": 1},
            bytes(1024),
            [("read", 0, 0, BLOCK, 0, False)],
        )
        machine.world.load(0, BYTES)
        machine.check()
        spoil(machine.world.bus)
        with pytest.raises(AssertionError):
            machine.check()

    broken(lambda bus: bus.hosts.l2_data.__setitem__(slice(None), 99))
    broken(lambda bus: bus.ways.agents.memory.__setitem__(slice(None), 99))
    broken(lambda bus: bus.hosts.l2["state"].__setitem__(slice(None), MODIFIED))
    broken(lambda bus: bus.hosts.l2["tag"].__setitem__(slice(None), EMPTY))


def test_a_stream_of_messages_under_edt_arrives_whole_while_another_device_reads_and_writes():
    rows = [
        {"at": 1_000 * at, "kind": READ + 4 * (at % 3 == 0), "address": 0xC000 + 128 * (at % 64)}
        for at in range(0, 20_000, 97)
    ]
    fixed = {"count": 128, "place": 0, "rate": 0, "answer": INTERVENED}
    world = BusWorld(ROOM, NIC, rows=len(rows))
    agent = world.bus.ways.agents
    first = int(world.bus.ways.nics.config[0, 0]["buffer_start"]) // 128
    for block in range(16):
        agent.home[0, block] = first + block
        copy = agent.copies[0, first + block]
        copy["block"], copy["state"], copy["reaction"] = block, SHARED, 40_000
    world.play([{**row, **fixed} for row in rows])
    rng = np.random.default_rng(3)
    for count in (64, 700, 2048):
        out, back = rng.bytes(count), rng.bytes(count)
        world.store(0, out)
        world.fetch(EDT, 0, count, 0)
        start = int(world.bus.ways.moves[0, ENGINE_OUT]["place"])
        assert start == first * 128
        assert world.nic_bytes(start, count) == out
        agent.memory[0, :count] = np.frombuffer(back, np.uint8)
        world.deliver(EDT, 0, 0, count)
        assert world.load(0, count)[0] == back


def test_a_read_behind_one_that_is_passed_over_is_ordered_after_that_and_not_before():
    world = BusWorld(ROOM, {**NIC, "dma_init": 0, "dma_interrupt": 0})
    agent = world.bus.ways.agents
    first = int(world.bus.ways.nics.config[0, 0]["buffer_start"]) // 128
    for block in range(2):
        agent.home[0, block] = first + block
        copy = agent.copies[0, first + block]
        copy["block"], copy["state"], copy["reaction"] = block, SHARED, 900_000
    world.store(0, b"lost")  # a read of block 0 is due 900 ns later
    world.deliver(int(Mechanism.DMA_INTERVENTION), 256, 128, 128)  # and one of block 1 behind it
    world.deliver(EDT, 256, 0, 128)  # block 0 is whole again before its turn
    assert agent.copies[0, first]["state"] == SHARED
    assert agent.copies[0, first + 1]["state"] == INVALID

    times = [world.now]
    while world.fire():
        times.append(world.now)

    assert times == sorted(times)
    assert agent.copies[0, first + 1]["state"] == SHARED
    # Passed over when it would have been ordered; the other is ordered 40 ns after that.
    assert agent.copies[0, first + 1]["arrived"] >= times[0] + 40_000
