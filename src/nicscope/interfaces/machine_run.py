"""What every interface on the simulated machine reports alike: shares of engines, and the log."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.drivers.simulate import machine as doing
from nicscope.drivers.simulate.log import Engine, Task
from nicscope.interfaces.run_log import RunLog, Stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.run_report import Names

WAY = (
    Stop(Engine.HOST_WRITE),
    Stop(Engine.HOST_TX),
    Stop(Engine.NET_TX),
    Stop(Engine.NET_RCV),
    Stop(Engine.HOST_RCV),
    Stop(Engine.HOST_READ),
)
ACTIONS = {
    Engine.FIRMWARE: {int(task): task.name for task in Task},
    Engine.CPU: {
        doing.COPYING: "copy",
        doing.COMPUTING: "compute",
        doing.POSTING: "post",
        doing.POLLING: "take a report",
        doing.ACCESSING: "load or store",
        doing.INTERRUPTED: "interrupt",
        doing.IN_TRAP: "trap",
        doing.IN_MISS: "miss in the kernel",
    },
}


class MachineRun:
    """A run on ``machine``, as far as it does not matter which interface it served."""

    def __init__(self, machine: Machine, names: Names) -> None:
        self._machine = machine
        self.names = names
        self.remarks: list[str] = []

    @property
    def run(self) -> object:
        """What is one and the same for all that is told of one run, which may go on."""
        return self._machine

    @property
    def elapsed_ps(self) -> int:
        """When the last thing happened."""
        return int(self._machine.tally[0]["now"])

    @property
    def events(self) -> int:
        """How many events the driver has fired."""
        return int(self._machine.tally[0]["events"])

    def log(self) -> RunLog:
        """What every engine did when, as far as it was kept."""
        total = int(self._machine.tally[0]["log"])
        records = self._machine.log[:total].copy()
        _begin_when_bytes_come(records)
        return RunLog(records, total, ACTIONS, self._packets(), WAY)

    def _packets(self) -> Mapping[tuple[int, int], str]:
        return {}

    def _engines(self, n: int) -> dict[str, Any]:
        """What a node's report says of its programs, and of its engines' shares of the time."""
        node, elapsed = self._machine.nodes[n], max(self.elapsed_ps, 1)
        return {
            "node": n,
            "programs": int(node["last_process"] - node["first_process"]),
            "cpu_share": int(node["cpu_busy"]) / elapsed,
            "nic_share": int(node["processor_busy"]) / elapsed,
            "bus_share": int(node["pci_busy"]) / elapsed,
            "link_share": int(node["link_busy"]) / elapsed,
        }

    def _made(self, n: int) -> dict[str, int]:
        """What a node's report says of packets that it made and nobody has heard of."""
        endpoint = self._machine.endpoints[n]
        left = int(endpoint["sent"]) + int(endpoint["control_sent"])
        unheard = int(self._machine.nodes[n]["unheard"])
        return {"waiting": int(endpoint["written"]) - left, "unheard": unheard}


def _begin_when_bytes_come(records: NDArray[Any]) -> None:
    """Let receives begin with what they receive: they are posted long before, for any packet."""
    packet = itemgetter("sender", "packet", "control")
    first: dict[tuple[int, ...], int] = {}
    for record in records[records["engine"] == Engine.NET_TX]:
        first.setdefault(packet(record), record["start"])
    for place in np.flatnonzero(records["engine"] == Engine.NET_RCV):
        begun = first.get(packet(records[place]), 0)
        records["start"][place] = max(int(records["start"][place]), begun)
