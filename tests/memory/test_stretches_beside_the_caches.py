"""The kernel moves stretches of memory: the caches' blocks there, and no others, agree first."""

import numpy as np
import pytest

from bus_by_hand import Bus
from nicscope.memory.coherence.bus import forget, host_of, settle
from nicscope.memory.coherence.layout import EMPTY, MODIFIED, SHARED, find_l2

BLOCKS = 6
STORED = (0, 1, 2, 4)  # of the six


@pytest.fixture
def machine():
    """A node whose CPU has stored to some blocks, which stay in its caches, modified."""
    machine = Bus()
    width = 1 << int(machine.bus.hosts.config[0, 0]["l2_shift"])
    for block in STORED:
        machine.store(block * width, bytes([block + 1]) * width)
    config = machine.bus.hosts.config[0, 0]
    for way in range(int(config["l2_ways"])):  # all of the last set: what -1 would stand for
        block = int(config["l2_mask"]) + way * (int(config["l2_mask"]) + 1)
        machine.store(block * width, b"last" * (width // 4))
    assert machine.bus.hosts.l2[0, -1]["state"] == MODIFIED
    return machine, host_of(machine.bus.hosts, 0), width


def states(host):
    lines = [int(find_l2(host, block)) for block in range(BLOCKS)]
    return [None if line == EMPTY else int(host.l2[line]["state"]) for line in lines]


RANGES = [(0, 1), (0, 32), (31, 2), (32, 32), (40, 8), (32, 33), (64, 96), (0, 192), (96, 32)]


@pytest.mark.parametrize(("start", "count"), RANGES)
@pytest.mark.parametrize("act", [settle, forget])
def test_the_blocks_of_the_stretch_and_no_others_are_in_memory(machine, act, start, count):
    machine, host, width = machine
    start, count = start * width // 32, count * width // 32
    blocks = range(start // width, (start + count - 1) // width + 1)
    act(machine.bus.hosts, 0, np.int64(start), np.int64(count))

    met = {block: SHARED if act is settle else None for block in blocks if block in STORED}
    before = dict.fromkeys(STORED, MODIFIED)
    assert states(host) == [(before | met).get(block) for block in range(BLOCKS)]
    for block in range(BLOCKS):
        told = block + 1 if block in STORED and block in blocks else 0
        assert (host.memory[block * width : (block + 1) * width] == told).all()
    modified = [line for line in host.l2 if line["state"] == MODIFIED]
    ways = int(host.config[0]["l2_ways"])
    assert len(modified) == len(set(STORED) - set(blocks)) + ways
