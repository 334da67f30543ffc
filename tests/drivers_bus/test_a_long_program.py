"""Coherence is safe: whatever CPU, DMA engine and NIC do, every read returns the last write.

One step after the other, over the same few blocks, in caches so small that blocks leave them all
the time; the NIC's own reads go on beside.  What happens at once is held against the oracle.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus_by_hand import Bus
from nicscope.memory.coherence.layout import (
    DEVICE,
    EMPTY,
    INTERVENTION,
    INVALID,
    MODIFIED,
    READ,
    RETRY,
    SHARED,
    UPGRADE,
    WRITE,
    WRITE_BACK,
)
from nicscope.nic.coherent import Mechanism
from oracle.coherence import PlainMemory
from suite import INTERPRETED

STEPS = [400 if INTERPRETED else 20_000, pytest.param(100_000, marks=pytest.mark.long)]
PAGE, BLOCK, LINE = 4096, 64, 32
FIRST = PAGE - 1024  # half of what is used is of a page that is registered, now and then
BYTES, WIDEST = 2048, 150
PLACE = 0  # of a message in the NIC's memory

STORE, LOAD, TO_HOST, FROM_HOST, EAGER_IN, EAGER_OUT, FLUSH, REGISTER, DEREGISTER, PAUSE = KINDS = (
    range(10)
)
ENGINES = (Mechanism.DMA, Mechanism.DMA_RETRY, Mechanism.DMA_INTERVENTION)

steps = st.lists(
    st.tuples(
        st.sampled_from((*KINDS, STORE, STORE, STORE, EAGER_IN, EAGER_OUT)),
        st.integers(0, BYTES - WIDEST) | st.integers(900, 1200),
        st.integers(1, WIDEST) | st.integers(1, 8),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=60,
)
interfaces = st.fixed_dictionaries(
    {
        "reaction": st.sampled_from((0, 40_000, 500_000)),
        "read_window": st.integers(1, 3),
        "dma_window": st.integers(1, 3),
        "dma_mbytes_s": st.sampled_from((1600, 700)),
        "initialisation": st.integers(1, 2),
        "receive_method": st.integers(1, 2),
    }
)


# Host and NIC take a registered block from each other: read, come, written, sent, and again.
TURNS = [
    (kind, 1024 + at, count, 0)
    for at, count in ((0, 64), (70, 5))
    for kind in (LOAD, EAGER_IN, LOAD, STORE, EAGER_OUT, STORE, LOAD, EAGER_IN, LOAD)
]


class Program:
    """The bus, and what its memory would be without caches; ``wrong`` says where they differ."""

    def __init__(self, nic, fill_then_invalidate=1):
        self.bus = Bus(
            {
                "memory_bytes": 1 << 14,
                "l1_bytes": 128,
                "l1_line": LINE,
                "l2_bytes": 512,
                "l2_line": BLOCK,
                "fill_then_invalidate": fill_then_invalidate,
            },
            {"memory_bytes": 1 << 14, "staging_bytes": 1024, "queue_blocks": 2, **nic},
        )
        # What its NIC alone holds is lost if a page is registered no more.
        self.stays = nic.get("receive_method") == 1
        self.plain = PlainMemory()
        self.bus.register(PAGE, PAGE)

    def take(self, kind, offset, raw, choice):
        """One step; what it read, if it did."""
        bus, address, count = self.bus, FIRST + offset, len(raw)
        way = int(ENGINES[choice])
        if way == Mechanism.DMA and kind in (TO_HOST, FROM_HOST):
            self.bus.publish(way, address, count, PLACE)  # what software owes
        if kind in (EAGER_IN, EAGER_OUT):
            way = int(Mechanism.EDT)
        if kind == STORE:
            bus.store(address, raw)
        elif kind in (TO_HOST, EAGER_IN):
            bus.put_on_nic(PLACE, raw)
            bus.deliver(way, PLACE, address, count)
        elif kind == LOAD:
            return bus.load(address, count)[0]
        elif kind in (FROM_HOST, EAGER_OUT):
            bus.fetch(way, address, count, PLACE)
            return bus.nic_bytes(bus.fetched_to(), count)
        elif kind == FLUSH:
            bus.flush(address, count)
        elif kind == REGISTER:
            bus.register(PAGE, PAGE)
        elif kind == DEREGISTER and not self.stays:
            bus.deregister(PAGE, PAGE)
        elif kind == PAUSE:
            bus.pause(1_000 * count)
        return None

    def step(self, kind, offset, raw, choice):
        found = self.take(kind, offset, raw, choice)
        if kind in (STORE, TO_HOST, EAGER_IN):
            self.plain.write(offset, list(raw))
        elif found is not None:
            assert found == bytes(self.plain.read(offset, len(raw)))

    def check(self):
        """Everything that holds a valid copy of a byte has what was written last."""
        hosts, agents = self.bus.bus.hosts, self.bus.bus.ways.agents
        truth = np.frombuffer(bytes(self.plain.read(0, BYTES)), np.uint8)
        lower = {int(line["tag"]): i for i, line in enumerate(hosts.l2[0]) if line["tag"] != EMPTY}
        for i, line in enumerate(hosts.l1[0]):
            tag = int(line["tag"])
            at = tag * LINE - FIRST
            if tag != EMPTY and 0 <= at < BYTES:
                below = hosts.l2[0][lower[tag * LINE // BLOCK]]  # inclusion
                assert line["state"] != MODIFIED or below["state"] == MODIFIED
                held = hosts.l1_data[0, i * LINE : (i + 1) * LINE]
                assert (held == truth[at : at + LINE]).all(), "the first level"
        for block in range(FIRST // BLOCK, (FIRST + BYTES) // BLOCK):
            place = lower.get(block)
            state = INVALID if place is None else int(hosts.l2[0][place]["state"])
            home = int(agents.home[0, block])
            copy = INVALID if home == EMPTY else int(agents.copies[0, home]["state"])
            assert not (state > SHARED and copy != INVALID), "an owner is alone"
            assert not (copy == MODIFIED and state != INVALID)
            true = truth[block * BLOCK - FIRST :][:BLOCK]
            if MODIFIED not in (state, copy):
                memory = hosts.memory[0, block * BLOCK : (block + 1) * BLOCK]
                assert (memory == true).all(), "memory"
            if copy != INVALID:
                kept = agents.memory[0, home * BLOCK : (home + 1) * BLOCK]
                assert (kept == true).all(), "the NIC"


@pytest.mark.requirement("SH-8", "ED-10", "ED-17", "ED-20", "ED-21", "ED-30", "ED-31")
@given(program=steps, nic=interfaces, fill=st.integers(0, 1), seed=st.integers(0, 9))
@example(program=TURNS, nic={"receive_method": 1}, fill=1, seed=0)
@example(program=TURNS, nic={"receive_method": 2}, fill=1, seed=0)
def test_every_read_of_a_random_program_returns_the_last_write(program, nic, fill, seed):
    rng = np.random.default_rng(seed)
    machine = Program(nic, fill)
    for kind, offset, count, choice in program:
        machine.step(kind, offset, rng.bytes(count), choice)
        machine.check()
    machine.bus.settle()
    machine.check()


@pytest.mark.requirement("SH-8")
@pytest.mark.parametrize(("fill", "method"), [(0, 1), (0, 2), (1, 1), (1, 2)])
@pytest.mark.parametrize("steps", STEPS)
def test_a_long_program_keeps_every_copy_coherent(fill, method, steps):
    rng = np.random.default_rng(7 + 2 * fill + method)
    machine = Program({"receive_method": method, "reaction": 400_000}, fill)
    often = [STORE] * 8 + [LOAD] * 6 + [EAGER_OUT] * 3 + [EAGER_IN] * 2 + list(KINDS)
    for number in range(steps):
        offset = int(rng.integers(0, BYTES - WIDEST) >> rng.integers(0, 2))
        raw = rng.bytes(int(rng.integers(1, 17)))
        machine.step(int(rng.choice(often)), offset, raw, int(rng.integers(0, 3)))
        if number % 50 == 0:
            machine.check()

    bus = machine.bus
    counts = bus.counts().sum(0)
    kinds = [READ, UPGRADE, WRITE_BACK, WRITE, RETRY, INTERVENTION]
    assert (counts[kinds] > steps // 1000).all(), "every kind of traffic took part"
    assert bus.counts()[DEVICE, READ] > steps // 10
    assert bus.bus.hosts.registers[0, 0]["evictions"] > steps // 20
    if method == 2:
        assert bus.bus.ways.nics.registers[0, 0]["releases"] > steps // 100


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda bus: bus.ways.agents.memory.__setitem__(slice(None), 99), "the NIC"),
        (lambda bus: bus.hosts.l1_data.__setitem__(slice(None), 99), "the first level"),
        (lambda bus: bus.hosts.memory.__setitem__(slice(None), 99), "memory"),
        (lambda bus: bus.hosts.l2["state"].__setitem__(slice(None), 2), "an owner is alone"),
    ],
)
def test_a_fault_in_any_copy_is_seen(spoil, found):
    # What the checks above would find, were something wrong: each is seen to fail here.
    machine = Program({"initialisation": 2})
    machine.step(STORE, 1024, b"something", 0)
    machine.step(EAGER_OUT, 1024, bytes(128), 0)
    machine.check()

    spoil(machine.bus.bus)

    with pytest.raises(AssertionError, match=found):
        machine.check()


@pytest.mark.requirement("ED-20")
def test_nothing_dirty_is_lost_when_blocks_leave_the_caches():
    machine = Program({})
    raw = bytes(number % 251 for number in range(BYTES))
    machine.step(STORE, 0, raw, 0)
    machine.check()

    machine.step(FLUSH, 0, raw, 0)

    assert machine.bus.bus.hosts.memory[0, FIRST : FIRST + BYTES].tobytes() == raw
