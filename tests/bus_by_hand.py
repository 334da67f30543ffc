"""Buses by themselves, with all that CPUs, engines, other devices and the network do there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.bus.arbitration import TO_COLLECT, play
from nicscope.drivers.simulate.bus.bus_harness import BusAlone, asked
from nicscope.drivers.simulate.bus.moves import deregister_frame
from nicscope.drivers.simulate.bus.state import schedule
from nicscope.drivers.simulate.records import ACCESS
from nicscope.memory.coherence import processor
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT
from nicscope.nic.ways.state import DELIVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MANY = 1 << 12


class Bus(BusAlone):
    """A bus by itself of which every step can be asked, and all of which can be seen."""

    def load(self, address: int, count: int, node: int = 0) -> tuple[bytes, int]:
        """What the CPU has loaded, likewise, and when."""
        end = self.do(asked(ACCESS, processor.LOAD, address, count), node)
        return bytes(self.bus.windows[node][:count]), end

    def flush(self, address: int, count: int, node: int = 0) -> int:
        """When no block of the range is in the caches."""
        return self.do(asked(ACCESS, processor.FLUSH, address, count), node)

    def doorbell(self, token: int, node: int = 0) -> int:
        """When the NIC's doorbell has ``token``."""
        size = int(self.bus.ways.nics.config[node, 0]["doorbell_bytes"])
        return self.do(asked(ACCESS, processor.DOORBELL, token, size), node)

    def collect(self, way: int, place: int, address: int, count: int, node: int = 0) -> int:
        """When the CPU has done its part of receiving: the bytes are at ``address``."""
        return self.do(asked(ACCESS, TO_COLLECT, address, count, place, way), node)

    def fetched_to(self, node: int = 0) -> int:
        """Where in the NIC's memory the bytes of its last fetch are."""
        return int(self.bus.ways.moves[node, ENGINE_OUT]["place"])

    def deliver(self, way: int, place: int, address: int, count: int, node: int = 0) -> int:
        """When the NIC has brought the bytes at ``place`` where the CPU finds them."""
        self.start(ENGINE_IN, way, DELIVER, address, place, count, self.now, node)
        return self.rest(ENGINE_IN, node)

    def play(self, rows: Sequence[Mapping[str, int]], node: int = 0) -> None:
        """Have another device make these transactions, of ``ASK``, one after the other."""
        for record, row in zip(self.bus.script[node], rows, strict=False):
            for name, value in row.items():
                record[name] = value
        self.bus.playing[node]["rows"] = len(rows)
        self.replay_script(node)

    def replay_script(self, node: int = 0) -> None:
        """Have the other device begin anew, which has made them all."""
        self.bus.playing[node]["row"] = 0
        play(self.machine, node, self.now)
        schedule(self.machine, node)

    def deregister(self, address: int, count: int, node: int = 0) -> None:
        """The NIC keeps no copies of the range's pages any more."""
        for page in self._pages(address, count):
            deregister_frame(self.machine, node, page)

    def settle(self) -> None:
        """Fire all that is pending."""
        while self.fire(_MANY):
            pass

    def nic_bytes(self, place: int, count: int, node: int = 0) -> bytes:
        """What the NIC's memory has there."""
        return bytes(self.bus.ways.agents.memory[node, place : place + count])

    def put_on_nic(self, place: int, raw: bytes, node: int = 0) -> None:
        """The network brings ``raw`` to the NIC's memory, in no time."""
        memory = self.bus.ways.agents.memory[node]
        memory[place : place + len(raw)] = np.frombuffer(raw, np.uint8)
