"""A program on a node as its NIC's library finds it: its memory, its loads and stores, its time.

Times are microseconds of virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.arguments import LEAST, PS_PER_US
from nicscope.interfaces.via.caller import Caller
from nicscope.interfaces.via.names import Return, VipError
from nicscope.interfaces.via.numbers import in_ps, raw_bytes, whole

if TYPE_CHECKING:
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.addresses import AddressSpace, Buffer
    from nicscope.interfaces.via.agent import Agent
    from nicscope.interfaces.via.endpoint import Work
    from nicscope.interfaces.via.journal import Journal


class Program(Caller):
    """What it does by itself."""

    _agent: Agent
    _space: AddressSpace

    def __init__(self, agent: Agent, owner: Owner) -> None:
        """``owner``: the process."""
        self._owner = owner
        self._agent = agent
        self._ni = agent.ni
        self._turns = agent.ni.turns
        self._port = agent.ni.port
        self._space = agent.ni.space
        self._settings = agent.ni.settings

    @property
    def node(self) -> int:
        """Its number."""
        return self._port.number

    @property
    def now_us(self) -> float:
        """Microseconds of virtual time."""
        return self._turns.now / PS_PER_US

    @property
    def now_ps(self) -> int:
        """The same in whole picoseconds."""
        return self._turns.now

    def allocate(self, byte_count: int) -> Buffer:
        """Fresh memory, in whole pages."""
        self._enter()
        return self._space.allocate(self._owner, whole(byte_count, "a number of bytes"))

    async def write(self, address: int, raw: bytes) -> None:
        """Store ``raw`` word by word, through the caches."""
        raw = raw_bytes(raw)
        self._own(address, len(raw))
        runs = self._space.runs(address, len(raw))
        if len(runs) == 1:
            await self._turns.until(self._port.write(runs[0][0], raw, self._turns.now), "write")
            return
        done = 0
        for at, size in runs:
            end = self._port.write(at, raw[done : done + size], self._turns.now)
            await self._turns.until(end, "write")
            done += size

    async def read(self, address: int, byte_count: int) -> bytes:
        """Load that many bytes, through the caches."""
        self._own(address, byte_count)
        parts: list[bytes] = []
        for at, size in self._space.runs(address, byte_count):
            raw, end = self._port.read(at, size, self._turns.now)
            await self._turns.until(end, "read")
            parts.append(raw)
        return b"".join(parts)

    async def compute(self, microseconds: float) -> None:
        """Do something else for a while."""
        self._enter()
        end = self._turns.now + in_ps(microseconds, self._turns.now)
        await self._turns.until(end, "compute")

    async def _flush_buffers(self, work: Work, journal: Journal | None) -> None:
        """Have no line of a receive's buffers in the caches, if the DMA engine passes them by."""
        if not self._port.flushed:
            return
        for one in work.data:
            for at, size in self._space.runs(one.address, one.length):
                end = self._port.clear(at, size, self._turns.now, journal)
                await self._turns.until(end, "flush")

    def _own(self, address: int, byte_count: int) -> None:
        self._enter()
        begin, count = whole(address, "an address", LEAST), whole(byte_count, "a number of bytes")
        if not self._space.holds(self._owner, begin, count):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"{count} bytes at {begin:#x} are not memory of {self._owner.name}",
            )
