"""Registered regions: tags, first states, the pinned-down cache, and a NIC without room."""

from __future__ import annotations

import numpy as np
import pytest

from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.machine import new_machine, node_view
from nicscope.drivers.coherent.registration import (
    FALLEN_BACK,
    NOT_REGISTERED,
    OVERLAPPING,
    POSTPONED,
    REGISTERED,
    REUSED,
)
from nicscope.memory.coherence.layout import DEVICE, INVALID, READ, SHARED
from nicscope.nic.coherent.layout import NOWHERE, Component
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.nic.coherent.tags import nic_address

EDT = Mechanism.EDT.value
BLOCK = 128
PAYLOAD = np.arange(4096, dtype=np.int64).astype(np.uint8)


def became(machine, address, count, now=0):
    return Boundary(machine, 0, EDT).register(address, count, now)[0]


def home(machine, address):
    return nic_address(node_view(machine, 0).nic, address)


@pytest.mark.requirement("ED-11", "ED-12", "ED-13")
def test_a_tag_maps_its_host_range_to_its_nic_range():
    machine = new_machine(1)

    assert became(machine, 1000, 3000) == REGISTERED
    tag = machine.nics.tags[0, 0]

    assert (tag["host_start"], tag["host_end"]) == (7 * BLOCK, 32 * BLOCK)
    assert tag["nic_end"] - tag["nic_start"] == tag["host_end"] - tag["host_start"]
    assert home(machine, 1000) == tag["nic_start"] + 1000 - tag["host_start"]
    assert Boundary(machine, 0, EDT).place_of(1000, 3000, 5) == home(machine, 1000)
    assert home(machine, 7 * BLOCK - 1) == home(machine, 32 * BLOCK) == NOWHERE


@pytest.mark.requirement("ED-14", "ED-18")
@pytest.mark.parametrize(("way", "state", "reads"), [(1, INVALID, 0), (2, SHARED, 8)])
def test_blocks_begin_flushed_or_read_by_the_nic(way, state, reads):
    machine = new_machine(1, nic={"initialisation": way})
    now = Boundary(machine, 0, EDT).write(0, PAYLOAD[:512].tobytes(), 0)
    machine.hosts.counts[:] = 0

    _, end = Boundary(machine, 0, EDT).register(0, 1024, now)
    first = home(machine, 0) // BLOCK

    assert (machine.agents.copies[0, first : first + 8]["state"] == state).all()
    assert machine.hosts.counts[0, DEVICE, READ] == reads
    assert machine.nics.times[0, Component.REGISTER] == end - now > 0
    # Either way the NIC has, when it needs them, the bytes from before the registration.
    Boundary(machine, 0, EDT).fetch(0, 512, 0, end)
    assert (machine.agents.memory[0, first * BLOCK : first * BLOCK + 512] == PAYLOAD[:512]).all()


@pytest.mark.requirement("ED-48")
def test_a_region_stays_after_its_end_and_is_reused():
    machine = new_machine(1)
    _, now = Boundary(machine, 0, EDT).register(0, 4096, 0)

    node = Boundary(machine, 0, EDT)
    assert node.deregister(0, 4096, now) == (REGISTERED, now)
    assert node.register(0, 4096, now) == (REUSED, now)
    assert node.register(256, 100, now) == (REUSED, now), "a part of it is registered too"
    assert node.deregister(8192, 1, now)[0] == NOT_REGISTERED


@pytest.mark.requirement("ED-48")
def test_the_region_unused_for_longest_goes_once_too_much_is_registered():
    machine = new_machine(1, nic={"pinned_bytes_max": 8192})
    for start in (0, 4096):
        Boundary(machine, 0, EDT).register(start, 4096, 0)
        Boundary(machine, 0, EDT).deregister(start, 4096, 0)
    Boundary(machine, 0, EDT).register(0, 4096, 0)
    Boundary(machine, 0, EDT).deregister(0, 4096, 0)

    assert became(machine, 8192, 4096) == REGISTERED

    assert home(machine, 0) != NOWHERE
    assert home(machine, 4096) == NOWHERE
    assert machine.nics.registers[0, 0]["releases"] == 1
    assert machine.nics.registers[0, 0]["pinned"] == 8192


@pytest.mark.requirement("ED-49")
@pytest.mark.parametrize(("when_full", "expected"), [(1, FALLEN_BACK), (2, POSTPONED)])
def test_without_room_on_the_nic_registration_waits_or_dma_serves(when_full, expected):
    nic = {"memory_bytes": 8 * 4096, "staging_bytes": 4096, "queue_blocks": 2}
    machine = new_machine(1, nic={**nic, "when_full": when_full})
    regions = [became(machine, n * 4096, 4096) for n in range(8)]

    assert regions == [REGISTERED] * 6 + [expected] * 2
    now = Boundary(machine, 0, EDT).write(7 * 4096, PAYLOAD[:300].tobytes(), 10**9)
    Boundary(machine, 0, EDT).fetch(7 * 4096, 300, 64, now)
    assert (machine.agents.memory[0, 64:364] == PAYLOAD[:300]).all()
    assert machine.nics.times[0, Component.DMA_INIT] > 0
    Boundary(machine, 0, EDT).deregister(0, 4096, now)
    assert became(machine, 7 * 4096, 4096, now) == REGISTERED


@pytest.mark.requirement("ED-49")
def test_four_megabytes_hold_about_a_thousand_registrations_of_four_kilobytes():
    machine = new_machine(1, {"memory_bytes": 8 << 20}, {"initialisation": 1})
    count = 0
    # Sixteen at a time.
    while became(machine, count * 65536, 65536) == REGISTERED:
        count += 1

    assert count * 16 == 976


def test_regions_in_use_may_not_overlap_in_part():
    machine = new_machine(1)
    Boundary(machine, 0, EDT).register(0, 1024, 0)

    assert became(machine, 512, 1024) == OVERLAPPING
    Boundary(machine, 0, EDT).deregister(0, 1024, 0)
    assert became(machine, 512, 1024) == REGISTERED
    assert home(machine, 0) == NOWHERE
