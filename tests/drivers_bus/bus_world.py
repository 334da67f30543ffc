"""A machine of two nodes with caches and a bus each, asked for one thing or for many at a time."""

from __future__ import annotations

import numpy as np

from nicscope.config.delivery import DELIVERY_COSTS, POLICIES
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.bus.accessing import TO_COLLECT, TO_PUBLISH
from nicscope.drivers.simulate.bus.granting import play
from nicscope.drivers.simulate.bus.moving import start_move
from nicscope.drivers.simulate.bus.parameters import unfitted
from nicscope.drivers.simulate.bus.requests import schedule
from nicscope.drivers.simulate.bus.state import RESTING, new_bus
from nicscope.drivers.simulate.machine import ACCESS, COMPUTE
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.store import no_store
from nicscope.fabric.topology import pair
from nicscope.kernel.distant import link
from nicscope.kernel.entering import bound
from nicscope.memory.coherence import access
from nicscope.memory.coherence.asks import ENGINE_IN, ENGINE_OUT, FAR, PROCESSOR
from nicscope.nic.ways.state import DELIVER, FETCH

COSTS = dict.fromkeys(DELIVERY_COSTS, 1)
MANY = 1 << 40


class BusWorld:
    """Node 0 has one process, which does what it is asked for; so has node 1."""

    def __init__(self, host=None, nic=None, *, old=None, now=0, rows=0, memory=None):
        self.bus = new_bus(
            2,
            2,
            unfitted().host | (host or {}),
            unfitted().nic | (nic or {}),
            window_bytes=1 << 17,
            other_bytes=1 << 12,
            rows=rows,
            memory=memory,
        )
        if old is not None:
            self._become(old)
        self.machine = new_machine(
            [COSTS] * 2, POLICIES["adaptive"], pair(), no_store(2), 0, 0, [0, 1], bus=self.bus
        )
        self.machine.tally[0]["now"] = now
        link(self.machine, FUNCTIONS)
        self._go_on = bound(advance, self.machine)
        # The NICs' firmware posts its receives, in a few ps, before all that follows.
        self._go_on(-1, MANY)
        self.machine.tally[0]["now"] = now

    def _become(self, old):
        """Take over every byte and state of a machine of the old kernels."""
        for mine, other in (
            (self.bus.hosts, old.hosts),
            (self.bus.ways.agents, old.agents),
            (self.bus.ways.nics, old.nics),
        ):
            for to, source in zip(mine, other, strict=True):
                to[: len(source)] = source.view(to.dtype)

    @property
    def now(self):
        return int(self.machine.tally[0]["now"])

    def begin(self, operation, kind=0, address=0, count=0, place=0, way=0, duration=0, node=0):
        """Have the process of ``node`` ask for an operation at once."""
        request = self.machine.outbox[0]
        for name, value in (
            ("process", node),
            ("operation", operation),
            ("tag", kind),
            ("address", address),
            ("payload", count),
            ("packet", place),
            ("peer", way),
            ("duration", duration),
            ("node", node),
        ):
            request[name] = value
        self._go_on(1, 0)

    def run_on(self):
        """Fire until an operation ends; when, or None if nothing more happens."""
        self._go_on(0, MANY)
        return self.now if self.machine.tally[0]["ended"] else None

    def do(self, *asked, **more):
        """When such an operation of the process of node 0 has ended (ps)."""
        self.begin(*asked, **more)
        return self.run_on()

    def pause(self, duration):
        return self.do(COMPUTE, duration=duration)

    def store(self, address, raw):
        self.window(0)[: len(raw)] = np.frombuffer(bytes(raw), np.uint8)
        return self.do(ACCESS, access.STORE, address, len(raw))

    def load(self, address, count):
        end = self.do(ACCESS, access.LOAD, address, count)
        return self.window(0)[:count].tobytes(), end

    def doorbell(self, token):
        return self.do(ACCESS, access.DOORBELL, token, 8)

    def publish(self, way, address, count, place):
        return self.do(ACCESS, TO_PUBLISH, address, count, place, way)

    def collect(self, way, place, address, count):
        return self.do(ACCESS, TO_COLLECT, address, count, place, way)

    def window(self, process):
        return self.bus.windows[process]

    def start(self, master, way, call, address, place, count, when, node=0):
        start_move(self.machine, node, master, way, call, address, place, count, when)

    def play(self, rows, node=0):
        """Have the other device do these transactions, one after the other."""
        for record, row in zip(self.bus.script[node], rows, strict=False):
            for name, value in row.items():
                record[name] = value
        self.bus.playing[node]["rows"] = len(rows)
        play(self.machine, node, self.now)
        schedule(self.machine, node)

    def fire(self, events=1):
        return self._go_on(0, events)

    def rest(self, master, node=0):
        """When the move of ``master`` has ended; other things go on beside it."""
        while self.bus.timing[node, master]["state"] != RESTING:
            assert self.fire() == 1, "nothing more happens, and it has not ended"
        return int(self.bus.timing[node, master]["ended"])

    def fetch(self, way, address, count, place):
        self.start(ENGINE_OUT, way, FETCH, address, place, count, self.now)
        return self.rest(ENGINE_OUT)

    def deliver(self, way, place, address, count):
        self.start(ENGINE_IN, way, DELIVER, address, place, count, self.now)
        return self.rest(ENGINE_IN)

    def settle(self):
        """Fire all that is pending."""
        while self.fire(1 << 12):
            pass

    def counts(self, node=0):
        return self.bus.hosts.counts[node]

    def nic_bytes(self, place, count, node=0):
        return self.bus.ways.agents.memory[node, place : place + count].tobytes()


def waits_for_bus(world, node=0):
    """Whether the CPU's request stands."""
    return world.bus.ways.asks[node, PROCESSOR]["at"] != FAR
