"""Arrays of numbers in a process's simulated memory, and pieces of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.collectives.wire import Wire

OPERATIONS: dict[str, Callable[..., Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Piece(NamedTuple):
    """Some bytes of an array."""

    whole: Any  # the buffer of the array
    at: int
    length: int

    @property
    def buffer(self) -> Any:
        """The same as a buffer of the interface."""
        return self.whole.part(self.at, self.length)


class HostArray:
    """``count`` numbers, anywhere in the memory of one process."""

    def __init__(self, wire: Wire, count: int, dtype: Any, past: int = 0) -> None:
        """``past``: bytes between the begin of a page and the array."""
        self.wire = wire
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.count = count
        length = count * self.dtype.itemsize
        self._buffer = wire.allocate(past + length).part(past, length)

    def part(self, first: int, last: int) -> Piece:
        """The numbers from ``first`` to before ``last``."""
        size = self.dtype.itemsize
        return Piece(self._buffer, first * size, (last - first) * size)

    @property
    def all(self) -> Piece:
        """All of it."""
        return self.part(0, self.count)

    def seen(self) -> NDArray[Any]:
        """A copy of what is there, which takes no virtual time: for checks."""
        return np.array(self._buffer.array(self.dtype)) if self.count else np.empty(0, self.dtype)

    def fill(self, values: NDArray[Any]) -> None:
        """Have ``values`` stand there, which takes no virtual time."""
        if self.count:
            self._buffer.array(self.dtype)[:] = values


class Arithmetic(NamedTuple):
    """How numbers are put together, and what that takes."""

    operation: str = "sum"
    ns_per_byte: float = 0.0  # of the processor, beside its loads and stores

    async def combine(self, wire: Wire, dtype: Any, left: Piece, right: Piece, into: Piece) -> None:
        """Have ``into`` hold ``left`` op ``right``, number by number."""
        if not into.length:
            return
        several = [np.frombuffer(await wire.load(one.buffer), dtype) for one in (left, right)]
        if self.ns_per_byte:
            await wire.compute(self.ns_per_byte * into.length / 1000)
        await wire.store(into.buffer, OPERATIONS[self.operation](*several).tobytes())


def bounds(count: int, parts: int) -> list[int]:
    """Where each of ``parts`` parts of ``count`` things begins, and the last ends.

    The first ones have one more than the others where they cannot all be equal.
    """
    each, more = divmod(count, parts)
    return [part * each + min(part, more) for part in range(parts + 1)]
