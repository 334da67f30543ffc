"""A VMMC cluster: NICs under one of the UTLBs or their baselines, and what has been exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from nicscope.config.design import Design, Scheme, Transport
from nicscope.config.platform import Platform, program_costs
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.interfaces.arguments import checked_host
from nicscope.interfaces.mini.memory import check_fits
from nicscope.interfaces.options import SharedOptions, with_named_options
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.vmmc.directory import Directory
from nicscope.interfaces.vmmc.endpoint import Endpoint
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.drivers.simulate.programs import Simulation


class Cluster(PortCluster[Endpoint]):
    """Hosts with VMMC; programs on them get an ``Endpoint``."""

    interface = "VMMC"
    given = "endpoint"
    process_type = Endpoint
    # Assumed: no time-out or count is printed.  A way on which nothing came through for 41 ms is
    # given up; a receiver whose page or table has to come from the disk first takes 22 ms.
    transport = Transport(most_retries=40)
    garbage = True

    @with_named_options(SharedOptions)
    def __init__(
        self,
        design: str | Path | Design = "utlb",
        platform: str | Path | Platform | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        """``options`` as of ``PortCluster``; a design's settings are among them: ``pin_limit=64``.

        Errors: ``DesignError`` for a design that is not VMMC's or a setting that it does not have.
        """
        host = checked_host(options.get("host"))
        options["size"] = options.get("size") or PortSize(longest=host.pages_per_space)
        super().__init__(design, platform, **options)
        tables = program_costs(self.platform, self.design.scheme).tables
        self.check_ps = tables["request_check_min"], tables["request_check_max"]
        self._directory: Directory | None = None

    @property
    def most_pinned(self) -> int | None:
        """Pages that a process may pin, or None: a table on the NIC has no more entries either."""
        if self.design.scheme is Scheme.UTLB_PROCESS:
            return self.design.entries
        return self.design.pin_limit

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        check_fits(simulation.machine, self.platform, hosts)
        self._directory = Directory(simulation.machine)
        return simulation

    @property
    def directory(self) -> Directory:
        """What is exported and imported; there once ``run`` has begun."""
        assert self._directory is not None
        return self._directory

    @TrimmedTraceback()
    def served(self, node: int) -> dict[str, int]:
        """What the firmware and the kernel of ``node`` have counted, translation aside."""
        record: Any = self._ran().machine.ports.nodes[self._node(node)]
        return {
            name: int(record[name])
            for name in ("interrupts", "rejected", "stale", "garbage", "table_ins", "remaps")
        }
