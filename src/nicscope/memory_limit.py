"""Available memory, and the refusal, before any is allocated, of what would need more."""

from __future__ import annotations

import math
import mmap
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import RoomError
from nicscope.kernel.records import as_records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    # By the name of an array: its shape and what it is of.
    Shapes = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]

GIB = 1 << 30
_LARGE = 1 << 20  # bytes of an array that gets pages of its own
_HUGE = 1 << 24  # bytes of one that grows, from which on huge pages are worth what they waste
_MOVED = 1 << 24  # bytes that move at a time
_NUMBERED_SO = ("x86_64", "aarch64")
# MAP_NORESERVE, which mmap has by name from Python 3.13 on, as those number it.
_NORESERVE = 0x4000 if sys.platform == "linux" and os.uname().machine in _NUMBERED_SO else 0
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = Path("/sys/fs/cgroup")
# Of a control group, by version: its limit, what it has taken, and where it says what it can drop.
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def check_memory(need: int, what: str, advice: str) -> None:
    """Refuse ``what``, which takes up to ``need`` bytes, if there are fewer.

    Errors: ``RoomError`` with both numbers and with ``advice``.
    """
    left = available_bytes()
    if left is not None and need > left:
        raise RoomError(
            f"{what} would take up to {need / GIB:,.1f} GiB of memory, and {left / GIB:,.1f} GiB "
            f"are left here; {advice}"
        )


def available_bytes() -> int | None:
    """Bytes that this process may still allocate, as far as the system reports."""
    found = [left for left in (_of_machine(), _of_group(), _of_process()) if left is not None]
    return max(min(found), 0) if found else None


def _of_machine() -> int | None:
    numbers = {}
    try:
        for line in _MEMINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            numbers[name] = int(value.split()[0]) * 1024
        return numbers["MemAvailable"] + numbers["SwapFree"]
    except (OSError, ValueError, IndexError, KeyError):
        return None


def _of_group() -> int | None:
    """What the narrowest limit of the process's control groups leaves."""
    left = []
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for group in groups:
        _, kinds, path = group.split(":", 2)
        if kinds in ("", "memory"):
            folder = _CGROUPS / kinds / path.lstrip("/")
            for names in _GROUP_FILES:
                left += _of_folder(folder, *names)
    return min(left, default=None)


def _of_folder(folder: Path, limit: str, taken: str, droppable: str) -> list[int]:
    try:
        most, now = (int((folder / name).read_text()) for name in (limit, taken))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return [most - now + int(stat.get(droppable, 0))]
    except (OSError, ValueError):  # there is no such group, or it has no limit
        return []


def _of_process() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return limit
    return limit - pages * resource.getpagesize()


def bytes_of(shapes: Shapes) -> int:
    """Bytes that arrays of ``shapes`` take."""
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes.values())


def zeroed(shapes: Shapes) -> dict[str, NDArray[Any]]:
    """Arrays of ``shapes``, all zeros; records have their fields as attributes."""
    return {name: zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros that take memory where they are written to, a page at a time; records likewise.

    NumPy asks for huge pages, and takes memory that was used before and has to be cleared: of a
    cluster's hosts, which touch little of what they have, each would take megabytes.
    """
    count = math.prod(shape) * dtype.itemsize
    if count < _LARGE:
        array = np.zeros(shape, dtype)
    else:
        array = np.frombuffer(_fresh_pages(count), dtype).reshape(shape)
    return as_records(array) if dtype.names else array


def outgrown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """``array`` itself if it has ``length`` elements, else what it holds, with zeros behind.

    A large one gives its memory back as it moves, so that there are never two of it: nobody may
    look at ``array`` any more, which is all zeros then.
    """
    if len(array) >= length:
        return array
    size = length * array.itemsize
    made = zeros((length,), array.dtype)
    memory = _memory_of(made)
    if memory is not None and size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    given_back = _memory_of(array)
    step = max(_MOVED // array.itemsize // mmap.PAGESIZE, 1) * mmap.PAGESIZE
    for begin in range(0, len(array), step):
        piece = array[begin : begin + step]
        made[begin : begin + len(piece)] = piece
        if given_back is not None:
            place = begin * array.itemsize
            given_back.madvise(mmap.MADV_DONTNEED, place, piece.nbytes)
    return made


def give_back(array: NDArray[Any]) -> None:
    """Releases the pages of a large ``array``, whoever still holds it: it reads as zeros then."""
    memory = _memory_of(array)
    if memory is not None:
        memory.madvise(mmap.MADV_DONTNEED)


def _memory_of(array: NDArray[Any]) -> mmap.mmap | None:
    """The pages that ``array`` has to itself, from its first element on."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) and len(base) == array.nbytes else None


def _fresh_pages(count: int) -> mmap.mmap:
    # Pages that are never written to count as nobody's: reserved, those of two clusters side by
    # side would be more than the machine has, and the kernel would refuse each fork.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    try:
        pages = mmap.mmap(-1, count, flags=flags)
    except OSError as error:
        raise MemoryError(f"no {count} bytes of memory: {error}") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return pages
