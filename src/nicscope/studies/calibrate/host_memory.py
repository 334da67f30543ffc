"""What memory of this machine takes: timed over fresh anonymous mappings of Linux.

Nothing is kept: each measurement gives back what it took, pins at most what the process may lock
(``RLIMIT_MEMLOCK``, also where it has the right to lock more), and reserves no huge pages.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import resource
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
_HUGETLB = 0x40000  # MAP_HUGETLB of Linux
_HUGE, _SMALL = 14, 15  # MADV_HUGEPAGE, MADV_NOHUGEPAGE
_THP = Path("/sys/kernel/mm/transparent_hugepage")
_STATUS = Path("/proc/self/status")
_SMAPS = Path("/proc/self/smaps")
_FAILED = ctypes.c_void_p(-1).value


class Refused(Exception):  # noqa: N818 - an answer of the machine, no mistake
    """The machine does not give or allow something; the text says what."""


class Taken(NamedTuple):
    """Seconds that something took, and of how many."""

    seconds: float
    many: int

    @property
    def each_us(self) -> float:
        """Microseconds of one."""
        return self.seconds * 1e6 / self.many


def huge_page() -> int:
    """Bytes of a huge page of this machine."""
    try:
        return int((_THP / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return 2 << 20


def lockable() -> int:
    """Bytes that the process may lock beside what it has locked."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    most = 1 << 62 if soft == resource.RLIM_INFINITY else soft
    return max(0, most - locked())


def locked() -> int:
    """Bytes that the process has locked."""
    found = re.search(r"^VmLck:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


class Mapped:
    """Memory of the process's own, in pages of one size, that nobody has touched.

    Errors: ``Refused`` if the machine does not give it.
    """

    def __init__(self, byte_count: int, page: int = PAGE, *, reserved: bool = False) -> None:
        """``reserved``: huge pages that the machine's owner has put aside."""
        spare = 0 if page == PAGE or reserved else page  # so that there is a whole page to begin at
        self._whole = byte_count + spare
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (_HUGETLB if reserved else 0)
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        begin = time.perf_counter()
        self._begin = _libc().mmap(None, self._whole, rights, flags, -1, 0)
        self.mapping_s = time.perf_counter() - begin
        if self._begin in (None, _FAILED):
            raise Refused(f"mapping {byte_count:,} bytes: {os.strerror(ctypes.get_errno())}")
        self.byte_count, self.page = byte_count, page
        self.at = -(-self._begin // page) * page
        if not reserved:
            _libc().madvise(self._begin, self._whole, _SMALL if page == PAGE else _HUGE)

    def array(self) -> NDArray[np.uint8]:
        """Its bytes; not to be used once it is unmapped."""
        there: Any = (ctypes.c_uint8 * self.byte_count).from_address(self.at)
        return np.frombuffer(there, np.uint8)

    def touch_all(self) -> Taken:
        """Write a byte of every page."""
        every = self.array()[:: self.page]
        begin = time.perf_counter()
        every[:] = 1
        return Taken(time.perf_counter() - begin, len(every))

    def lock(self) -> Taken:
        """Pin all of it."""
        return self._called(_libc().mlock, "pinning")

    def unlock(self) -> Taken:
        """Unpin all of it."""
        return self._called(_libc().munlock, "unpinning")

    def unmap(self) -> Taken:
        """Give it back: what that takes for each page; nothing the second time."""
        begin = time.perf_counter()
        if self._whole:
            _libc().munmap(self._begin, self._whole)
        taken = Taken(time.perf_counter() - begin, self.byte_count // self.page)
        self._whole = 0
        return taken

    def is_huge(self) -> bool:
        """Whether huge pages back all of it."""
        inside, found = False, 0
        for line in _SMAPS.read_text().splitlines():
            if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                begin, end = int(head[1], 16), int(head[2], 16)
                inside = begin < self.at + self.byte_count and self.at < end
            elif inside and (huge := re.match(r"AnonHugePages:\s+(\d+) kB", line)):
                found += int(huge[1]) * 1024
        return found >= self.byte_count

    def _called(self, call: Any, what: str) -> Taken:
        begin = time.perf_counter()
        failed = call(self.at, self.byte_count)
        seconds = time.perf_counter() - begin
        if failed:
            why = os.strerror(ctypes.get_errno())
            raise Refused(f"{what} {self.byte_count:,} bytes: {why}")
        return Taken(seconds, self.byte_count // self.page)

    def __enter__(self) -> Mapped:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmap()


def copy(byte_count: int) -> tuple[Taken, Taken]:
    """What copying and what zeroing take, of each page of memory that is there."""
    with Mapped(byte_count) as source, Mapped(byte_count) as target:
        source.touch_all()
        target.touch_all()
        there, here = source.array(), target.array()
        begin = time.perf_counter()
        np.copyto(here, there)
        copied = time.perf_counter()
        here[:] = 0
        zeroed = time.perf_counter()
    pages = byte_count // PAGE
    return Taken(copied - begin, pages), Taken(zeroed - copied, pages)


@cache
def _libc() -> Any:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    area: list[Any] = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [*area, *[ctypes.c_int] * 3, ctypes.c_long]
    for call in (libc.munmap, libc.mlock, libc.munlock):
        call.argtypes = area
    libc.madvise.argtypes = [*area, ctypes.c_int]
    return libc
