"""Random masters on one bus against the oracle: every time, count and byte.

The oracle keeps no copies: a read finds the last write that was ordered before it.  So a run that
agrees is coherent, whoever wrote and whoever read.
"""

import numpy as np
from bus_world import BusWorld
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.drivers.simulate.bus.bus_harness import asked
from nicscope.drivers.simulate.bus.state import RESTING
from nicscope.drivers.simulate.records import ACCESS
from nicscope.memory.coherence import processor
from nicscope.memory.coherence.bus import (
    ENGINE_IN,
    ENGINE_OUT,
    INTERVENED,
    REPORT,
    RETRIED,
    Watcher,
    watch_block,
)
from nicscope.memory.coherence.layout import KIND_NAMES, READ, SHARED, WRITE
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import DELIVER, FETCH
from nicscope.nic.ways.state import REPORT as TO_REPORT
from oracle import bus as oracle
from oracle import bus_masters as masters
from suite import share

BYTES, WATCHED, WIDEST, BLOCK = 1024, 512, 150, 64
HOME = 1536 // BLOCK  # where the NIC's buffers begin
FROM_HOST, TO_HOST, COMPLETION, ROOM = 0, 256, 512, 640  # of NIC memory, by who has it there
RETRY, INTERVENTION, EDT = Mechanism.DMA_RETRY, Mechanism.DMA_INTERVENTION, Mechanism.EDT
PAUSE = 100

addresses = st.integers(0, BYTES - WIDEST) | st.integers(0, 100)
counts = st.integers(1, WIDEST) | st.integers(1, 8)
delays = st.sampled_from((0, 1_000, 13_000, 50_000, 200_000))
cpu_steps = st.lists(
    st.tuples(
        st.sampled_from(
            (
                processor.STORE,
                processor.STORE,
                processor.LOAD,
                PAUSE,
                processor.FLUSH,
                processor.COPY,
                processor.TO_DEVICE,
                processor.FROM_DEVICE,
                processor.DOORBELL,
            )
        ),
        addresses,
        counts,
        delays,
    ),
    min_size=1,
    max_size=14,
)
moves = st.lists(
    st.tuples(st.sampled_from((RETRY, INTERVENTION, EDT)), addresses, counts, delays), max_size=4
)
others = st.lists(
    st.tuples(
        st.sampled_from(("read", "write")), delays, addresses, st.integers(1, BLOCK), st.booleans()
    ),
    max_size=6,
)
constants = st.fixed_dictionaries(
    {
        "fill_then_invalidate": st.integers(0, 1),
        "l2_bytes": st.sampled_from((256, 512, 4096)),
        "l2_latency": st.sampled_from((0, 10_000, 7_000)),
        "snoop": st.sampled_from((0, 2)),
        "arbitration": st.sampled_from((1, 3)),
        "cache_supply": st.sampled_from((10_000, 100_000)),
        "retry_delay": st.sampled_from((1, 5)),
        "background_percent": st.sampled_from((0, 25, 60)),
        "background_bytes": st.sampled_from((64, 1000)),
    }
)
interfaces = st.fixed_dictionaries(
    {
        "reaction": st.sampled_from((0, 7_000, 40_000, 500_000)),
        "read_window": st.integers(1, 3),
        "dma_window": st.integers(1, 3),
        "dma_mbytes_s": st.sampled_from((1600, 700)),
        "dma_init": st.sampled_from((0, 33_000)),
        "dma_interrupt": st.sampled_from((0, 20_000)),
        "receive_method": st.integers(1, 2),
    }
)
HOST = {"memory_bytes": 4096, "l1_bytes": 128, "l1_line": 32, "l2_line": BLOCK}
NIC = {"memory_bytes": 4096, "staging_bytes": 1024, "queue_blocks": 2}


def part(address, count):
    """As many bytes as there are to the end of the block, at most ``count``."""
    return min(count, BLOCK - address % BLOCK)


def _request(kind, at, address, count, place, again):
    """A row of the other device's script."""
    return {
        "kind": READ if kind == "read" else WRITE,
        "at": at,
        "address": address,
        "count": count,
        "place": place,
        "answer": RETRIED if again else INTERVENED,
    }


class Events:
    """The bus as events."""

    def __init__(self, host, nic, bytes_, rows):
        self.world = world = BusWorld({**HOST, **host}, {**NIC, **nic}, rows=len(rows))
        agent = Watcher(*(array[0] for array in world.bus.ways.agents))
        for block in range(WATCHED // BLOCK):
            watch_block(agent, block, HOME + block, nic["reaction"])
            agent.copies[HOME + block]["state"] = SHARED
        agent.memory[:1024] = np.frombuffer(bytes_, np.uint8)
        world.bus.others[0, :1024] = np.frombuffer(bytes_, np.uint8)
        self.ended = {engine: [] for engine in (ENGINE_OUT, ENGINE_IN, REPORT)}
        self.running = set()
        world.play([_request(*row) for row in rows])

    @property
    def now(self):
        return self.world.now

    def resting(self, engine):
        timing = self.world.bus.timing[0, engine]
        if timing["state"] != RESTING:
            return False
        if engine in self.running:
            self.running.remove(engine)
            self.ended[engine].append(int(timing["ended"]))
        return True

    def start(self, engine, way, address, count, place, when):
        call = {ENGINE_OUT: FETCH, ENGINE_IN: DELIVER, REPORT: TO_REPORT}[engine]
        self.running.add(engine)
        self.world.start(engine, int(way), call, address, place, count, when)

    def take(self, kind, address, count, delay, to, raw):
        world = self.world
        if kind == PAUSE:
            return b"", world.pause(delay)
        if kind == processor.STORE:
            return b"", world.store(address, raw)
        if kind == processor.LOAD:
            return world.load(address, count)
        place = to if kind == processor.COPY else ROOM
        count = 8 if kind == processor.DOORBELL else count
        return b"", world.do(asked(ACCESS, kind, address, count, place))

    def settle(self):
        self.world.settle()
        assert all(self.resting(engine) for engine in self.ended)

    def counts(self):
        counts = self.world.counts()
        return {
            (who, KIND_NAMES[kind]): int(counts[row, kind])
            for row, who in enumerate(("cpu", "device"))
            for kind in range(counts.shape[1])
            if counts[row, kind]
        }

    def nic_bytes(self):
        staging = self.world.nic_bytes(0, 1024)
        return staging + self.world.nic_bytes(HOME * BLOCK, WATCHED)


class Oracle:
    """The same of the oracle."""

    def __init__(self, host, nic, bytes_, rows):
        world = BusWorld({**HOST, **host}, {**NIC, **nic})  # for the values of its constants
        values = {}
        for config in (world.bus.ways.nics.config[0, 0], world.bus.hosts.config[0, 0]):
            values |= {name: int(config[name]) for name in config.dtype.names}
        self.bus = bus = oracle.Bus(values, 4096, 4096)
        for block in range(WATCHED // BLOCK):
            bus.home[block] = HOME + block
            bus.copy[HOME + block] = [block, oracle.SHARED, None, 0]
        bus.nic[:1024] = bus.other[:1024] = bytes_
        self.cpu = masters.Cpu(bus)
        self.ended = {engine: [] for engine in (oracle.OUT, oracle.IN, oracle.REPORT)}
        self.running = set()
        bus.start(oracle.OTHER, masters.other(bus, rows))

    @property
    def now(self):
        return self.bus.now

    def resting(self, engine):
        if engine in self.bus.actors:
            return False
        if engine in self.running:
            self.running.remove(engine)
            self.ended[engine].append(self.bus.ended[engine])
        return True

    def start(self, engine, way, address, count, place, when):
        bus, retried = self.bus, way == RETRY
        kind = "read" if engine == oracle.OUT else "write"
        if engine == oracle.REPORT:
            actor = masters.report(bus, engine, address, count, place, when)
        elif way != EDT:
            actor = masters.dma(bus, engine, kind, address, count, place, when, retried)
        elif engine == oracle.OUT:
            actor = masters.edt_fetch(bus, engine, address, count, place, when)
        else:
            actor = masters.edt_deliver(bus, address, count, place, when)
        self.running.add(engine)
        bus.start(engine, actor)

    def take(self, kind, address, count, delay, to, raw):
        found = [b""]

        def program():
            yield oracle.Until(self.bus.now + (delay if kind == PAUSE else 0))
            if kind == processor.STORE:
                yield from self.cpu.store(address, raw)
            elif kind == processor.LOAD:
                found[0] = yield from self.cpu.load(address, count)
            elif kind == processor.FLUSH:
                yield from self.cpu.flush(address, count)
            elif kind == processor.COPY:
                yield from self.cpu.copy(address, to, count)
            elif kind == processor.TO_DEVICE:
                yield from self.cpu.to_device(address, ROOM, count)
            elif kind == processor.FROM_DEVICE:
                yield from self.cpu.from_device(ROOM, address, count)
            elif kind == processor.DOORBELL:
                yield from self.cpu.uncached("write", None, bytes(8))

        self.bus.start(oracle.CPU, program())
        self.bus.run()
        return found[0], self.bus.ended[oracle.CPU]

    def settle(self):
        self.bus.run()
        assert all(self.resting(engine) for engine in self.ended)

    def counts(self):
        return self.bus.counts

    def nic_bytes(self):
        return bytes(self.bus.nic[:1024] + self.bus.nic[HOME * BLOCK : HOME * BLOCK + WATCHED])


def drive(machine, steps, engines, raws):
    """The CPU's steps one after the other; engines that rest get their next move in between."""
    seen = []
    left = {engine: list(moves) for engine, moves in engines.items()}
    places = {ENGINE_OUT: FROM_HOST, ENGINE_IN: TO_HOST, REPORT: COMPLETION}
    for (kind, address, count, delay), raw in zip(steps, raws, strict=True):
        for engine, waiting in left.items():
            if machine.resting(engine) and waiting:
                way, start, length, later = waiting.pop(0)
                if engine == REPORT:
                    length = part(start, length)
                when = machine.now + later
                machine.start(engine, way, start, length, places[engine], when)
        to = (address * 7 + 13) % (BYTES - WIDEST)
        seen.append(machine.take(kind, address, count, delay, to, raw[:count]))
    machine.settle()
    seen.append(machine.take(processor.LOAD, 0, BYTES, 0, 0, b""))
    machine.settle()
    return seen


@share(4)
@given(
    steps=cpu_steps,
    out=moves,
    into=moves,
    reports=moves,
    other=others,
    host=constants,
    nic=interfaces,
    seed=st.integers(0, 3),
)
@example(  # nothing but the last load, from time 0 on
    steps=[(PAUSE, 0, 1, 0)],
    out=[],
    into=[],
    reports=[],
    other=[],
    host={"l2_bytes": 256, "l2_latency": 0, "snoop": 0},
    nic={"reaction": 0, "read_window": 1, "dma_window": 1, "receive_method": 1},
    seed=0,
)
@example(  # another device reads a block that a slow interface has not yet written back
    steps=[(processor.STORE, 0, 1, 0)],
    out=[],
    into=[(EDT, 0, 1, 0)],
    reports=[],
    other=[("read", 0, 0, 1, False)],
    host={"l2_bytes": 256, "l2_latency": 0, "snoop": 0},
    nic={"reaction": 0, "read_window": 1, "dma_mbytes_s": 700, "receive_method": 1},
    seed=0,
)
def test_random_masters_agree_with_the_oracle(steps, out, into, reports, other, host, nic, seed):
    rng = np.random.default_rng(seed)
    begin = rng.bytes(1024)
    raws = [rng.bytes(WIDEST) for _ in steps]
    engines = {ENGINE_OUT: out, ENGINE_IN: into, REPORT: reports}
    rows = [
        (kind, at, address, part(address, count), 64 * row, again)
        for row, (kind, at, address, count, again) in enumerate(other)
    ]
    new, slow = Events(host, nic, begin, rows), Oracle(host, nic, begin, rows)

    found, expected = (drive(machine, steps, engines, raws) for machine in (new, slow))

    assert found == expected
    assert new.ended == slow.ended
    assert new.counts() == slow.counts()
    assert new.nic_bytes() == slow.nic_bytes()
    assert new.world.bus.others[0].tobytes()[:1024] == bytes(slow.bus.other[:1024])
