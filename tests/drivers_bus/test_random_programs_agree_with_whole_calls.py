"""One CPU and one agent, at random: the bus as events against calls that are over one by one.

Nobody but the agent asks for the bus while the CPU, or the engine that it waits for, does.  There
whole calls are exact, but for what this leaves out: an engine that is told to retry, and flushes,
overtake the agent's earlier requests.
"""

import numpy as np
from bus_world import BusWorld
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.memory.coherence.bus import AT_NO_TIME
from nicscope.nic.coherent import Mechanism
from oracle.coherent_calls.calls import Calls
from oracle.coherent_calls.devices import give_way
from oracle.coherent_calls.node import new_nodes, node_of

BYTES = 2048  # of the host's memory that programs use
WATCHED = 1024  # of these the first are registered
WIDEST = 150
EDT, INTERVENTION = int(Mechanism.EDT), int(Mechanism.DMA_INTERVENTION)
PLACE = 64  # of messages in NIC memory, before the queues

STORE, LOAD, PAUSE, DOORBELL, FETCH, DELIVER, DMA_OUT, DMA_IN = range(8)

steps = st.lists(
    st.tuples(
        st.sampled_from((*range(8), STORE, STORE, STORE, LOAD)),
        st.integers(0, BYTES - WIDEST) | st.integers(0, 400) | st.sampled_from((0, 64)),
        st.integers(1, WIDEST) | st.integers(1, 8) | st.sampled_from((64, 106, 128)),
        st.sampled_from((0, 1_000, 13_000, 40_000, 90_000, 400_000)),
    ),
    min_size=1,
    max_size=40,
)
hosts = st.fixed_dictionaries(
    {
        "fill_then_invalidate": st.integers(0, 1),
        "l2_bytes": st.sampled_from((512, 4096)),
        "l2_latency": st.sampled_from((0, 10_000)),
        "snoop": st.sampled_from((0, 2)),
    }
)
interfaces = st.fixed_dictionaries(
    {
        "reaction": st.sampled_from((0, 7_000, 40_000, 500_000)),
        "read_window": st.integers(1, 3),
        "dma_window": st.integers(1, 3),
        "dma_mbytes_s": st.sampled_from((1600, 700)),
        "receive_method": st.integers(1, 2),
        "initialisation": st.integers(1, 2),
    }
)


class Whole:
    """Each step by a call."""

    def __init__(self, host, nic):
        self.machine = new_nodes(2, host, nic)
        self.edt = Calls(self.machine, 0, EDT)
        self.dma = Calls(self.machine, 0, INTERVENTION)
        self.now = self.edt.register(0, WATCHED, 0)

    def take(self, kind, address, count, pause, raw):
        if kind == STORE:
            return b"", self.edt.write(address, raw, self.now)
        if kind == LOAD:
            return self.edt.read(address, count, self.now)
        if kind == PAUSE:
            return b"", self.now + pause
        if kind == DOORBELL:
            return b"", self.edt.doorbell(address, self.now)
        memory = self.machine.agents.memory
        end, place = (self.edt if kind in (FETCH, DELIVER) else self.dma), PLACE
        if kind in (DELIVER, DMA_IN):
            memory[0, PLACE : PLACE + count] = np.frombuffer(raw, np.uint8)
            return b"", end.deliver(PLACE, address, count, self.now)
        now = end.fetch(address, count, PLACE, self.now)
        if kind == FETCH:
            place = end.place_of(address, count, PLACE)
        return memory[0, place : place + count].tobytes(), now


def new_step(world, kind, address, count, pause, raw):
    """The same step by events."""
    if kind == STORE:
        return b"", world.store(address, raw)
    if kind == LOAD:
        return world.load(address, count)
    if kind == PAUSE:
        return b"", world.pause(pause)
    if kind == DOORBELL:
        return b"", world.doorbell(address)
    way = EDT if kind in (FETCH, DELIVER) else INTERVENTION
    if kind in (DELIVER, DMA_IN):
        memory = world.bus.ways.agents.memory
        memory[0, PLACE : PLACE + count] = np.frombuffer(raw, np.uint8)
        return b"", world.deliver(way, PLACE, address, count)
    end = world.fetch(way, address, count, PLACE)
    place = int(world.bus.ways.moves[0, 2]["place"])
    return world.nic_bytes(place, count), end


@given(program=steps, host=hosts, nic=interfaces, seed=st.integers(0, 3))
@example(  # an upgrade behind a write miss, while a read of the agent's stands
    program=[(STORE, 0, 4, 0), (STORE, 64, 4, 0), (STORE, 600, 4, 0), (STORE, 128, 4, 0)],
    host={"fill_then_invalidate": 1, "l2_bytes": 512, "l2_latency": 10_000, "snoop": 2},
    nic={"reaction": 40_000, "read_window": 1, "dma_window": 1, "dma_mbytes_s": 700},
    seed=0,
)
@example(  # a doorbell, likewise
    program=[(STORE, 0, 150, 0), (DOORBELL, 0, 8, 0), (LOAD, 300, 8, 0)],
    host={"fill_then_invalidate": 1, "l2_bytes": 512, "l2_latency": 10_000, "snoop": 2},
    nic={"reaction": 0, "read_window": 1, "dma_window": 1, "dma_mbytes_s": 1600},
    seed=0,
)
@example(  # a read that is due while the DMA interrupts, of a block that is then replaced
    program=[(DMA_IN, 0, 51, 0), (DELIVER, 0, 106, 0)],
    host={"fill_then_invalidate": 1, "l2_bytes": 4096, "l2_latency": 10_000, "snoop": 0},
    nic={"reaction": 500_000, "read_window": 3, "dma_window": 3, "dma_mbytes_s": 700},
    seed=3,
)
@example(  # a read that stands behind one that is not needed any more
    program=[(STORE, 0, 106, 0), (STORE, 0, 106, 0), (DELIVER, 0, 106, 0)],
    host={"fill_then_invalidate": 0, "l2_bytes": 512, "l2_latency": 0, "snoop": 0},
    nic={"reaction": 0, "read_window": 1, "dma_window": 1, "dma_mbytes_s": 700},
    seed=0,
)
@example(  # a read that asks at the time at which the NIC writes its own copy of another block back
    program=[(DELIVER, 64, 51, 0), (DMA_IN, 0, 106, 0)],
    host={"fill_then_invalidate": 0, "l2_bytes": 512, "l2_latency": 0, "snoop": 0},
    nic={
        "reaction": 0,
        "read_window": 1,
        "dma_window": 1,
        "dma_mbytes_s": 1600,
        "receive_method": 1,
        "initialisation": 1,
    },
    seed=0,
)
@example(  # one that asks at the time at which the rest of a block has come, which is to be owned
    program=[(STORE, 0, 51, 0), (STORE, 0, 106, 0), (DELIVER, 0, 51, 0)],
    host={"fill_then_invalidate": 0, "l2_bytes": 512, "l2_latency": 0, "snoop": 0},
    nic={
        "reaction": 0,
        "read_window": 1,
        "dma_window": 1,
        "dma_mbytes_s": 1600,
        "receive_method": 1,
        "initialisation": 1,
    },
    seed=0,
)
def test_a_cpu_and_an_agent_take_the_same_time_to_the_picosecond(program, host, nic, seed):
    host = {"memory_bytes": 4096, "l1_bytes": 128, "l1_line": 32, "l2_line": 64, **host}
    nic = {"memory_bytes": 4096, "staging_bytes": 1024, "queue_blocks": 2, **nic}
    old = Whole(host, nic)
    world = BusWorld(host, nic, old=old.machine, now=old.now)
    rng = np.random.default_rng(seed)
    for kind, address, count, pause in program:
        raw = rng.bytes(count)
        read, old.now = old.take(kind, address, count, pause, raw)
        assert new_step(world, kind, address, count, pause, raw) == (read, old.now)

    world.settle()
    give_way(node_of(old.machine, 0), int(AT_NO_TIME) - 1)

    assert (world.counts() == old.machine.hosts.counts[0]).all()
    assert (world.bus.hosts.memory[0] == old.machine.hosts.memory[0]).all()
    ways = world.bus.ways
    for name in ("state", "block", "due"):
        assert (ways.agents.copies[0][name] == old.machine.agents.copies[0][name]).all()
    registered = slice(int(ways.nics.tags[0, 0]["nic_start"]), int(ways.nics.tags[0, 0]["nic_end"]))
    assert (ways.agents.memory[0, registered] == old.machine.agents.memory[0, registered]).all()
