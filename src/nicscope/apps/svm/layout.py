"""Where shared arrays lie in the shared address space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

PAGE = 4096  # bytes
WORD = 4  # bytes: what a diff tells apart


@dataclass(frozen=True, eq=False)
class SharedArray:
    """An array in shared memory: ``first`` is its first byte in the shared address space."""

    name: str
    first: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    page_bytes: int

    @property
    def byte_count(self) -> int:
        """Its length."""
        return math.prod(self.shape) * self.dtype.itemsize

    def in_bytes(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        """The array as it stands in ``memory``, a copy of the shared address space."""
        part = memory.reshape(-1)[self.first : self.first + self.byte_count]
        return part.view(self.dtype).reshape(self.shape)

    def pages(self, begin: int, end: int) -> NDArray[np.int64]:
        """The pages of its elements ``begin`` to ``end``, counted through all its axes."""
        size = self.dtype.itemsize
        first = (self.first + begin * size) // self.page_bytes
        last = (self.first + end * size - 1) // self.page_bytes
        return np.arange(first, last + 1, dtype=np.int64)

    def pages_of_elements(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pages of some elements of its one axis, in that order, often more than once."""
        size = self.dtype.itemsize
        first = self.first + elements * size
        if self.page_bytes % size == 0:  # none lies in two
            return first // self.page_bytes
        return np.stack([first, first + size - 1], axis=1).ravel() // self.page_bytes

    def pages_of_each_row(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pages of some of its rows, row by row."""
        width = math.prod(self.shape[1:]) * self.dtype.itemsize
        begins = self.first + rows * width
        first, last = begins // self.page_bytes, (begins + width - 1) // self.page_bytes
        many = last - first + 1
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        return np.asarray(np.repeat(first, many) + within)

    def pages_of_rows(self, rows: range, columns: range) -> NDArray[np.int64]:
        """The pages of a block of a matrix, row by row; each once in a row."""
        width = math.prod(self.shape[1:])
        runs = [self.pages(row * width + columns.start, row * width + columns.stop) for row in rows]
        return np.concatenate(runs) if runs else np.empty(0, np.int64)


class Layout:
    """Arrays side by side, each from a page's begin on."""

    def __init__(self, page_bytes: int = PAGE) -> None:
        if page_bytes < WORD or page_bytes & (page_bytes - 1):
            raise SimulationError(f"a page has a power of two of bytes, not {page_bytes}")
        self.page_bytes = page_bytes
        self.arrays: dict[str, SharedArray] = {}
        self._used = 0

    @property
    def pages(self) -> int:
        """How many there are."""
        return -(-self._used // self.page_bytes)

    def array(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64
    ) -> SharedArray:
        """A new array; what nobody has written in it is zero.

        Errors: ``SimulationError`` for a name twice, no elements, or elements of no whole words.
        """
        kind = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if name in self.arrays:
            raise SimulationError(f"there is a shared array {name!r} already")
        if not sizes or min(sizes) < 1:
            raise SimulationError(f"shared array {name!r}: shape {sizes} has no elements")
        if kind.itemsize % WORD or kind.hasobject:
            raise SimulationError(
                f"shared array {name!r}: elements of {kind} are not whole words of {WORD} bytes"
            )
        first = self.pages * self.page_bytes
        made = SharedArray(name, first, sizes, kind, self.page_bytes)
        self.arrays[name] = made
        self._used = first + made.byte_count
        return made
