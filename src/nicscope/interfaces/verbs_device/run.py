"""What a run of programs of verbs is told from: packets are named by who posted them, and what."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.log import Engine
from nicscope.drivers.simulate.machine import COMPUTING, POSTING
from nicscope.interfaces.machine_run import ACTIONS
from nicscope.interfaces.ports.report import KINDS, PortsRun
from nicscope.interfaces.verbs_device import codes
from nicscope.nic.ports.layout import ACKNOWLEDGEMENT, OWN_PORT, REPLY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.interfaces.run_log import RunLog
    from nicscope.interfaces.verbs_device.device import Device

CALLS = {COMPUTING: "system call or poll", POSTING: "post"}


class VerbsRun(PortsRun):
    """A run whose ports were queue pairs'."""

    devices: Sequence[Device] = ()  # one to each node

    def log(self) -> RunLog:
        """What every engine did when; what the CPU does is what verbs are called."""
        actions = {**ACTIONS, Engine.CPU: {**ACTIONS[Engine.CPU], **CALLS}}
        return super().log()._replace(actions=actions)

    def _packets(self) -> Mapping[tuple[int, int], str]:
        ports = self._machine.ports
        made = ports.happenings[: ports.happened[0]]
        return {
            (int(one["sender"]), int(one["number"])): self._called(one)
            for one in made[made["came"] == 0]
        }

    def _called(self, made: Any) -> str:
        """A packet by its queue pair, its opcode and the program's own number for it."""
        kind, port = int(made["kind"]), int(made["port"])
        what = KINDS.get(kind, "packet")
        if not OWN_PORT <= int(made["of"]) < len(self.devices):
            return what
        device = self.devices[int(made["of"])]
        whose = f"node {int(made['of'])} QP" if len(self.devices) > 1 else "QP"
        posted = device.posted.get(int(made["cookie"]))
        if posted is not None:
            answers = " answer" if kind == REPLY else ""
            name = codes.NAMES[posted.opcode]
            return f"{whose} {posted.qp_num:#x} {name}{answers}, wr_id {posted.wr_id}"
        number = _holder(device.held, port, int(made["time"]))
        if number is None:
            return what
        return f"{whose} {number:#x} {'ACK' if kind == ACKNOWLEDGEMENT else what}"


def _holder(held: Mapping[int, list[tuple[int, int]]], port: int, time: int) -> int | None:
    """The queue pair that had a port then, of those that have had it since when."""
    several = held.get(port, [])
    place = bisect_right(several, time, key=lambda one: one[0])
    return several[place - 1][1] if place else None
