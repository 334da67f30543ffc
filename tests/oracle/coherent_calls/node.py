"""One host and its interface, as views of the arrays of many."""

from __future__ import annotations

from typing import NamedTuple

from nicscope.drivers.simulate.bus.state import unfitted
from nicscope.memory.coherence.bus import Watcher, data_phase, order, ordered_at
from nicscope.memory.coherence.layout import Host
from nicscope.nic.coherent import Interface
from nicscope.nic.ways.state import new_at_buses


class Node(NamedTuple):
    """Of ``new_at_buses``."""

    host: Host
    agent: Watcher
    nic: Interface

    @property
    def shift(self):
        """Bits of an address within its block."""
        return int(self.host.config[0].l2_shift)

    @property
    def block(self):
        """Bytes."""
        return 1 << self.shift

    def part(self, address, left):
        """Bytes to the end of the block, at most ``left``."""
        return min(self.block - address % self.block, left)

    def address_phase(self, master, kind, asks):
        """When a transaction that asks at ``asks`` is ordered; it is counted."""
        ordered = int(ordered_at(self.host, asks))
        order(self.host, master, kind, ordered)
        return ordered

    def data_phase(self, ready, count, mbytes_s=0):
        """When the last of ``count`` bytes that are ready at ``ready`` has crossed."""
        return int(data_phase(self.host, ready, count, mbytes_s))


def new_nodes(nodes, host=None, nic=None):
    """Hosts and interfaces; what is not said of them is as before any fit."""
    return new_at_buses(
        nodes, unfitted().host | (host or {}), unfitted().nic | (nic or {}), tags=64
    )


def node_of(machine, n):
    """Node ``n`` of them."""
    return Node(
        Host(*(array[n] for array in machine.hosts)),
        Watcher(*(array[n] for array in machine.agents)),
        Interface(*(array[n] for array in machine.nics)),
    )
