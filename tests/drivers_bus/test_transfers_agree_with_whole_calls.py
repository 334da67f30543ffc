"""Single transfers of every way, uncontended: the bus as events against one call for each step."""

import numpy as np
import pytest
from bus_world import BusWorld

from nicscope.nic.coherent import Mechanism
from oracle.coherent_calls.calls import Calls
from oracle.coherent_calls.node import new_nodes
from suite import INTERPRETED

SEND, RECEIVE = 0, 1 << 17
LONGEST = 4096 + 512
SIZES = (64, 100, 128, 1000, 4096) if INTERPRETED else tuple(range(64, 4097, 64))
ROOM = {"memory_bytes": 1 << 18, "l1_bytes": 4 << 10, "l2_bytes": 32 << 10}
NIC = {"memory_bytes": 1 << 18, "staging_bytes": 1 << 13}


class Twin:
    """One node of whole calls; what it was before is what the bus begins as."""

    def __init__(self, way, nic, host):
        self.machine = new_nodes(2, {**ROOM, **host}, {**NIC, **nic})
        self.end = Calls(self.machine, 0, way)
        now = 0
        for start in (SEND, RECEIVE) if way == Mechanism.EDT else ():
            now = self.end.register(start, LONGEST, now)
        self.now = now


def compare(way, sizes, offset, nic, host=(), at=0):
    """Times of every step of a message out, from ``at`` of the NIC, and one in, on both."""
    host = dict(host)
    old = Twin(way, nic, host)
    new = BusWorld({**ROOM, **host}, {**NIC, **nic}, old=old.machine, now=old.now)
    rng = np.random.default_rng(offset)
    now = old.now
    for count in sizes:
        source, target = SEND + offset, RECEIVE + offset // 2
        sent, came = rng.bytes(count), rng.bytes(count)
        times = []
        now = old.end.write(source, sent, now)
        times.append((now, new.store(source, sent)))
        now = old.end.publish(source, count, at, now)
        times.append((now, new.publish(way, source, count, at)))
        now = old.end.doorbell(source, now)
        times.append((now, new.doorbell(source)))
        now = old.end.fetch(source, count, at, now)
        times.append((now, new.fetch(way, source, count, at)))
        place = old.end.place_of(source, count, at)
        assert new.nic_bytes(place, count) == sent
        for memory in (old.machine.agents.memory, new.bus.ways.agents.memory):
            memory[0, :count] = np.frombuffer(came, np.uint8)
        now = old.end.prepare(target, count, now)
        # The receive's part of publishing: the buffer leaves the caches.
        times.append((now, new.publish(way, target, count, 0) if way == Mechanism.DMA else now))
        now = old.end.deliver(0, target, count, now)
        times.append((now, new.deliver(way, 0, target, count)))
        now = old.end.collect(0, target, count, now)
        times.append((now, new.collect(way, 0, target, count)))
        read, now = old.end.read(target, count, now)
        found, end = new.load(target, count)
        times.append((now, end))
        assert read == found == came
        assert [mine for _, mine in times] == [theirs for theirs, _ in times], count
    assert (new.counts() == old.machine.hosts.counts[0]).all()
    names = new.bus.hosts.registers.dtype.names
    mine, theirs = new.bus.hosts.registers[0, 0], old.machine.hosts.registers[0, 0]
    assert {name: mine[name] for name in names if name != "clock"} == {
        name: theirs[name] for name in names if name != "clock"
    }


@pytest.mark.parametrize("way", [pytest.param(int(m), id=m.name.lower()) for m in Mechanism])
@pytest.mark.parametrize("offset", [0, 60])
def test_every_step_of_a_message_ends_at_the_same_picosecond(way, offset):
    compare(way, SIZES, offset, {})


@pytest.mark.parametrize(
    ("way", "nic"),
    [
        (Mechanism.EDT, {"receive_method": 1}),
        (Mechanism.EDT, {"reaction": 700_000}),
        (Mechanism.CNI, {"lazy_pointers": 0}),
        (Mechanism.CNI, {"valid_bits": 0}),
        (Mechanism.CNI, {"sense_reverse": 0}),
        (Mechanism.DMA_RETRY, {"dma_window": 1, "dma_mbytes_s": 700}),
        (Mechanism.DMA_INTERVENTION, {"dma_window": 3}),
    ],
)
def test_so_they_do_with_other_parameters_of_the_interface(way, nic):
    compare(int(way), SIZES[::2], 36, nic)


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("at", [20, 29])
def test_a_combining_buffer_leaves_in_pieces_when_another_stretch_needs_it(buffers, at):
    way = int(Mechanism.PIO_COMBINED)

    compare(way, (45, 100, 128), 36, {}, {"combine_buffers": buffers}, at)
    compare(way, (45, 100, 128), 36, {}, {"combine_buffers": buffers, "combine_bytes": 16}, at)
