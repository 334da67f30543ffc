"""Two nodes that send each other messages, step by step, over one way into their NICs."""

from bus_world import BusWorld

from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT
from nicscope.nic.coherent import Mechanism
from nicscope.nic.ways.state import DELIVER, FETCH

SEND, RECEIVE = 1 << 13, 1 << 17  # pages that a NIC may keep
LONGEST = 1 << 16
WAYS = [(int(way), way.name.lower()) for way in Mechanism]


class Pair:
    """Node 0 sends, and node 1 receives; ``spent`` has the ps of each step of the last message."""

    def __init__(self, way, host=None, **nic):
        self.way = int(way)
        self.bus = BusWorld(host, nic)
        for node in (0, 1) if self.way == Mechanism.EDT else ():
            for start in (SEND, RECEIVE):
                assert self.bus.register(start, LONGEST + 4096, node) == 17
        self.bus.settle()
        self.spent = {}
        self.start_counting()

    def start_counting(self):
        for node in (0, 1):
            self.bus.counts(node)[:] = 0
            for master in (ENGINE_IN, ENGINE_OUT):
                self.bus.bus.timing[node, master]["transfers"] = 0

    def send(self, raw, source=SEND, target=RECEIVE):
        """The bytes that node 1 reads after node 0 wrote ``raw``."""
        bus, way, count, began = self.bus, self.way, len(raw), [self.bus.now]

        def note(name):
            self.spent[name] = bus.now - began[0]
            began[0] = bus.now

        if way == Mechanism.DMA:
            bus.publish(way, target, count, 0, node=1)
        note("prepare")
        bus.store(source, raw)
        note("write")
        if way == Mechanism.CNI:  # what is longer than the queue is taken out as it comes
            bus.start(ENGINE_OUT, way, FETCH, source, 0, count, bus.now)
        bus.publish(way, source, count, 0)
        note("publish")
        bus.doorbell(source)
        note("doorbell")
        if way == Mechanism.CNI:
            bus.rest(ENGINE_OUT)
        else:
            bus.fetch(way, source, count, 0)
        note("fetch")
        bus.put_on_nic(0, bus.nic_bytes(bus.fetched_to(), count), node=1)
        if way == Mechanism.CNI:
            bus.start(ENGINE_IN, way, DELIVER, target, 0, count, bus.now, node=1)
        else:
            bus.deliver(way, 0, target, count, node=1)
        note("deliver")
        bus.collect(way, 0, target, count, node=1)
        if way == Mechanism.CNI:
            bus.rest(ENGINE_IN, node=1)
        note("collect")
        found, _ = bus.load(target, count, node=1)
        note("read")
        return found

    def count(self, kind):
        """Transactions of either node."""
        return int(sum(self.bus.counts(node)[:, kind].sum() for node in (0, 1)))

    def by_engine(self):
        """Blocks that an engine has moved out of a host's memory."""
        return int(self.bus.bus.timing[:, ENGINE_OUT]["transfers"].sum())


def warm(way, size, host=None, **nic):
    """A pair that has exchanged such messages before, its counts at 0."""
    pair = Pair(way, host, **nic)
    for _ in range(2):
        pair.send(b"a" * size)
    pair.bus.settle()
    pair.start_counting()
    return pair
