"""A program's small allocations, in pages that the node's memory gives."""

from __future__ import annotations

from typing import Any

PAGE = 4096
LEAST = 16
ARENA_PAGES = 16


class Heap:
    """Blocks of powers of two up to half a page; what is larger has pages of its own."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}  # of each block that is allocated, by its address

    def allocate(self, size: int, alignment: int = LEAST) -> int:
        """The address of ``size`` zeroed bytes at a multiple of ``alignment``, at most a page's."""
        room = LEAST
        while room < max(size, alignment):
            room *= 2
        if room > PAGE // 2:
            length = -(-max(size, 1) // PAGE) * PAGE
            address = int(self._device.map(length))
            self._sizes[address] = length
            return address
        free = self._free.setdefault(room, [])
        if not free:
            start = int(self._device.map(ARENA_PAGES * PAGE))
            free.extend(range(start + ARENA_PAGES * PAGE - room, start - room, -room))
        address = free.pop()
        self._sizes[address] = room
        self._device.write(address, bytes(room))
        return address

    def release(self, address: int) -> bool:
        """Give a block back; False where there is none."""
        size = self._sizes.pop(address, None)
        if size is None:
            return False
        if size > PAGE // 2:
            self._device.unmap(address, size)
        else:
            self._free[size].append(address)
        return True
