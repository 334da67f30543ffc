"""Hosts' memories under Trapeze: what is given out, and what incoming payload tables say of it.

Payloads move between aligned buffers anywhere in a host's memory (Trapeze, 2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.delivery import PAYLOAD_ALIGNMENT
from nicscope.drivers.simulate.store import UNMAPPED
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, whole

if TYPE_CHECKING:
    from nicscope.drivers.simulate.store import Store
    from nicscope.interfaces.ownership import Owner

_MOST_ALIGNED = 1 << 30


class HostMemories:
    """What of each host's memory is taken, and whose the entries of its payload table are."""

    def __init__(self, nodes: int, host_bytes: int, tags: int, max_payload: int) -> None:
        self._host_bytes = host_bytes
        self._tags = tags
        self._max_payload = max_payload
        self._used = [0] * nodes
        self._free: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]  # given back, rising
        self.mapped: dict[tuple[int, int], Owner] = {}  # by node and tag
        self.store: Store | None = None  # of the run that goes on

    def allocate(
        self, node: int, byte_count: int, align: int = PAYLOAD_ALIGNMENT
    ) -> tuple[int, int]:
        """Address and length of fresh memory of ``node``, from a multiple of ``align`` on."""
        step = whole(align, "an alignment", 1, _MOST_ALIGNED)
        if step & (step - 1):
            raise SimulationError(f"an alignment must be a power of two, got {step}")
        begin = -(-self._used[node] // step) * step
        left = max(0, self._host_bytes - begin)
        count = whole(byte_count, "a number of bytes", LEAST)
        again = self._again(node, count, step) if count > 0 else None
        if again is not None:
            return again, count
        if not 1 <= count <= left:
            raise SimulationError(
                f"node {node} has {left} bytes of memory left, {count} were asked for; give the "
                "cluster more host_bytes"
            )
        self._used[node] = begin + count
        return begin, count

    def _again(self, node: int, count: int, step: int) -> int | None:
        """Where ``count`` bytes of what was given back begin, if so many are."""
        free = self._free[node]
        for place, (begin, end) in enumerate(free):
            first = -(-begin // step) * step
            if first + count <= end:
                free[place : place + 1] = [
                    each for each in ((begin, first), (first + count, end)) if each[0] < each[1]
                ]
                return first
        return None

    def give_back(self, node: int, address: int, count: int) -> None:
        """That memory is nobody's.  Errors: if a tag leads there."""
        assert self.store is not None
        for tag, begin in enumerate(self.store.payload_table[node].tolist()):
            if (
                begin != UNMAPPED
                and begin < address + count
                and address < begin + self._max_payload
            ):
                raise SimulationError(
                    f"a buffer is not freed while tag {tag} leads there; unmap_payload gives "
                    "it back"
                )
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([*self._free[node], (address, address + count)]):
            if merged and merged[-1][1] == begin:
                begin = merged.pop()[0]
            merged.append((begin, end))
        self._free[node] = merged

    def map_payload(self, owner: Owner, node: int, tag: object, address: int, count: int) -> None:
        """Enter ``owner``'s buffer under ``tag`` in the incoming payload table of ``node``."""
        entry = self._entry(owner, node, tag)
        if count < self._max_payload:
            raise SimulationError(
                f"a mapped buffer must hold the largest payload, {self._max_payload} bytes, "
                f"got {count}"
            )
        check_aligned(address, "a mapped buffer")
        assert self.store is not None
        self.mapped[node, entry] = owner
        self.store.payload_table[node, entry] = address

    def unmap_payload(self, owner: Owner, node: int, tag: object) -> None:
        """Have the entry of ``tag`` be nobody's."""
        entry = self._entry(owner, node, tag)
        if (node, entry) not in self.mapped:
            raise SimulationError(f"tag {entry} of node {node} is not mapped; map_payload maps it")
        assert self.store is not None
        del self.mapped[node, entry]
        self.store.payload_table[node, entry] = UNMAPPED

    def check_free(self, node: int, address: int, count: int) -> None:
        """Refuse, for the receive ring, what is too small or where a tag sends payloads."""
        if count < self._max_payload:
            raise SimulationError(
                f"a buffer for the ring must hold the largest payload, {self._max_payload} bytes, "
                f"got {count}"
            )
        check_aligned(address, "a buffer for the ring")
        assert self.store is not None
        for tag, begin in enumerate(self.store.payload_table[node].tolist()):
            if begin != UNMAPPED and begin < address + count and address < begin + count:
                raise SimulationError(
                    f"a buffer for the ring must not be mapped, and tag {tag} leads there; "
                    "unmap_payload gives it back"
                )

    def _entry(self, owner: Owner, node: int, tag: object) -> int:
        number = whole(tag, "a tag", LEAST)
        if not 0 <= number < self._tags:
            raise SimulationError(f"tag must be from 0 to {self._tags - 1}, got {number}")
        holder = self.mapped.get((node, number), owner)
        if holder is not owner:
            raise SimulationError(
                f"tag {number} of node {node} is {holder.name}'s, not {owner.name}'s; take another"
            )
        return number


def check_aligned(address: int, what: str) -> None:
    """Refuse a buffer that DMA cannot begin at: ``SimulationError``."""
    past = address % PAYLOAD_ALIGNMENT
    if past:
        raise SimulationError(
            f"{what} must begin at a multiple of {PAYLOAD_ALIGNMENT} bytes, where DMA can; this "
            f"one begins {past} past one: allocate() gives aligned memory, so take a part of it "
            "at another offset, or write() what is to be sent into one"
        )
