"""miNI's caches of handles as the paper has them (IV): sets by the low bits, LRU, read only."""

from __future__ import annotations


class HandleCache:
    """One cache; what it holds of a handle is whatever the host's table had when it was filled."""

    def __init__(self, entries: int, ways: int) -> None:
        self.sets: list[list[tuple[object, int]]] = [[] for _ in range(entries // ways)]
        self.ways = ways
        self.content: dict[tuple[object, int], object] = {}

    def look_up(self, kind: object, number: int) -> object | None:
        """What is held of the handle, now the most recent of its set; None if nothing is."""
        held = self.sets[number % len(self.sets)]
        if (kind, number) not in held:
            return None
        held.remove((kind, number))
        held.append((kind, number))
        return self.content[kind, number]

    def fill(self, kind: object, number: int, record: object) -> None:
        """Copy ``record`` in; the least recent of a full set vanishes."""
        held = self.sets[number % len(self.sets)]
        if (kind, number) in held:
            return
        if len(held) == self.ways:
            held.pop(0)
        held.append((kind, number))
        self.content[kind, number] = record

    def forget(self, kind: object, number: int) -> None:
        """Drop the copy, if there is one."""
        held = self.sets[number % len(self.sets)]
        if (kind, number) in held:
            held.remove((kind, number))
