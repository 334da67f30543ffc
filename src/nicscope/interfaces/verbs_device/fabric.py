"""The node beneath a device: one host with one NIC, which sends to itself, and one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import msgspec

from nicscope.config.delivery import Transport
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.interfaces.options import DesignSettings, spelt_out
from nicscope.interfaces.ports.cluster import OWN_PORTS, PortCluster
from nicscope.interfaces.ports.process import Process

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.delivery import Delivery
    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.programs import Simulation

DESIGN = "vmmc-interrupt"  # whose NIC asks for a page when it misses it
PLATFORMS = {"vmmc-interrupt": "utlb-prototype", "via-static": "utlb-prototype"}
KEY_BITS = 8  # of a key that say which of those it is that a region or window has had
SIZE = PortSize(
    ring=512,
    ready=1,
    channels=1,
    exports=0,
    imports=0,
    longest=4096,
    connections=1 << 16,
    segments=16,
    receives=512,
    regions=1 << 17,
    queues=1 + 1024,
    entries=1 << 14,
)
HOST = HostSize(frames=1 << 14, pages_per_space=1 << 16, swap_blocks=1 << 12)
PAIRS = 1024 + 64  # shared queues of receives are of the same kind
WAYS = 2  # of datagrams: from the node to itself, of which each end has a tag
# Assumed: what a queue pair does not say of its own.  Acknowledgements wait for a packet to go with
# as those of the other interfaces do.
TRANSPORT = Transport(window=64, time_out_ps=500_000_000, most_retries=7, remaps=False)


class Fabric(PortCluster[Process]):
    """One host whose NIC serves queue pairs."""

    interface = "verbs"
    transport = TRANSPORT

    @spelt_out(DesignSettings)
    def __init__(
        self,
        design: str | Path | Design = DESIGN,
        platform: str | Path | Platform | None = None,
        *,
        delivery: str | Delivery | None = None,
        faults: Faults | None = None,
        host: HostSize | None = None,
        size: PortSize | None = None,
        pairs: int = PAIRS,
        keep_log: int = 0,
        **settings: Unpack[DesignSettings],
    ) -> None:
        """``pairs``: queue pairs, at most; else as a ``PortCluster`` is given it."""
        size = SIZE if size is None else size
        self.pairs = pairs
        size = msgspec.structs.replace(size, channels=OWN_PORTS + pairs + WAYS)
        super().__init__(
            design,
            platform or (PLATFORMS.get(design) if isinstance(design, str) else None),
            nodes=1,
            delivery=delivery,
            faults=faults,
            host=HOST if host is None else host,
            size=size,
            ports=pairs,
            transport=TRANSPORT,
            keep_log=keep_log,
            **settings,
        )

    def begun(self) -> Simulation:
        """The node, on which nothing has happened."""
        simulation = self._simulation([0], [1])
        simulation.machine.ports.rules["key_bits"] = KEY_BITS
        return simulation
