"""Hosts whose NICs look handles up in caches, or, to compare, hold static tables.

async def pong(end: Endpoint) -> None:
    region = await end.register(end.allocate(4096), name="inbox")
    print((await end.stored()).length)

cluster = Cluster()
cluster.start(0, ping)
cluster.start(1, pong)
cluster.run()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import msgspec

from nicscope.config.delivery import Transport
from nicscope.config.design import chosen_design
from nicscope.config.scheme import Scheme
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.interfaces.arguments import checked_host
from nicscope.interfaces.mini.directory import Directory
from nicscope.interfaces.mini.endpoint import Endpoint
from nicscope.interfaces.mini.memory import check_fits, nic_memory
from nicscope.interfaces.options import SharedOptions, spelt_out
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.programs import Simulation

PLATFORM = "mini-cluster"
# Assumed: the papers give no value.  The longest penalty that miNI calls usual is 50 + 500 us, so
# that what misses has its entries when it comes again: a miss costs one retransmission.
TIME_OUT_PS = 600_000_000
# Chosen: registered and opened buffers of a node that static tables on its NIC have room for.
BUFFERS = 4096


class Cluster(PortCluster[Endpoint]):
    """Hosts on one switch, and processes with registered buffers on them."""

    interface = "miNI"
    given = "endpoint"
    process_type = Endpoint
    transport = Transport(time_out_ps=TIME_OUT_PS, remaps=False)  # the paper has one path

    @spelt_out(SharedOptions)
    def __init__(
        self,
        design: str | Path | Design = "mini",
        platform: str | Path | Platform | None = PLATFORM,
        **options: Unpack[SharedOptions],
    ) -> None:
        """``design``: of scheme handle, or static for the baseline; ``options`` as ``PortCluster``.

        Errors: ``DesignError`` for other schemes, and as ``PortCluster``.
        """
        chosen = chosen_design(design, {})
        room = options.get("size")
        if room is None:
            room = PortSize(longest=checked_host(options.get("host")).pages_per_space)
            if options.get("scheme", chosen.scheme) != Scheme.HANDLE:
                room = msgspec.structs.replace(room, exports=BUFFERS, imports=BUFFERS)
        options["size"] = room
        super().__init__(chosen, platform, **options)
        self._directory: Directory | None = None

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        check_fits(simulation.machine, self.platform, hosts)
        self._directory = Directory(simulation.machine)
        return simulation

    @property
    def is_dynamic(self) -> bool:
        """Whether handles are looked up in caches."""
        return self.design.scheme is Scheme.HANDLE

    @property
    def directory(self) -> Directory:
        """What the drivers know; there once ``run`` has begun."""
        assert self._directory is not None
        return self._directory

    @ToldPlainly()
    def nic_memory(self, node: int) -> dict[str, int]:
        """Bytes of each structure on the NIC of ``node``, as it has run."""
        return nic_memory(self._ran().machine, self._node(node))
