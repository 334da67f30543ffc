"""Write notices: which domain wrote which pages in which of its intervals, and who knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


class Notices:
    """Of all domains.  A clock is, for each domain, how many of its intervals one knows."""

    def __init__(self, domains: int) -> None:
        self.clocks = np.zeros((domains, domains), np.int64)
        self._intervals: list[list[NDArray[np.int64]]] = [[] for _ in range(domains)]
        self._forgotten = np.zeros(domains, np.int64)  # intervals that everybody knows

    def end_interval(self, domain: int, pages: Iterable[int]) -> None:
        """What ``domain`` wrote since its last interval: it is over, unless that is nothing."""
        written = np.array(sorted(pages), np.int64)
        if len(written):
            self._intervals[domain].append(written)
            self.clocks[domain, domain] += 1

    def learn(self, domain: int, clock: NDArray[np.int64]) -> NDArray[np.int64]:
        """Have ``domain`` know what ``clock`` does; the pages that others wrote, rising."""
        news = [np.empty(0, np.int64)]
        for writer, (known, told) in enumerate(zip(self.clocks[domain], clock, strict=True)):
            if writer != domain and told > known:
                gone = self._forgotten[writer]
                news += self._intervals[writer][known - gone : told - gone]
        self.clocks[domain] = np.maximum(self.clocks[domain], clock)
        return np.unique(np.concatenate(news))

    def forget(self) -> None:
        """Drop the intervals that every domain knows."""
        known = self.clocks.min(axis=0)
        for writer, intervals in enumerate(self._intervals):
            del intervals[: int(known[writer] - self._forgotten[writer])]
        self._forgotten = known
