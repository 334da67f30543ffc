"""A machine of two nodes with caches and a bus each, which may go on from where another is."""

from bus_by_hand import Bus
from nicscope.memory.coherence.bus import FAR, PROCESSOR


class BusWorld(Bus):
    """Room for what tests store at once, and for another device."""

    def __init__(self, host=None, nic=None, *, old=None, now=0, **more):
        super().__init__(host, nic, nodes=2, window_bytes=1 << 17, other_bytes=1 << 12, **more)
        if old is not None:
            self._become(old)
        self.machine.tally[0]["now"] = now

    def _become(self, old):
        """Take over every byte and state of ``oracle.coherent_calls``."""
        for mine, other in (
            (self.bus.hosts, old.hosts),
            (self.bus.ways.agents, old.agents),
            (self.bus.ways.nics, old.nics),
        ):
            for to, source in zip(mine, other, strict=True):
                to[: len(source)] = source.view(to.dtype)


def waits_for_bus(world, node=0):
    """Whether the CPU's request stands."""
    return world.bus.ways.asks[node, PROCESSOR]["at"] != FAR
