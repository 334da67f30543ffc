"""Pages that a NIC keeps copies of: tags, first states, and a NIC without room."""

import numpy as np
import pytest

from bus_by_hand import Bus
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import DEVICE, EMPTY, INVALID, READ, SHARED
from nicscope.nic.coherent import Mechanism

EDT = int(Mechanism.EDT)
BLOCK, PAGE = 128, 4096
RAW = bytes(number % 251 for number in range(PAGE))


def copies_of(bus, page):
    """The states of the NIC's copies of a page's blocks; none if it keeps none."""
    agents = bus.bus.ways.agents
    homes = agents.home[0, page * PAGE // BLOCK : (page + 1) * PAGE // BLOCK]
    assert len({home == EMPTY for home in homes}) == 1
    return [] if homes[0] == EMPTY else agents.copies[0][homes]["state"].tolist()


@pytest.mark.requirement("ED-12", "ED-13")
def test_a_tag_maps_its_host_range_to_its_nic_range():
    bus = Bus()

    assert bus.register(3 * PAGE, PAGE) == 1
    tag = bus.bus.ways.nics.tags[0, 0]

    assert tag["valid"] == 1
    assert (tag["host_start"], tag["host_end"]) == (3 * PAGE, 4 * PAGE)
    assert tag["nic_end"] - tag["nic_start"] == PAGE
    assert tag["nic_start"] >= bus.bus.ways.nics.config[0, 0]["buffer_start"]
    bus.store(3 * PAGE, RAW)
    bus.fetch(EDT, 3 * PAGE + 1000, 3000, 5)
    assert bus.fetched_to() == tag["nic_start"] + 1000
    assert bus.nic_bytes(bus.fetched_to(), 3000) == RAW[1000:4000]
    assert copies_of(bus, 2) == copies_of(bus, 4) == []


@pytest.mark.requirement("ED-12", "ED-13")
def test_pages_beside_each_other_are_one_range_on_the_nic_too():
    bus = Bus()
    assert bus.register(PAGE, 3 * PAGE) == 3
    tags = bus.bus.ways.nics.tags[0][:3]
    assert tags["nic_end"].tolist() == (tags["nic_start"] + PAGE).tolist()
    assert tags["nic_start"][1:].tolist() == tags["nic_end"][:-1].tolist()
    bus.store(2 * PAGE - 500, RAW[:1000])

    bus.fetch(EDT, 2 * PAGE - 500, 1000, 0)

    assert bus.nic_bytes(bus.fetched_to(), 1000) == RAW[:1000]
    assert bus.bus.timing[0, ENGINE_OUT]["transfers"] == 0


@pytest.mark.requirement("ED-14", "ED-18")
@pytest.mark.parametrize(("way", "state", "reads"), [(1, INVALID, 0), (2, SHARED, 32)])
def test_blocks_begin_invalid_or_read_by_the_nic(way, state, reads):
    bus = Bus(None, {"initialisation": way})
    bus.store(PAGE, RAW[:512])
    bus.counts()[:] = 0

    bus.register(PAGE, PAGE)
    bus.settle()

    assert copies_of(bus, 1) == [state] * 32
    assert bus.counts()[DEVICE, READ] == reads
    # Either way the NIC has, when it needs them, the bytes from before the registration.
    bus.fetch(EDT, PAGE, 512, 0)
    assert bus.nic_bytes(bus.fetched_to(), 512) == RAW[:512]


def test_a_page_that_is_registered_no_more_is_moved_by_the_engine_and_its_room_is_anothers():
    bus = Bus(None, {"pinned_bytes_max": PAGE})
    assert (bus.register(PAGE, PAGE), bus.register(2 * PAGE, PAGE)) == (1, 0)
    bus.store(PAGE, RAW)

    bus.deregister(PAGE, PAGE)
    assert bus.register(2 * PAGE, PAGE) == 1
    bus.store(2 * PAGE, RAW[::-1])
    bus.settle()

    assert copies_of(bus, 1) == []
    for page, expected in ((1, RAW), (2, RAW[::-1])):
        before = int(bus.bus.timing[0, ENGINE_OUT]["transfers"])
        bus.fetch(EDT, page * PAGE, PAGE, 0)
        assert bus.nic_bytes(bus.fetched_to(), PAGE) == expected
        blocks = int(bus.bus.timing[0, ENGINE_OUT]["transfers"]) - before
        assert blocks == (32 if page == 1 else 0)
    registers = bus.bus.ways.nics.registers[0, 0]
    assert (registers["releases"], registers["fallbacks"], registers["pinned"]) == (1, 1, PAGE)


@pytest.mark.requirement("ED-49")
def test_four_megabytes_hold_about_a_thousand_registrations_of_four_kilobytes():
    bus = Bus({"memory_bytes": 8 << 20}, {"pinned_bytes_max": 8 << 20}, tags=1200)

    found = bus.register(PAGE, 1100 * PAGE)

    # What stages messages, and the queues and their pointers, come first.
    config = bus.bus.ways.nics.config[0, 0]
    assert config["memory_bytes"] == 4 << 20
    assert found == ((4 << 20) - config["buffer_start"]) // PAGE == 987
    last = (found + 1) * PAGE  # that found no room
    bus.store(last, RAW)
    bus.fetch(EDT, last, PAGE, 0)
    assert bus.fetched_to() == 0
    assert bus.nic_bytes(0, PAGE) == RAW
    assert np.count_nonzero(bus.bus.ways.nics.tags[0]["valid"]) == found
