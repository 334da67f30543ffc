"""Processors, engines and another device on one bus, against arithmetic on paper.

With the default constants, in ns: a request at t is granted at the edge at or after t + 10, and
ordered 30 later (an address cycle, two of snooping).  Address phases are 10 apart.  A block's data
take 80; from memory they are ready 60 after the order, of a write at once.
"""

import pytest
from bus_world import BusWorld

from nicscope.drivers.simulate.bus.bus_harness import asked
from nicscope.drivers.simulate.records import ACCESS
from nicscope.memory.coherence import processor
from nicscope.memory.coherence.bus import (
    ENGINE_IN,
    ENGINE_OUT,
    INTERVENED,
    PROCESSOR,
    Watcher,
    watch_block,
)
from nicscope.memory.coherence.layout import DEVICE, READ, SHARED, WRITE, WRITE_BACK
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import DELIVER, FETCH

ROOM = {"memory_bytes": 1 << 16, "l1_bytes": 4 << 10, "l2_bytes": 32 << 10}
NIC = {"memory_bytes": 1 << 16, "staging_bytes": 1 << 13, "queue_blocks": 8}
INTERVENTION, EDT = int(Mechanism.DMA_INTERVENTION), int(Mechanism.EDT)
NS = 1_000
BUFFER, ELSEWHERE = 0, 0x4000


def miss_during_a_receive(window, at):
    """When a read miss that begins ``at`` ns into a 4 KB receive DMA ends, and the DMA (ns)."""
    world = BusWorld(ROOM, {**NIC, "dma_window": window})
    world.start(ENGINE_IN, INTERVENTION, DELIVER, BUFFER, 0, 4096, 0)
    world.pause(at * NS)
    _, end = world.load(ELSEWHERE, 4)
    return end / NS, world.rest(ENGINE_IN) / NS


def test_a_miss_in_the_middle_of_a_transfer_ends_as_if_it_were_alone():
    alone = BusWorld(ROOM, NIC)
    alone.pause(1_000 * NS)
    assert alone.load(ELSEWHERE, 4)[1] == 1_191 * NS

    undisturbed = BusWorld(ROOM, {**NIC, "dma_window": 1})
    undisturbed.start(ENGINE_IN, INTERVENTION, DELIVER, BUFFER, 0, 4096, 0)

    ends, whole = miss_during_a_receive(1, 1_000)
    assert ends == 1_191  # it was 4,221 when a transfer took the bus for all of its blocks
    assert whole - undisturbed.rest(ENGINE_IN) / NS == 130


@pytest.mark.parametrize(("window", "most"), [(1, 20), (2, 60), (4, 60 + 2 * 80)])
def test_a_miss_waits_at_any_time_for_no_more_than_the_blocks_under_way(window, most):
    # A block of a transfer comes every 120 ns with a window of 1, every 80 ns with more.
    spent = [miss_during_a_receive(window, at)[0] - at for at in range(1_000, 1_120, 7)]

    assert min(spent) >= 191
    assert max(spent) <= 191 + most + 9  # the next edge of the bus clock


def test_two_engines_another_device_and_a_busy_cpu_take_the_bus_in_turn():
    nic = {**NIC, "dma_window": 1, "dma_init": 0, "dma_interrupt": 0}
    world = BusWorld(ROOM, nic, rows=2)
    # Two blocks out and two in, from 1000 on; another device reads a block, then writes 16 bytes;
    # the CPU reads a word that it has not, then writes it, then reads another.
    world.pause(995 * NS)
    world.start(ENGINE_OUT, INTERVENTION, FETCH, BUFFER, 0, 256, 1_000 * NS)
    world.start(ENGINE_IN, INTERVENTION, DELIVER, 0x1000, 0x400, 256, 1_000 * NS)
    wanted = {"address": 0x2000, "count": 128, "place": 0, "rate": 0, "answer": INTERVENED}
    world.play(
        [
            {"at": 1_000 * NS, "kind": READ, **wanted},
            {"at": 1_000 * NS, "kind": WRITE, **wanted, "count": 16},
        ]
    )
    granted = []
    asks = world.bus.ways.asks[0]
    world.begin(asked(ACCESS, processor.LOAD, ELSEWHERE, 4))
    while not world.machine.tally[0]["ended"]:
        before = world.counts().sum()
        assert world.fire() == 1
        if world.counts().sum() != before:
            granted.append(world.now // NS)
    load = world.now
    assert asks[PROCESSOR]["at"] > load
    # At 1000 ask the engine out, the engine in, the other device; the CPU looks at its caches from
    # 995 on and asks at 1005.  At 1000 + 10 the address part is free: out is ordered at 1040, in at
    # 1050, the other's read at 1060.  Its write asks when that is ordered, at 1060.
    #   out   1040: from memory, ready at 1100, data to 1180; its next block asks then: edge 1190,
    #               ordered 1220
    #   in    1050: data ready at once, but after those of out: 1180 to 1260; next at 1260: 1300
    #   other 1060: ready 1120, data 1260 to 1340
    #   CPU   1005: granted at the edge 1020, but the other's phase is over at 1040 only: 1070;
    #               ready 1130, data 1340 to 1420; the word is there a cycle later, at 1421
    #   other 1060: its write is granted at 1070: ordered 1100; 16 bytes: 1420 to 1430
    #   out   1220: ready 1280, data 1430 to 1510, the end of its move
    #   in    1300: data 1510 to 1590, the end of its move
    assert granted == [1_040, 1_050, 1_060, 1_070, 1_100, 1_220, 1_300]
    assert load == 1_421 * NS
    assert world.rest(ENGINE_OUT) == 1_510 * NS
    assert world.rest(ENGINE_IN) == 1_590 * NS
    world.settle()
    # The store hits in both levels, but the first has no right to write: 10 more for the second.
    end = world.store(ELSEWHERE, b"new!")
    assert end == (1_590 + 10 + 1) * NS


def test_a_store_between_two_blocks_of_a_transfer_is_seen_by_the_later_one_alone():
    world = BusWorld(ROOM, {**NIC, "dma_window": 1, "dma_init": 0, "dma_interrupt": 0})
    world.store(BUFFER, b"a" * 256)
    start = world.now
    world.start(ENGINE_OUT, INTERVENTION, FETCH, BUFFER, 0, 256, start)
    # The first block is ordered 40 later; the second asks after 10 + 80 more, and is ordered 40
    # after that: the store of 128 bytes to both of them begins in between.
    world.pause(50 * NS)
    world.store(BUFFER + 64, b"b" * 128)

    world.rest(ENGINE_OUT)

    assert world.nic_bytes(0, 256) == b"a" * 128 + b"b" * 64 + b"a" * 64


def test_no_store_is_seen_before_its_time():
    # 32 words of one block are stored from ``start`` on, 1 ns each, while the engine's read of the
    # block is ordered 40 ns after it asks: it sees the words that were begun before, and no other.
    for ahead in (0, 15, 25, 39):
        world = BusWorld(ROOM, {**NIC, "dma_init": 0})
        world.store(BUFFER, b"a" * 128)
        world.pause(-world.now % (10 * NS))
        world.start(ENGINE_OUT, INTERVENTION, FETCH, BUFFER, 0, 128, world.now)
        world.pause(ahead * NS)
        world.store(BUFFER, b"b" * 128)
        world.rest(ENGINE_OUT)

        words = min(32, 40 - ahead)
        assert world.nic_bytes(0, 128) == b"b" * (4 * words) + b"a" * (128 - 4 * words), ahead


def test_a_block_is_read_when_the_bus_is_free_though_a_message_replaces_all_of_it_later():
    world = BusWorld(ROOM, NIC)
    agent = Watcher(*(array[0] for array in world.bus.ways.agents))
    home = int(world.bus.ways.nics.config[0, 0]["buffer_start"]) // 128
    watch_block(agent, 0, home, 40 * NS)
    agent.copies[home]["state"] = SHARED
    world.pause(1_000 * NS - world.now)
    # The engine is set up until 1300: its write is ordered at 1340, and its 51 bytes have crossed
    # at 1380.  The NIC's copy is old then, so the NIC asks: ordered at 1420, from memory at 1480,
    # to 1560.  The engine interrupts until 1880.
    assert world.deliver(INTERVENTION, 0, BUFFER, 51) == 1_880 * NS
    assert (agent.copies[home]["state"], agent.copies[home]["arrived"]) == (SHARED, 1_560 * NS)
    # All of the block is in the NIC's buffer at once; its write-back is ordered at 1920, to 2000.
    assert world.deliver(EDT, 256, BUFFER, 128) == 2_000 * NS
    world.settle()
    by_device = world.counts()[DEVICE]
    assert [int(by_device[kind]) for kind in (READ, WRITE, WRITE_BACK)] == [1, 1, 1]
