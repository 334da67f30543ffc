"""Who may have a block, by hand: each transaction takes what its maker must have alone."""

import numpy as np
import pytest
from bus_world import BusWorld

from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT, FAR
from nicscope.memory.coherence.layout import EXCLUSIVE, INVALID, MODIFIED, SHARED
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import DELIVER, FETCH

BLOCK, PAGE = 128, 0x2000
EDT, DMA = int(Mechanism.EDT), int(Mechanism.DMA_INTERVENTION)
LONG = 1_000_000  # ps; the NIC has read by then what was written


class Node:
    """A page of which host and NIC have the first blocks, SHARED, and states by block."""

    def __init__(self, **nic):
        self.world = BusWorld(None, nic)
        self.world.register(PAGE, 4096)
        self.world.load(PAGE, 4 * BLOCK)
        self.world.pause(LONG)
        assert self.states() == (SHARED, SHARED)

    def states(self, at=0):
        """Of the host's cache and of the NIC."""
        bus = self.world.bus
        block = PAGE // BLOCK + at
        found = np.flatnonzero(bus.hosts.l2[0]["tag"] == block)
        state = int(bus.hosts.l2[0][found[0]]["state"]) if len(found) else INVALID
        return state, int(bus.ways.agents.copies[0, bus.ways.agents.home[0, block]]["state"])


@pytest.mark.requirement("ED-10", "ED-20")
def test_a_store_takes_the_nics_copy():
    node = Node(reaction=100 * LONG)

    node.world.store(PAGE, b"mine")

    assert node.states() == (MODIFIED, INVALID)
    assert node.states(1) == (SHARED, SHARED)


@pytest.mark.requirement("ED-10", "ED-17", "ED-21")
def test_the_nic_reads_what_was_stored_and_both_share_it():
    node = Node()
    node.world.store(PAGE, b"mine")
    node.world.pause(LONG)

    assert node.states() == (SHARED, SHARED)
    bus = node.world.bus
    place = int(bus.ways.agents.home[0, PAGE // BLOCK]) * BLOCK
    assert node.world.nic_bytes(place, 4) == b"mine"

    node.world.store(PAGE, b"more")  # so this one has to ask again
    node.world.pause(LONG)
    assert node.world.nic_bytes(place, 4) == b"more"


@pytest.mark.requirement("ED-10", "ED-17", "ED-30")
def test_the_coherent_method_takes_the_hosts_copy_until_that_is_read_again():
    node = Node(receive_method=1)
    node.world.put_on_nic(0, b"n" * BLOCK)

    node.world.deliver(EDT, 0, PAGE, BLOCK)
    assert node.states() == (INVALID, MODIFIED)
    assert node.world.load(PAGE, BLOCK)[0] == b"n" * BLOCK
    assert node.states() == (SHARED, SHARED)


@pytest.mark.requirement("ED-31")
def test_a_write_back_takes_the_hosts_copy_and_leaves_the_nic_its_own():
    node = Node(receive_method=2)
    node.world.put_on_nic(0, b"n" * BLOCK)

    node.world.deliver(EDT, 0, PAGE, BLOCK)

    assert node.states() == (INVALID, SHARED)
    assert node.world.bus.hosts.memory[0, PAGE : PAGE + BLOCK].tobytes() == b"n" * BLOCK
    assert node.world.load(PAGE, BLOCK)[0] == b"n" * BLOCK


def test_a_dma_takes_the_hosts_copy_and_the_nic_reads_its_own_anew():
    node = Node(reaction=100 * LONG)
    node.world.put_on_nic(0, b"n" * BLOCK)

    node.world.deliver(DMA, 0, PAGE, BLOCK)
    node.world.pause(LONG)

    assert node.states() == (INVALID, SHARED)
    place = int(node.world.bus.ways.agents.home[0, PAGE // BLOCK]) * BLOCK
    assert node.world.nic_bytes(place, BLOCK) == b"n" * BLOCK
    assert node.world.load(PAGE, BLOCK)[0] == b"n" * BLOCK


@pytest.mark.requirement("ED-17")
def test_of_a_block_that_the_nic_keeps_the_host_has_no_right_to_write_without_asking():
    node = Node()
    node.world.load(0x8000, BLOCK)  # nobody else has it
    lines = node.world.bus.hosts.l2[0]

    assert int(lines[np.flatnonzero(lines["tag"] == 0x8000 // BLOCK)[0]]["state"]) == EXCLUSIVE
    assert node.states(1)[0] == SHARED


@pytest.mark.requirement("ED-9", "ED-31", "ED-32", "ED-33", "ED-73")
@pytest.mark.parametrize("count", [4, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("way", [EDT, DMA, int(Mechanism.DMA_RETRY), int(Mechanism.DMA)])
def test_what_arrives_has_ended_when_its_last_byte_has_crossed_and_not_before(way, count):
    node, where = Node(), PAGE if way == EDT else 0x8000  # where the NIC keeps no copies
    node.world.put_on_nic(0, b"n" * count)

    ended = node.world.deliver(way, 0, where, count)

    bus = node.world.bus
    told = 0 if way == EDT else int(bus.ways.nics.config[0, 0]["dma_interrupt"])
    assert ended == int(bus.hosts.registers[0, 0]["data_free"]) + told
    assert bus.hosts.memory[0, where : where + count].tobytes() == b"n" * count


@pytest.mark.requirement("ED-73", "ED-85")
@pytest.mark.parametrize("count", [4, 4096])
@pytest.mark.parametrize("way", [DMA, int(Mechanism.DMA_RETRY), int(Mechanism.DMA)])
def test_an_engine_asks_for_its_first_block_when_it_is_set_up_whatever_it_is_to_move(way, count):
    world = BusWorld(None, {"dma_init": 700_000})
    asks = world.bus.ways.asks[0]
    for engine, call in ((ENGINE_OUT, FETCH), (ENGINE_IN, DELIVER)):
        world.pause(LONG)
        begun = world.now
        world.start(engine, way, call, 0x8000, 0, count, begun)

        while asks[engine]["at"] == FAR:
            world.fire()

        assert asks[engine]["at"] == begun + 700_000
        world.rest(engine)
