"""Diffs: the words of a page in which a copy differs from its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.apps.svm.layout import WORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUN_HEAD = 8  # bytes of a message for each run of words: where it begins, and how many


class Diff(NamedTuple):
    """What a page's home is told: ``words`` of the page, rising, and their new ``values``."""

    page: int
    words: NDArray[np.int64]
    values: NDArray[np.uint32]
    pid: int = 0  # on its node, of the process that wrote them

    @property
    def first_byte(self) -> int:
        """Of the page: where its first word lies."""
        return int(self.words[0]) * WORD

    @property
    def message_bytes(self) -> int:
        """What it takes as a message: each word, and a head for each run of words."""
        runs = 1 + int(np.count_nonzero(np.diff(self.words) != 1))
        return WORD * len(self.words) + RUN_HEAD * runs

    def apply(self, memory: NDArray[np.uint8]) -> None:
        """Have it in ``memory``, whose rows are pages."""
        self.apply_to(memory[self.page])

    def apply_to(self, copy: NDArray[np.uint8]) -> None:
        """Have it in ``copy``, which is of its page."""
        copy.view(np.uint32)[self.words] = self.values


def diff_of(
    page: int,
    copy: NDArray[np.uint8],
    twin: NDArray[np.uint8],
    mask: NDArray[np.bool_] | None = None,
    pid: int = 0,
) -> Diff | None:
    """What of ``copy`` is not as in ``twin``, both of one page; None if all of it is.

    ``mask``: the words that count, which ``pid`` may have written; None: all.
    """
    now = copy.view(np.uint32)
    differs = now != twin.view(np.uint32)
    words = np.flatnonzero(differs if mask is None else differs & mask)
    return Diff(page, words, now[words], pid) if len(words) else None
