"""Misses in four, as U-Net/MM's Figure 3 parts them: by path, and whether they are compulsory."""

from __future__ import annotations

import msgspec

PATHS = ("send", "receive")


class MissesInFour(msgspec.Struct, frozen=True):
    """What a workload's lookups found in a table of so many entries."""

    workload: str
    entries: int
    counts: dict[str, int]  # sums over nodes
    pages: int  # that messages used, on the node that used most

    def misses(self, path: str, compulsory: bool) -> int:
        """One of the four ways to miss."""
        first = self.counts[f"ni_misses_{path}_compulsory"]
        return first if compulsory else self.counts[f"ni_misses_{path}"] - first

    def percent(self, path: str, compulsory: bool) -> float:
        """The same in percent of all lookups."""
        return 100 * self.misses(path, compulsory) / self.counts["lookups"]

    @property
    def noncompulsory(self) -> tuple[int, ...]:
        """Misses that are not compulsory, when sending and when receiving."""
        return tuple(self.misses(path, compulsory=False) for path in PATHS)

    def in_four(self) -> str:
        """One line: misses in percent of lookups, not compulsory and compulsory, on each path."""
        parts = []
        for path in PATHS:
            others, first = (self.percent(path, compulsory) for compulsory in (False, True))
            parts.append(f"{path} {others:.2f}+{first:.2f}")
        return f"{self.workload} (entries={self.entries}, pages={self.pages}) {', '.join(parts)} %"
