"""Simulated memory as arrays: what is read is what is there now, what is written is there at once.

Pages of a simulated host come and go, share frames and are swapped, so no NumPy array stays over
them.  A view looks a page up whenever it is read or written, as a program's loads and stores do,
and takes no virtual time: it is for filling and checking memory.  ``write`` and ``read`` of a
buffer are the program's own stores and loads, whose time is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import DTypeLike, NDArray


class View:
    """A buffer as a one-dimensional array of a NumPy type; ``buffer.array(dtype)`` gives it."""

    def __init__(
        self,
        byte_count: int,
        dtype: DTypeLike,
        load: Callable[[int, int], bytes],
        store: Callable[[int, bytes], None],
    ) -> None:
        """``load(at, count)`` and ``store(at, bytes)``: of the buffer's bytes, as they are now."""
        try:
            kind = np.dtype(dtype)
        except TypeError:
            raise SimulationError(f"no type of an array's elements: {shown(dtype)}") from None
        if kind.hasobject or kind.itemsize < 1:
            raise SimulationError(f"{kind} has no bytes of its own; take a type of numbers")
        if byte_count % kind.itemsize:
            raise SimulationError(
                f"{byte_count} bytes are no whole number of {kind}, which has {kind.itemsize}; "
                "take a part() of the buffer"
            )
        self.dtype = kind
        self.shape = (byte_count // kind.itemsize,)
        self._load = load
        self._store = store

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy of what is there now."""
        if copy is False:
            raise ValueError("simulated memory can only be copied to an array; see its pages")
        raw = self._load(0, len(self) * self.dtype.itemsize)
        found = np.frombuffer(bytearray(raw), self.dtype)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, SupportsIndex) and not isinstance(which, np.ndarray):
            size = self.dtype.itemsize
            at = self._place(which) * size
            return np.frombuffer(self._load(at, size), self.dtype)[0]
        return np.asarray(self)[which]

    def __setitem__(self, which: Any, values: Any) -> None:
        size = self.dtype.itemsize
        if isinstance(which, SupportsIndex) and not isinstance(which, np.ndarray):
            one = np.empty(1, self.dtype)
            one[0] = values
            self._store(self._place(which) * size, one.tobytes())
            return
        if isinstance(which, slice) and which.indices(len(self))[2] == 1:
            first, last, _ = which.indices(len(self))
            several = np.empty(max(0, last - first), self.dtype)
            several[:] = values
            if len(several):
                self._store(first * size, several.tobytes())
            return
        whole = np.array(self)
        whole[which] = values
        self._store(0, whole.tobytes())

    def _place(self, which: SupportsIndex) -> int:
        """Which element is meant.  Errors: ``IndexError`` if there is none such."""
        try:
            return range(len(self))[which]
        except IndexError:
            raise IndexError(
                f"no element {which}: there are {len(self):,} of {self.dtype}"
            ) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"View of {len(self):,} {self.dtype}"
