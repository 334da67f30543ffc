"""A process on a host whose NIC serves VIs, as its NIC and its kernel agent call it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.ports import process as ports
from nicscope.interfaces.via.names import Return, VipError
from nicscope.nic.ports.layout import SENT

if TYPE_CHECKING:
    from nicscope.drivers.simulate.programs import Process as Driven
    from nicscope.interfaces.vipl.cluster import Cluster


class Process(ports.Process):
    """A process, with VIPL's errors."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, driven: Driven, number: int) -> None:
        super().__init__(cluster, driven, number)
        refused = partial(VipError, Return.VIP_INVALID_PARAMETER)
        self._owner = Owner(self._owner.name, cluster.simulation, driven, refused)

    def reports(self, port: int, ring: int) -> int:
        """How many reports of a port the process can see and has not taken."""
        record: Any = self._ports.table[self.node, port]
        taken = int(record["reaped" if ring == SENT else "read"])
        if self._windows is not None:
            return int(self._machine.bus.shown[self.node, port, ring]) - taken
        return int(record["reported" if ring == SENT else "received"]) - taken
