"""Which words each process of a domain may have changed in pages that it has a twin of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.svm.layout import WORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLOSED = -1


class Written:
    """A mask of words for each process and page that it writes away from the page's home.

    A node's processes share one copy, so a twin alone cannot tell which of them wrote a word.
    """

    def __init__(self, processes: int, pages: int, page_bytes: int) -> None:
        self._masks_of = np.full((processes, pages), CLOSED, np.int32)
        self._masks = np.zeros((1, page_bytes // WORD), np.bool_)
        self._free = [0]

    def open(self, process: int, page: int) -> None:
        """The process may write the page from now on, no word of it yet."""
        if not self._free:
            many = len(self._masks)
            self._free += range(many, 2 * many)
            self._masks = np.concatenate([self._masks, np.zeros_like(self._masks)])
        self._masks_of[process, page] = self._free.pop()

    def close(self, process: int, page: int) -> NDArray[np.bool_]:
        """It no longer may; what it could have changed since."""
        place = self._masks_of[process, page]
        mask: NDArray[np.bool_] = self._masks[place].copy()
        self._masks[place] = False
        self._masks_of[process, page] = CLOSED
        self._free.append(int(place))
        return mask

    def add_bytes(self, process: int, begin: int, end: int) -> None:
        """It may change ``begin`` to ``end``, of the whole address space."""
        words = self._masks.shape[1]
        first, last = begin // WORD, -(-end // WORD)
        pages = self._masks_of[process, first // words : (last - 1) // words + 1]
        for index in np.flatnonzero(pages != CLOSED).tolist():
            base = (first // words + index) * words
            self._masks[pages[index], max(0, first - base) : last - base] = True

    def add_items(self, process: int, begins: NDArray[np.int64], size: int) -> None:
        """It may change items of ``size`` bytes that begin at ``begins``."""
        if len(self._free) == len(self._masks):  # nobody writes anything away from its home
            return
        words = self._masks.shape[1]
        each = size // WORD
        if each > words:  # more than two pages each
            for begin in begins.tolist():
                self.add_bytes(process, begin, begin + size)
            return
        firsts = begins // WORD
        lasts = firsts + each - 1
        masks = self._masks_of[process]
        is_open = (masks[firsts // words] != CLOSED) | (masks[lasts // words] != CLOSED)
        every = (firsts[is_open, None] + np.arange(each)).ravel()
        places = masks[every // words]
        is_open = places != CLOSED
        self._masks[places[is_open], every[is_open] % words] = True
