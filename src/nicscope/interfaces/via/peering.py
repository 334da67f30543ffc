"""The calls of VIPL by which two programs connect as equals (``VipConnectPeer...``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.via.names import Return, State, VipError
from nicscope.interfaces.via.numbers import a_name, whole
from nicscope.interfaces.via.peers import Peering, too_late
from nicscope.interfaces.via.program import Program
from nicscope.interfaces.via.vi import Vi

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint
    from nicscope.interfaces.via.vi import Attributes


class Peers(Program):
    """Calls that both sides make."""

    async def connect_peer_request(
        self,
        vi: Vi,
        discriminator: str,
        node: int,
        remote_discriminator: str,
        timeout_us: float | None = None,
    ) -> None:
        """Begin to connect ``vi`` with one of ``node``, and do not wait for it.

        It has to ask for this one with the same discriminators, exchanged.
        Errors: ``VIP_INVALID_STATE``, ``VIP_NOT_REACHABLE``.
        """
        self._enter()
        known: Endpoint = self._owner.record_of(vi, Vi)
        there = whole(node, "a node", LEAST)
        wanted = a_name(discriminator), there, a_name(remote_discriminator)
        await self._agent.peer_request(Peering(known, wanted, self._latest(timeout_us)))

    async def connect_peer_done(self, vi: Vi) -> Attributes | None:
        """What the other end has, once there is one; None as long as it has not asked.

        Errors: ``VIP_INVALID_STATE`` if nothing was asked for; ``VIP_TIMEOUT``; in which the two
        ends differ: ``VIP_INVALID_RELIABILITY_LEVEL``, ``..._MTU``, ``..._QOS``.
        """
        self._enter()
        known = self._owner.record_of(vi, Vi)
        await self._agent.call()
        return self._outcome(known, self._asked_by(known))

    async def connect_peer_wait(self, vi: Vi) -> Attributes:
        """The same, when it is known.  Errors: as ``connect_peer_done``."""
        self._enter()
        known = self._owner.record_of(vi, Vi)
        peering = self._asked_by(known)
        await self._agent.call()
        while (outcome := self._outcome(known, peering)) is None:
            await peering.answered.hear(self._process, peering.latest)
        return outcome

    def _asked_by(self, vi: Endpoint) -> Peering:
        if vi.peering is None:
            raise VipError(
                Return.VIP_INVALID_STATE, f"VI {vi.number} has not asked (connect_peer_request)"
            )
        return vi.peering

    def _outcome(self, vi: Endpoint, peering: Peering) -> Attributes | None:
        if peering.is_late(self._driven.now):
            self._agent.forget_peering(vi)
            raise too_late(peering)
        if peering.failure is None and vi.state is State.VIP_STATE_CONNECT_PENDING:
            return None
        vi.peering = None
        if peering.failure is not None:
            raise peering.failure
        assert vi.joined is not None
        return vi.joined.attributes
