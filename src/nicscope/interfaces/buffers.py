"""Simulated memory as programs hold it: ranges of it, and views of them as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar

import numpy as np

from nicscope.drivers.simulate.bus.state import has_bus
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import raw_bytes, shown, whole
from nicscope.interfaces.ownership import Owned, Owner
from nicscope.kernel.decorators import kernel
from nicscope.memory.coherence.bus import forget as forget_lines
from nicscope.memory.coherence.bus import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import DTypeLike, NDArray

    from nicscope.drivers.simulate.machine import Machine


class Allocation(Owned):
    """One allocation; its owner's table has its bounds."""

    what = "a buffer"
    origin = "allocate()"


class MemoryRange:
    """A range of a process's memory: ``allocate`` and ``part`` return them.

    What it says of itself is believed within the room that it is a part of, if the process that
    uses it has been given that.
    """

    __slots__ = ("address", "length", "room")

    def __init__(self, room: Allocation, address: int, length: int) -> None:
        """For libraries: a room that was made by hand is nobody's."""
        self.room = room
        self.address = address
        self.length = length

    def __repr__(self) -> str:
        whose = self.room._of if isinstance(self.room, Allocation) else "nobody"
        try:
            return f"{type(self).__name__}({self.address:#x}, {self.length} bytes, {whose})"
        except (TypeError, ValueError):  # made by hand, of whatever
            return f"{type(self).__name__}(made by hand)"

    def __len__(self) -> int:
        return self.length

    def part(self, offset: int, count: int) -> Self:
        """``count`` bytes from ``offset`` on, of the same memory."""
        if type(offset) is not int or type(count) is not int:
            offset, count = whole(offset, "an offset"), whole(count, "a number of bytes")
        if offset < 0 or count < 0 or offset + count > self.length:
            raise out_of_range_error(offset, count, self.length)
        return type(self)(self.room, self.address + offset, count)

    async def write(self, content: Any, offset: int = 0) -> None:
        """Store ``content`` from byte ``offset`` on, once no send has still to read there.

        Page faults take their time.  Anything that has bytes, as arrays have, is taken, and
        ``offset`` counts bytes.
        """
        raw = raw_bytes(content)
        owner, memory = owner_of(self)
        address, _ = checked_range(owner, memory, self, offset, len(raw))
        await memory._store_at(address, raw)

    def array(self, dtype: DTypeLike = "uint8") -> View:
        """The same memory as an array that reads the present contents at each access.

        What is stored through it is there at once; neither takes time (``interfaces.buffers``).
        Where a NIC has still to read, nothing is stored: it is refused.
        """
        owner, memory = owner_of(self)
        address, size = checked_range(owner, memory, self)
        return View(size, dtype, *memory._view_accessors(self.room, address))

    async def free(self) -> None:
        """Give the memory back, all that was allocated at once: nothing may name it any more.

        Errors: ``SimulationError`` while a descriptor, a tag, or somebody else, still does.
        """
        owner, memory = owner_of(self)
        await memory._free(whole_allocation(owner, self))


S = TypeVar("S", bound=MemoryRange)


def allocated(kind: type[S], owner: Owner, memory: object, address: int, length: int) -> S:
    """A range of ``memory`` allocated for ``owner``."""
    room = owner.give(Allocation(), (memory, address, address + length))
    return kind(room, address, length)


def checked_range(
    owner: Owner, memory: object, stretch: object, at: object = 0, count: object = None
) -> tuple[int, int]:
    """Address and length of ``count`` bytes, by default all that are left, from ``at`` on.

    Errors: ``SimulationError`` if they are not ``owner``'s, or in another memory of its.
    """
    if not isinstance(stretch, MemoryRange):
        owner.refuse(stretch, Allocation)
    room = stretch.room if isinstance(stretch.room, Allocation) else Allocation()
    where, begin, end = owner.record_of(room, Allocation)
    if where is not memory:
        raise SimulationError(
            f"a buffer of another memory of {owner.name}: an endpoint with a pinned area sends "
            "from that and receives into it; use one that its own allocate() gave"
        )
    address, length = stretch.address, stretch.length
    if type(address) is not int or type(length) is not int or not 0 <= length <= end - address:
        owner.refuse(Allocation(), Allocation)
    if address < begin:
        owner.refuse(Allocation(), Allocation)
    first = at if type(at) is int else whole(at, "an offset")
    if count is None:
        size = length - first
    else:
        size = count if type(count) is int else whole(count, "a number of bytes")
    if first < 0 or size < 0 or first + size > length:
        raise out_of_range_error(first, size, length)
    return address + first, size


def whole_allocation(owner: Owner, stretch: MemoryRange) -> Allocation:
    """The room of a stretch that is all of it.  Errors: if it is a part, or none of ``owner``'s."""
    _, begin, end = owner.record_of(stretch.room, Allocation)
    if (stretch.address, stretch.length) != (begin, end - begin):
        raise SimulationError(
            f"{stretch.length} bytes of a buffer of {end - begin}: memory is freed as allocate() "
            "gave it, not in parts"
        )
    return stretch.room


def memory_of(owner: Owner, stretch: object) -> Any:
    """The memory of ``owner`` that a range is in.  Errors: if it is not ``owner``'s."""
    room = stretch.room if isinstance(stretch, MemoryRange) else stretch
    if isinstance(stretch, MemoryRange) and not isinstance(room, Allocation):
        room = Allocation()
    return owner.record_of(room, Allocation)[0]


def owner_of(stretch: MemoryRange) -> tuple[Owner, Any]:
    """The owner of a range, and the memory that it is in.

    Errors: ``SimulationError`` if it was made by hand, or its memory is no more.
    """
    owner = getattr(stretch.room, "_owner", None)
    if not isinstance(owner, Owner):
        raise SimulationError(
            "a buffer that was made by hand names nothing; use one that allocate() gave"
        )
    return owner, owner.record_of(stretch.room, Allocation)[0]


def out_of_range_error(offset: int, count: int, length: int) -> SimulationError:
    """The error for bytes that a buffer does not have."""
    return SimulationError(f"bytes {offset} to {offset + count} are not in a buffer of {length}")


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


def machine_has_caches(machine: Machine) -> bool:
    """Whether its hosts have caches, through which their programs store."""
    return bool(has_bus(machine.bus))


def settle_memory(
    machine: Machine, node: int, address: int, count: int, *, forget: bool = False
) -> None:
    """What the caches of ``node`` have modified there reaches its memory; that takes no time.

    ``forget``: they hold nothing of it then, as the memory is to be overwritten.
    """
    if machine_has_caches(machine) and count > 0:
        (_forget if forget else _settle)(machine.bus.hosts, node, address, count)


@kernel
def _forget(hosts: Any, node: int, address: int, count: int) -> int:
    forget_lines(hosts, node, address, count)
    return 0


@kernel
def _settle(hosts: Any, node: int, address: int, count: int) -> int:
    settle(hosts, node, address, count)
    return 0
