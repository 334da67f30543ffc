"""Another master's bursts: each operation of an engine waits for the one under way, once.

Arithmetic on paper: 4 KB take 2,560 ns at 16 bytes each 10 ns; with a quarter of the bus's time a
burst begins every 10,240 ns.  Operations that begin at its eighths' middles, 640 ns and every 1,280
from there on, find 1,920 or 640 ns of it left, or none: 320 ns in the mean, an eighth of a burst.
"""

import pytest
from bus_world import BusWorld

from nicscope.errors import SimulationError
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.nic.coherent import Mechanism

NS = 1_000
BUFFER, STAGED = 0x2000, 0
BLOCK = 128
INTERVENTION, EDT, CNI = (
    int(Mechanism.DMA_INTERVENTION),
    int(Mechanism.EDT),
    int(Mechanism.CNI),
)
QUARTER = {"background_percent": 25, "background_bytes": 4096}
WAITS = [0, 0, 0, 0, 0, 0, 640, 1_920]  # ns, of eight operations, sorted


def durations(world, act, times):
    """Ps of ``act`` so many times, a long while apart."""
    found = []
    for _ in range(times):
        world.pause(100_000 * NS)
        found.append(act() - world.began)
    return found


def fetched(world, way, count):
    world.began = world.now
    return world.fetch(way, BUFFER, count, STAGED)


def delivered(world, way, count):
    world.began = world.now
    return world.deliver(way, STAGED, BUFFER, count)


@pytest.mark.parametrize("count", [8, BLOCK, 8 * BLOCK])
@pytest.mark.parametrize("move", [fetched, delivered])
@pytest.mark.parametrize("way", [INTERVENTION, int(Mechanism.DMA_RETRY), int(Mechanism.DMA)])
def test_a_dma_waits_once_however_many_blocks_it_moves(way, move, count):
    quiet, busy = BusWorld(), BusWorld(QUARTER)

    alone, contended = (
        durations(world, lambda world=world: move(world, way, count), 8) for world in (quiet, busy)
    )

    assert len(set(alone)) == 1
    assert sorted(one - alone[0] for one in contended) == [wait * NS for wait in WAITS]


@pytest.mark.parametrize("count", [BLOCK, 8 * BLOCK])
def test_the_write_back_of_eager_transfer_waits_once(count):
    quiet, busy = BusWorld(), BusWorld(QUARTER)
    for world in (quiet, busy):
        world.register(BUFFER, count)

    alone, contended = (
        durations(world, lambda world=world: delivered(world, EDT, count), 8)
        for world in (quiet, busy)
    )

    assert sorted(one - alone[0] for one in contended) == [wait * NS for wait in WAITS]


def test_blocks_that_the_host_wrote_and_its_own_misses_pass_between_the_bursts():
    quiet, busy = BusWorld(), BusWorld(QUARTER)
    ends = []
    for world in (quiet, busy):
        world.register(BUFFER, 8 * BLOCK)
        for _ in range(8):
            world.store(BUFFER, bytes(8 * BLOCK))
            world.fetch(EDT, BUFFER, 8 * BLOCK, STAGED)
            world.load(0x8000, 8 * BLOCK)
        ends.append(world.now)

    assert ends[0] == ends[1]
    assert busy.bus.timing[0, ENGINE_OUT]["operations"] == 0


@pytest.mark.parametrize("percent", [25, 50])
def test_of_operations_in_pairs_the_first_and_the_second_ones_wait_as_long_in_the_mean(percent):
    world = BusWorld({**QUARTER, "background_percent": percent})

    waits = durations(world, lambda: fetched(world, INTERVENTION, 8), 16)
    shortest = min(waits)

    first, second = (sum(one - shortest for one in waits[start::2]) for start in (0, 1))
    assert first == second == 8 * percent * 2_560 * NS // 200


def test_a_background_that_leaves_nothing_of_the_bus_is_refused():
    with pytest.raises(SimulationError, match="background_percent must be at most 99, got 100"):
        BusWorld({"background_percent": 100})
