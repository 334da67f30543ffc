"""An open NIC: every call of VIPL, on a machine whose NIC serves VIs as ports.

``VipPostSend`` is ``post_send``, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.completions import Completions
from nicscope.interfaces.via.library import Library
from nicscope.interfaces.via.posting import Posting

if TYPE_CHECKING:
    from nicscope.interfaces.via.agent import Agent
    from nicscope.interfaces.via.places import Descriptors
    from nicscope.interfaces.via.space import Space


class Nic(Posting, Completions, Library):
    """An open NIC, as one program on its node has it."""

    _agent: Agent
    _space: Space

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        cluster = agent.cluster
        self._mechanism = cluster.mechanism
        self._mtu, self._longest = cluster.settings.mtu, cluster.settings.max_transfer
        self._most_segments = cluster.size.segments

    async def descriptors(self, tag: int, count: int = 64, segments: int = 2) -> Descriptors:
        """Fresh registered memory for ``count`` descriptors of up to ``segments`` segments."""
        places = await super().descriptors(tag, count, segments)
        region = places._region
        self._words.place(region.address, region.length, self._memory.page_size)
        return places
