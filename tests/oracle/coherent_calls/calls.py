"""One call for each step of a message, whatever the way: when it is over."""

from nicscope.memory.coherence.bus import INTERVENED, RETRIED, UNSNOOPED
from nicscope.memory.coherence.layout import READ, WRITE
from nicscope.nic.coherent import Mechanism
from oracle.coherent_calls import eager, processor
from oracle.coherent_calls.devices import transfer
from oracle.coherent_calls.node import node_of
from oracle.coherent_calls.queues import Receives, Sends

BY_CPU = (Mechanism.PIO, Mechanism.PIO_COMBINED)
ANSWERS = {Mechanism.DMA: UNSNOOPED, Mechanism.DMA_RETRY: RETRIED}


class Calls:
    """Between host and interface ``n`` of ``machine``, under one way."""

    def __init__(self, machine, n, way):
        self.node, self.way = node_of(machine, n), Mechanism(way)
        self.answer = ANSWERS.get(self.way, INTERVENED)
        self.sends, self.receives = Sends(self.node), Receives(self.node)

    def write(self, address, raw, now):
        return processor.store(self.node, address, raw, now)

    def read(self, address, count, now):
        return processor.load(self.node, address, count, now)

    def doorbell(self, token, now):
        return processor.doorbell(self.node, token, now)

    def publish(self, address, count, place, now):
        """The CPU's part of sending, before the doorbell."""
        if self.way in BY_CPU:
            combined = self.way is Mechanism.PIO_COMBINED
            return processor.to_device(self.node, address, count, place, now, combined=combined)
        if self.way is Mechanism.CNI:
            return self.sends.publish(address, count, now)
        return self.prepare(address, count, now)

    def prepare(self, address, count, now):
        """The CPU's part of posting a receive."""
        if self.way is Mechanism.DMA:
            return processor.flush(self.node, address, count, now)
        return now

    def fetch(self, address, count, place, now):
        """The interface has the bytes, at ``place_of`` them."""
        if self.way in BY_CPU:
            return now
        if self.way is Mechanism.CNI:
            return self.sends.fetch(count, place, now)
        if self._is_eager(address, count):
            return eager.fetch(self.node, address, count, now)
        return transfer(self.node, READ, self.answer, address, count, place, now)

    def place_of(self, address, count, place):
        """Where in its memory fetched bytes are."""
        if self._is_eager(address, count):
            return eager.place_of(self.node, address)
        return place

    def _is_eager(self, address, count):
        return self.way is Mechanism.EDT and eager.is_registered(self.node, address, count)

    def deliver(self, place, address, count, now):
        """The interface has done its part of receiving."""
        if self.way in BY_CPU:
            return now
        if self.way is Mechanism.CNI:
            return self.receives.deliver(place, address, count, now)
        if self._is_eager(address, count):
            return eager.deliver(self.node, place, address, count, now)
        return transfer(self.node, WRITE, self.answer, address, count, place, now)

    def collect(self, place, address, count, now):
        """The CPU has done its part of receiving."""
        if self.way in BY_CPU:
            return processor.from_device(self.node, place, address, count, now)
        if self.way is Mechanism.CNI:
            return self.receives.collect(address, count, now)
        return now

    def register(self, address, count, now):
        """The interface keeps copies of the range."""
        return eager.register(self.node, address, count, now)
