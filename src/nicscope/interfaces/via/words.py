"""Descriptors' own bytes, which the library and the NIC write where they lie.

A NIC of ports is handed a descriptor with its doorbell, and reports where its rings are; so these
bytes are put into memory when the program loads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.descriptor import STATUS_AT, STATUS_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.interfaces.via.endpoint import Work


class Words:
    """Those of one process that it has not loaded since they were written."""

    def __init__(self) -> None:
        self.works: dict[int, Work] = {}  # by address: the last that was posted from there
        self.pages: set[int] = set()  # where there are places

    def place(self, address: int, length: int, page: int) -> None:
        """Descriptors lie there."""
        self.pages.update(range(address // page, (address + length - 1) // page + 1))

    def are_in(self, address: int, count: int, page: int) -> bool:
        """Whether some lie in that stretch's pages."""
        first, last = address // page, (address + count - 1) // page
        if first == last:  # nearly always
            return first in self.pages
        return any(one in self.pages for one in range(first, last + 1))

    def put(self, write: Callable[[int, bytes], None]) -> None:
        """Have all of them in memory by ``write``."""
        for work in self.works.values():
            raw = work.raw
            if work.ended is not None:
                status, length, immediate = work.ended
                words = STATUS_WORDS.pack(immediate & 0xFFFFFFFF, length, status)
                raw = raw[:STATUS_AT] + words + raw[STATUS_AT + len(words) :]
            write(work.address, raw)
        self.works = {at: work for at, work in self.works.items() if work.ended is None}
