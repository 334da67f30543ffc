"""Table indices instead of pages, for caches that are keyed by them (UTLB 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.onepass.distance import NEVER
from nicscope.drivers.translation.build import OFFSET_STEP
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TableIndices:
    """The indices that a host's user libraries give pages: each process's in order of first use.

    So long as no page is unpinned, and none is pinned before it is asked for.
    """

    def __init__(self, processes: int) -> None:
        offsets = (np.arange(processes) * OFFSET_STEP).astype(np.uint32)
        self._order = np.argsort(offsets)
        self._offsets = offsets[self._order]
        self._index_of = np.full(1024, NEVER)
        self._taken = np.zeros(processes, np.uint32)

    def of(
        self, numbers: NDArray[np.uint32], spread: NDArray[np.uint32], plain: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Index of each page of ``numbers``, plus the offset of its process.

        That is by how much the set indices ``spread`` and ``plain`` differ; it tells whose it is.
        """
        most = int(numbers.max(initial=0)) + 1
        if most > len(self._index_of):
            larger = np.full(2 * most, NEVER)
            larger[: len(self._index_of)] = self._index_of
            self._index_of = larger
        offset = spread - plain
        process = self._order[np.searchsorted(self._offsets, offset)]
        give_indices(numbers, process, self._index_of, self._taken)
        found: NDArray[np.uint32] = self._index_of[numbers] + offset
        return found


@kernel
def give_indices(numbers, process, index_of, taken):
    """Give each page that has none the next index of its process."""
    for i in range(numbers.size):
        if index_of[numbers[i]] == NEVER:
            index_of[numbers[i]] = taken[process[i]]
            taken[process[i]] += np.uint32(1)
