"""Memory of a program, by simulated addresses."""

from __future__ import annotations

import errno
import mmap as _mmap
from typing import Any

from nicscope.interfaces.verbs.base import error, refusal
from nicscope.interfaces.verbs.pyverbs_error import PyverbsError
from nicscope.interfaces.verbs.world import PAGE, here

PROT_NONE_ = 0
PROT_READ_ = _mmap.PROT_READ
PROT_WRITE_ = _mmap.PROT_WRITE
PROT_EXEC_ = _mmap.PROT_EXEC
MAP_PRIVATE_ = _mmap.MAP_PRIVATE
MAP_SHARED_ = _mmap.MAP_SHARED
MAP_ANONYMOUS_ = _mmap.MAP_ANONYMOUS
MAP_FIXED_ = 0x10
MAP_STACK_ = 0x20000
MAP_HUGETLB_ = 0x40000
MAP_HUGE_SHIFT_ = 26
MADV_DONTNEED = 4
HUGE = 2 << 20
ALIGNMENT = 8


def mmap(
    addr: int = 0,
    length: int = 100,
    prot: int = PROT_READ_ | PROT_WRITE_,
    flags: int = MAP_PRIVATE_ | MAP_ANONYMOUS_,
    fd: int = 0,  # noqa: ARG001 - there are no files in this memory
    offset: int = 0,  # noqa: ARG001
) -> int:
    """The address of ``length`` zeroed bytes in pages of their own."""
    wanted, size = int(flags), int(length)
    if size < 1:
        raise error("Failed to mmap memory", errno.EINVAL)
    if not wanted & MAP_ANONYMOUS_ or wanted & MAP_FIXED_ or int(addr) or not int(prot) & 3:
        raise error("Failed to mmap memory", errno.EOPNOTSUPP)
    huge = bool(wanted & MAP_HUGETLB_)
    with refusal("Failed to mmap memory"):
        return int(here().device.map(_rounded(size, huge), huge))


def munmap(addr: int, length: int) -> None:
    """Unmap pages; a memory region keeps those that it has pinned."""
    with refusal("Failed to unmap memory"):
        here().device.unmap(int(addr), _rounded(int(length), False))


def madvise(addr: int, length: int, flags: int = MADV_DONTNEED) -> None:
    """Discard the pages of a range: they read as zeros afterwards."""
    if int(flags) != MADV_DONTNEED:
        raise error("Failed to advise memory", errno.EOPNOTSUPP)
    first = int(addr)
    if first % PAGE:
        raise error("Failed to advise memory", errno.EINVAL)
    with refusal("Failed to advise memory"):
        here().device.drop(first, _rounded(int(length), False))


def _rounded(length: int, huge: bool) -> int:
    unit = HUGE if huge else PAGE
    return -(-length // unit) * unit


def malloc(size: int) -> int:
    """The address of ``size`` bytes."""
    return here().heap.allocate(int(size))


def posix_memalign(size: int, alignment: int = ALIGNMENT) -> int:
    """The address of ``size`` zeroed bytes at a multiple of ``alignment``."""
    wanted = int(alignment)
    if wanted < ALIGNMENT or wanted & (wanted - 1):
        raise MemoryError(f"Failed to allocate memory: {wanted} is no alignment")
    world = here()
    if wanted <= PAGE:
        return world.heap.allocate(int(size), wanted)
    if wanted <= HUGE:
        return int(world.device.map(_rounded(int(size), True), True))
    raise MemoryError(f"Failed to allocate memory at a multiple of {wanted}")


def free(ptr: int) -> None:
    """Free memory that ``malloc`` or ``posix_memalign`` allocated."""
    world = here()
    if int(ptr) and not world.heap.release(int(ptr)):
        raise PyverbsError(f"Failed to free {int(ptr):#x}: nothing is allocated there")


def read(addr: int, length: int, offset: int = 0) -> bytes:
    """The bytes at an address."""
    with refusal("Failed to read memory"):
        found: bytes = here().device.read(int(addr) + int(offset), int(length))
        return found


def write(addr: int, data: Any, length: int, offset: int = 0) -> None:
    """Write ``length`` bytes of ``data`` at an address."""
    with refusal("Failed to write memory"):
        here().device.write(int(addr) + int(offset), as_bytes(data, int(length)))


def as_bytes(data: Any, length: int) -> bytes:
    """Exactly ``length`` bytes of text or bytes; zeros behind their end."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    return raw[:length].ljust(length, b"\0")


def read32(addr: int, offset: int = 0) -> int:
    """The word at an address, in the host's order."""
    return int.from_bytes(read(addr, 4, offset), "little")


def read64(addr: int, offset: int = 0) -> int:
    """The double word at an address, in the host's order."""
    return int.from_bytes(read(addr, 8, offset), "little")


def writebe32(addr: int, val: int, offset: int = 0) -> None:
    """Write a word in network order."""
    write(addr, (int(val) & 0xFFFFFFFF).to_bytes(4, "big"), 4, offset)


def writebe64(addr: int, val: int, offset: int = 0) -> None:
    """Write a double word in network order."""
    write(addr, (int(val) & (1 << 64) - 1).to_bytes(8, "big"), 8, offset)
