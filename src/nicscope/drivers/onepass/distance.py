"""LRU stack distances: how many other keys were looked up since a key was last looked up.

A time line has one slot per lookup; a slot counts if it is the latest lookup of its key.  The
distance of a lookup is the number of slots that count after the one where its key was before.

Invariant: at every level, ``counts[i]`` is the number of counting slots before part ``i`` of its
group of ``FAN``, where slots not yet reached count already.  So a lookup adds nothing at its new
slot; it takes its old slot out of the later parts of its groups, one vector per level.  When the
line is full, a key's slot becomes the number of counting slots before it, and all count again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel
from nicscope.memory_limit import outgrown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

NEVER = np.uint32(0xFFFFFFFF)  # the slot, and the distance, of a key that was not looked up yet
FAN_BITS = 6
FAN = 1 << FAN_BITS
SHORTEST = 1 << 16  # slots
PIECE = 1 << 14  # lookups at a time: their distances stay in the first cache
# Keys from which on memory counts for more than how often a line is full.
MANY = 1 << 26

# Indices are unsigned, or Numba tests each for being negative.
ONE = np.uint64(1)
ALL, LOW = np.uint64(FAN), np.uint64(FAN - 1)
GROUP, BLOCK, REGION = (np.uint64(FAN_BITS * level) for level in (1, 2, 3))

# What to take out of a group's parts: the window that starts at FAN - 1 - i is 1 after part i.
STEP_8, STEP_16, STEP_32 = (np.repeat(np.array([0, 1], kind), FAN) for kind in ("u1", "u2", "u4"))


class Timeline(NamedTuple):
    """Counts of the slots that count, by level; the slots of the keys."""

    slots: NDArray[np.uint8]  # before this slot, in its group of 64 slots
    groups: NDArray[np.uint16]  # before this group, in its block of 64 groups
    blocks: NDArray[np.uint32]  # before this block, in its region of 64 blocks
    regions: NDArray[np.uint32]  # before this region
    last: NDArray[np.uint32]  # shape (keys,): slot of the latest lookup, or NEVER
    clock: NDArray[np.int64]  # shape (2,): the next slot; the keys looked up so far


@kernel
def before(line, slot):
    """How many slots before ``slot`` count."""
    in_block = np.int64(line.slots[slot]) + np.int64(line.groups[slot >> GROUP])
    in_line = np.int64(line.blocks[slot >> BLOCK]) + np.int64(line.regions[slot >> REGION])
    return in_block + in_line


@kernel
def after(part):
    """Where in a table of steps the window begins that is 1 after ``part`` of its group."""
    return LOW - (part & LOW)


@kernel
def measure(line, numbers, distances):
    """Look up every key of ``numbers``; writes the distance of each, or ``NEVER``.

    The caller sees to it that the time line has that many slots left.
    """
    now, known = np.uint64(line.clock[0]), line.clock[1]
    for i in range(numbers.size):
        slot = np.uint64(line.last[numbers[i]])
        line.last[numbers[i]] = np.uint32(now)
        now += ONE
        if slot == np.uint64(NEVER):
            known += 1
            distances[i] = NEVER
            continue
        distances[i] = known - 1 - before(line, slot)
        # One kernel for the three loops is not inlined, and the calls would cost half the speed.
        group, block, region = slot >> GROUP, slot >> BLOCK, slot >> REGION
        first, window = slot & ~LOW, after(slot)
        for j in range(ALL):
            line.slots[first + j] -= STEP_8[window + j]
        first, window = group & ~LOW, after(group)
        for j in range(ALL):
            line.groups[first + j] -= STEP_16[window + j]
        first, window = block & ~LOW, after(block)
        for j in range(ALL):
            line.blocks[first + j] -= STEP_32[window + j]
        for j in range(region + ONE, np.uint64(line.regions.size)):
            line.regions[j] -= np.uint32(1)
    line.clock[0], line.clock[1] = np.int64(now), known


@kernel
def renumber(line, last):
    """Write to ``last`` the slots that the keys of ``line`` get when no slot is left idle."""
    for key in range(line.last.size):
        if line.last[key] != NEVER:
            last[key] = before(line, np.uint64(line.last[key]))


def _aligned(size: int, kind: DTypeLike) -> NDArray[np.generic]:
    """Zeros that begin where a cache line does, so that no group is spread over two."""
    raw = np.zeros(size * np.dtype(kind).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * np.dtype(kind).itemsize].view(kind)


def _set_all(line: Timeline) -> None:
    """Let every slot count."""
    parts = np.arange(FAN)
    line.slots.reshape(-1, FAN)[:] = parts
    line.groups.reshape(-1, FAN)[:] = parts << FAN_BITS
    line.blocks.reshape(-1, FAN)[:] = parts << 2 * FAN_BITS
    line.regions[:] = np.arange(len(line.regions)) << 3 * FAN_BITS


def _new_line(slots: int, last: NDArray[np.uint32]) -> Timeline:
    regions = max(1, slots >> 3 * FAN_BITS)
    line = Timeline(
        _aligned(slots, np.uint8),  # type: ignore[arg-type]
        _aligned(slots >> FAN_BITS, np.uint16),  # type: ignore[arg-type]
        _aligned(regions << FAN_BITS, np.uint32),  # type: ignore[arg-type]
        np.zeros(regions, np.uint32),
        last,
        np.zeros(2, np.int64),
    )
    _set_all(line)
    return line


class StackDistances:
    """Measures stack distances; remembers every key it has seen."""

    def __init__(self, shortest: int = SHORTEST) -> None:
        """Start with a time line of ``shortest`` slots (a power of two, at least ``FAN**2``)."""
        if shortest < FAN**2 or shortest & (shortest - 1):
            raise ValueError(f"shortest must be a power of two from {FAN**2}, got {shortest!r}")
        self._line = _new_line(shortest, np.full(1024, NEVER))

    @property
    def keys(self) -> int:
        """How many keys have been looked up."""
        return int(self._line.clock[1])

    def known(self) -> NDArray[np.uint32]:
        """Return the keys that have been looked up, least recently looked up first."""
        known = np.flatnonzero(self._line.last != NEVER)
        return known[np.argsort(self._line.last[known])].astype(np.uint32)

    def pieces(self, numbers: NDArray[np.uint32]) -> Iterator[NDArray[np.uint32]]:
        """Yield the distances of ``numbers``, uint32, in order, piece by piece; ``NEVER`` if new.

        A piece is overwritten by the next.  Errors: ValueError for another dtype or shape.
        """
        check_numbers(numbers)
        self._make_room(numbers)
        distances = np.empty(min(PIECE, len(numbers)), np.uint32)
        done = 0
        while done < len(numbers):
            free = len(self._line.slots) - int(self._line.clock[0])
            if not free:
                self._compact()
                continue
            size = min(PIECE, free, len(numbers) - done)
            measure(self._line, numbers[done : done + size], distances[:size])
            yield distances[:size]
            done += size

    def _make_room(self, numbers: NDArray[np.uint32]) -> None:
        last = self._line.last
        highest = int(numbers.max(initial=0))
        if highest >= len(last):
            size = max(highest + 1, len(last) * 3 // 2 if len(last) < MANY else len(last) * 9 // 8)
            bigger = outgrown(last, size)
            bigger[len(last) :] = NEVER
            self._line = self._line._replace(last=bigger)

    def _compact(self) -> None:
        """Free the slots that do not count; take a longer time line if most of them do."""
        size, keys, last = len(self._line.slots), self.keys, self._line.last
        while size < 4 * keys and keys <= MANY:
            size *= 2
        if size < 2 * keys:
            size = -(-2 * keys // FAN**3) * FAN**3
        if size > NEVER:
            raise MemoryError(f"{keys} keys are more than one time line can hold")
        renumber(self._line, last)
        if size > len(self._line.slots):
            self._line = _new_line(FAN**2, last)  # gives the memory of the one before back
            self._line = _new_line(size, last)
        else:
            _set_all(self._line)
        self._line.clock[:] = keys


def check_numbers(numbers: NDArray[np.uint32]) -> None:
    """Raise ValueError unless ``numbers`` is a uint32 column."""
    if numbers.dtype != np.uint32 or numbers.ndim != 1:
        found = f"{numbers.dtype} of shape {numbers.shape}"
        raise ValueError(f"numbers must be a column of uint32, got {found}")
