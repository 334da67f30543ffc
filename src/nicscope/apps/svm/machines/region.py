"""A domain's shared memory in simulated memory, beside the copy that its programs work on.

When what they wrote has to be seen, and when they are told of others' writes, ``agree`` has both
hold the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.svm.domain import POISON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import Domain
    from nicscope.interfaces.ports.buffers import Buffer


class Region:
    """The pages of one domain."""

    def __init__(self, domain: Domain, buffer: Buffer) -> None:
        self.buffer = buffer
        self.page_bytes = domain.memory.shape[1]
        self._domain = domain
        self._agreed = np.zeros_like(domain.memory)  # what both held when they last agreed
        for page in np.flatnonzero(domain.memory.any(axis=1)).tolist():
            self.give(page)

    def agree(self, page: int) -> None:
        """Give the machine what the program wrote in ``page``, and the program what came there."""
        there = self._array(page)
        came, wrote = np.asarray(there).view(np.uint32), self._domain.memory[page].view(np.uint32)
        agreed = self._agreed[page].view(np.uint32)
        has_come = came != agreed
        wrote[has_come] = came[has_come]
        agreed[:] = wrote
        there[:] = self._domain.memory[page]

    def spoil(self, page: int) -> None:
        """Have the machine hold what nobody wrote, so that what is not delivered is not read."""
        self._array(page)[:] = np.full(self.page_bytes, POISON, np.uint8)

    def take(self, page: int) -> None:
        """Give the program the whole page as it has come."""
        self._domain.memory[page] = np.asarray(self._array(page))
        self._agreed[page] = self._domain.memory[page]

    def give(self, page: int) -> None:
        """Give the machine the whole page as the program has it."""
        self._array(page)[:] = self._domain.memory[page]
        self._agreed[page] = self._domain.memory[page]

    def put_words(self, page: int, words: NDArray[np.int64], values: NDArray[np.uint32]) -> None:
        """Have ``values`` stand in words of a page, as a diff that has come says."""
        whole = np.asarray(self._array(page)).view(np.uint32)
        whole[words] = values
        self._array(page)[:] = whole.view(np.uint8)

    def copy_page(self, page: int, source: Region) -> None:
        """Have the page as it is in another region of the same node's memory."""
        self._array(page)[:] = np.asarray(source._array(page))

    def part(self, page: int) -> Buffer:
        """The page's stretch of simulated memory."""
        return self.buffer.part(page * self.page_bytes, self.page_bytes)

    def _array(self, page: int) -> Any:
        return self.part(page).array()
