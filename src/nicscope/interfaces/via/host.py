"""What a program is given: its node, on which it may open the NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.agent import Agent
from nicscope.interfaces.via.nic import Nic

if TYPE_CHECKING:
    from nicscope.interfaces.via.process import Process


class Host:
    """A process's view of its host."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._agent = Agent(process)

    def __repr__(self) -> str:
        return f"<Host of {self._process._owner.place}, VIA>"

    @property
    def node(self) -> int:
        """Its number."""
        return self._process.node

    async def open_nic(self) -> Nic:
        """The node's NIC (``VipOpenNic``)."""
        self._process._owner.check_caller()
        await self._agent.call()
        self._agent.opened += 1
        return Nic(self._agent)
