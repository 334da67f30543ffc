"""Completions that a completion queue announces, and those of them that were taken before."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec


class Announced:
    """The entries of one queue that are written and not read."""

    def __init__(self, entries: int) -> None:
        self.entries = entries
        self.written = 0
        self.read = 0
        self._noted: deque[_Entry] = deque()

    def _note(self, vi: Any, queue: int) -> None:
        """The NIC has written an entry."""
        self._noted.append(_Entry(vi, queue))
        self.written += 1

    def _take(self) -> tuple[Any, int]:
        """The oldest entry, which there is: whose completion it announces."""
        entry = self._noted.popleft()
        self.read += 1
        entry.vi.announced[entry.queue] += 1
        self._pass_spent()
        return entry.vi, entry.queue

    def _spend(self, vi: Any, queue: int) -> None:
        """A completion is taken off its work queue: its entry announces nothing any more."""
        if vi.announced[queue]:
            vi.announced[queue] -= 1
            return
        for entry in self._noted:
            if entry.vi is vi and entry.queue == queue and not entry.spent:
                entry.spent = True
                break
        self._pass_spent()

    def _pass_spent(self) -> None:
        while self._noted and self._noted[0].spent:
            self._noted.popleft()
            self.read += 1


class _Entry(msgspec.Struct, eq=False):
    """Of a completion queue."""

    vi: Any  # with ``announced``: by work queue, entries taken before their completions
    queue: int
    spent: bool = False  # the completion was taken off the work queue itself
