"""A cacheable queue by hand: blocks in order, pointers, and how the NIC hears of an entry."""

import pytest
from bus_world import BusWorld

from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import CPU, DEVICE, READ, SHARED, UPGRADE
from nicscope.nic.coherent import SEND, Mechanism
from nicscope.nic.ways.state import FETCH

BLOCK, ENTRY, BUFFER = 128, 124, 0x2000
CNI = int(Mechanism.CNI)


class Queue:
    """A host and its NIC, the message of ``count`` bytes in the cache."""

    def __init__(self, count, **nic):
        self.world = BusWorld(None, {"queue_blocks": 4, **nic})
        self.raw = bytes(i % 251 for i in range(count))
        self.world.store(BUFFER, self.raw)
        self.world.counts()[:] = 0

    def send(self, first=0, count=None):
        count = len(self.raw) - first if count is None else count
        self.world.publish(CNI, BUFFER + first, count, 0)
        return self.world.fetch(CNI, BUFFER + first, count, 0)

    def on_nic(self, number):
        """The ``number``-th block of the send queue as the NIC has read it."""
        start = int(self.world.bus.ways.nics.config[0, 0]["queue_start"])
        return self.world.nic_bytes(start + number * BLOCK, BLOCK)


@pytest.mark.requirement("ED-40")
def test_entries_are_blocks_one_after_the_other_and_the_first_follows_the_last():
    queue = Queue(6 * ENTRY)
    for number in range(2):
        queue.send(2 * number * ENTRY, 2 * ENTRY)
    parts = [queue.raw[at : at + ENTRY] for at in range(0, 6 * ENTRY, ENTRY)]
    assert [queue.on_nic(number)[:ENTRY] for number in range(4)] == parts[:4]

    queue.send(4 * ENTRY, 2 * ENTRY)

    kept = [queue.on_nic(number)[:ENTRY] for number in range(4)]
    assert kept == [*parts[4:], *parts[2:4]]
    pointers = queue.world.bus.ways.nics.queues[0, SEND]
    assert (int(pointers["tail"]), int(pointers["head"])) == (6, 6)


@pytest.mark.requirement("ED-41")
def test_the_nic_has_an_entry_when_the_read_that_its_invalidation_caused_has_ended():
    queue = Queue(ENTRY)
    world = queue.world
    world.start(ENGINE_OUT, CNI, FETCH, BUFFER, 0, ENTRY, world.now)
    world.publish(CNI, BUFFER, ENTRY, 0)

    ended = world.rest(ENGINE_OUT)

    agents = world.bus.ways.agents
    block = int(world.bus.ways.nics.config[0, 0]["queue_address"]) // BLOCK
    copy = agents.copies[0, agents.home[0, block]]
    assert (world.counts()[CPU, UPGRADE], world.counts()[DEVICE, READ]) == (1, 1)
    assert copy["state"] == SHARED
    assert ended >= copy["arrived"]
    assert world.nic_bytes(0, ENTRY) == queue.raw


@pytest.mark.requirement("ED-41")
def test_without_valid_bits_the_nic_hears_of_an_entry_by_the_tail_that_it_loses():
    queue = Queue(3 * ENTRY, valid_bits=0)
    world = queue.world
    tail = int(world.bus.ways.nics.config[0, 0]["queue_address"]) // BLOCK + 2 * 4
    agents = world.bus.ways.agents

    seen = []
    for number in range(3):
        before = int(agents.copies[0, agents.home[0, tail]]["arrived"])
        queue.send(number * ENTRY, ENTRY)
        copy = agents.copies[0, agents.home[0, tail]]
        seen.append(int(copy["arrived"]) > before)
        place = int(agents.home[0, tail]) * BLOCK
        assert int.from_bytes(world.nic_bytes(place, 4), "little") == number + 1
        assert world.nic_bytes(0, ENTRY) == queue.raw[number * ENTRY :][:ENTRY]

    assert seen == [True] * 3


@pytest.mark.requirement("ED-50")
@pytest.mark.parametrize(("entries", "sizes"), [(2, (1, 900)), (8, (1, 900)), (8, (5000, 1))])
def test_a_queue_takes_messages_of_any_length_half_of_it_at_a_time(entries, sizes):
    world = BusWorld(None, {"queue_blocks": entries})
    for size in sizes:
        raw = bytes(i % 251 for i in range(size))
        world.store(BUFFER, raw)
        world.start(ENGINE_OUT, CNI, FETCH, BUFFER, 0, size, world.now)
        world.publish(CNI, BUFFER, size, 0)
        world.rest(ENGINE_OUT)
        assert world.nic_bytes(0, size) == raw
        pointers = world.bus.ways.nics.queues[0, SEND]
        assert 0 <= pointers["credit"] <= entries // 2
