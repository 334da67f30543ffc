"""An open NIC: every call of VIPL.

``VipPostSend`` is ``post_send``, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.completions import Completions
from nicscope.interfaces.via.library import Library
from nicscope.interfaces.via.posting import Posting

if TYPE_CHECKING:
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.addresses import AddressSpace
    from nicscope.interfaces.via.agent import Agent


class Nic(Posting, Completions, Library):
    """An open NIC, as one program on its node has it."""

    _agent: Agent
    _space: AddressSpace

    def __init__(self, agent: Agent, owner: Owner) -> None:
        """``owner``: the process."""
        super().__init__(agent, owner)
        settings = agent.ni.settings
        self._mechanism = agent.ni.port.mechanism
        self._mtu, self._longest = settings.mtu, settings.max_transfer
