"""Measures what registering and touching memory cost on this machine."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import resource
import statistics
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import Evidence, Origin, RegistrationCosts, Span, page_name
from nicscope.errors import StudyError
from nicscope.memory_limit import available_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


PAGE = mmap.PAGESIZE
_HUGETLB = 0x40000  # MAP_HUGETLB of Linux
_HUGE, _SMALL = 14, 15  # MADV_HUGEPAGE, MADV_NOHUGEPAGE
_THP = Path("/sys/kernel/mm/transparent_hugepage")
_STATUS = Path("/proc/self/status")
_SMAPS = Path("/proc/self/smaps")
_FAILED = ctypes.c_void_p(-1).value


class Refused(Exception):  # noqa: N818 - an answer of the machine, no mistake
    """A resource that the machine does not have or permit; the text says which."""


class Elapsed(NamedTuple):
    """Elapsed seconds and the number of repetitions."""

    seconds: float
    many: int

    @property
    def each_us(self) -> float:
        """Microseconds per repetition."""
        return self.seconds * 1e6 / self.many


def huge_page() -> int:
    """The size of a huge page on this machine."""
    try:
        return int((_THP / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return 2 << 20


def lockable() -> int:
    """How many more bytes the process may lock."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    most = 1 << 62 if soft == resource.RLIM_INFINITY else soft
    return max(0, most - locked())


def locked() -> int:
    """Bytes that the process has locked."""
    found = re.search(r"^VmLck:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


class Mapped:
    """An untouched private mapping in pages of one size.

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
        """Its bytes; not to be used after unmapping."""
        there: Any = (ctypes.c_uint8 * self.byte_count).from_address(self.at)
        return np.frombuffer(there, np.uint8)

    def touch_all(self) -> Elapsed:
        """Write a byte of every page."""
        every = self.array()[:: self.page]
        begin = time.perf_counter()
        every[:] = 1
        return Elapsed(time.perf_counter() - begin, len(every))

    def lock(self) -> Elapsed:
        """Lock all of it in memory."""
        return self._called(_libc().mlock, "pinning")

    def unlock(self) -> Elapsed:
        """Unlock all of it."""
        return self._called(_libc().munlock, "unpinning")

    def unmap(self) -> Elapsed:
        """Unmap it: microseconds per page; nothing the second time."""
        begin = time.perf_counter()
        if self._whole:
            _libc().munmap(self._begin, self._whole)
        taken = Elapsed(time.perf_counter() - begin, self.byte_count // self.page)
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

    def _called(self, call: Any, what: str) -> Elapsed:
        begin = time.perf_counter()
        failed = call(self.at, self.byte_count)
        seconds = time.perf_counter() - begin
        if failed:
            why = os.strerror(ctypes.get_errno())
            raise Refused(f"{what} {self.byte_count:,} bytes: {why}")
        return Elapsed(seconds, self.byte_count // self.page)

    def __enter__(self) -> Mapped:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmap()


def copy(byte_count: int) -> tuple[Elapsed, Elapsed]:
    """The time of copying and of zeroing, per resident page."""
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
    return Elapsed(copied - begin, pages), Elapsed(zeroed - copied, pages)


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


LEAST_BYTES, MOST_BYTES = 4 << 20, 1 << 30
LEAST_SECONDS, MOST_SECONDS = 0.1, 60
LEAST_ROUNDS, MOST_ROUNDS = 3, 1000
GIB = 1 << 30
OF_A_NIC = ("region", "entry", "deregister_entry", "backlog", "lookup")
MEANINGS = {  # measurement: what one is of
    "map": "a mapping, whatever its size",
    "touch": "a small page, at its first touch",
    "unmap": "a small page that was touched",
    "touch huge": "a huge page, at its first touch",
    "unmap huge": "a huge page that was touched",
    "touch reserved": "a reserved huge page, at its first touch",
    "pin": "a small page that is there",
    "unpin": "a small page that is pinned",
    "pin huge": "a huge page that is there",
    "copy": "the bytes of a small page",
    "zero": "the bytes of a small page that is there",
}


class Measured(NamedTuple):
    """One measurement in microseconds per repetition: quartiles and median."""

    name: str
    span: Span
    median: float
    rounds: int
    each_bytes: int  # of what it is of; 0: a call


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements, refusals, and the derived costs."""

    machine: dict[str, str | int]
    measured: dict[str, Measured]
    refused: dict[str, str]
    costs: RegistrationCosts

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "machine": self.machine,
            "measured": [
                {
                    "name": one.name,
                    "of": MEANINGS[one.name],
                    "of_bytes": one.each_bytes,
                    "us_low": one.span.low,
                    "us_median": one.median,
                    "us_high": one.span.high,
                    "rounds": one.rounds,
                }
                for one in self.measured.values()
            ],
            "refused": self.refused,
            "costs": {
                name: {"us": list(span), **self.costs.origins[name].to_json()}
                for name, span in self.costs.costs.items()
            },
            "pages": {
                str(size): {name: {"us": list(span)} for name, span in spans.items()}
                for size, spans in self.costs.pages.items()
            },
            "not_applicable": self.costs.not_applicable,
        }


def calibrate_host(
    nic: RegistrationCosts,
    byte_count: int,
    seconds: float,
    watch: Callable[[int, int], None] | None = None,
) -> HostReport:
    """Measure for about ``seconds`` over ``byte_count`` bytes; what a NIC costs is ``nic``'s.

    Errors: ``StudyError`` for bounds that cannot be, and on a system that is no Linux.
    """
    if not sys.platform.startswith("linux"):
        raise StudyError("the machine is no Linux, where pages are touched and pinned otherwise")
    if not LEAST_BYTES <= byte_count <= MOST_BYTES:
        raise StudyError(f"--memory must be from {LEAST_BYTES:,} to {MOST_BYTES:,} bytes")
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise StudyError(f"--seconds must be from {LEAST_SECONDS} to {MOST_SECONDS}")
    left = available_bytes()
    if left is not None and 4 * byte_count > left:
        raise StudyError(f"--memory {byte_count:,} is more than a quarter of what is left here")
    byte_count -= byte_count % huge_page()
    taken, refused = _rounds(byte_count, seconds, watch)
    measured = {name: _middle(name, taken[name]) for name in MEANINGS if name in taken}
    machine = _machine()
    return HostReport(
        machine=machine,
        measured=measured,
        refused=refused,
        costs=costs_of(measured, nic, f"{machine['processor']}, {machine['kernel']}"),
    )


def _rounds(
    byte_count: int, seconds: float, watch: Callable[[int, int], None] | None
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Microseconds per repetition, by measurement and round; and the refusals."""
    taken: dict[str, list[float]] = {}
    refused: dict[str, str] = {}
    begin = time.perf_counter()
    rounds = 0
    while rounds < MOST_ROUNDS:
        for measure in (_mapping, _huge, _reserved, _pinning, _huge_pinning, _copying):
            try:
                # The first round, over the least, is a rehearsal that counts for refusals alone.
                found = measure(byte_count if rounds else LEAST_BYTES)
            except Refused as refusal:
                refused.setdefault(measure.__name__.lstrip("_"), str(refusal))
                continue
            for name, one in found.items():
                if rounds:
                    taken.setdefault(name, []).append(one.each_us)
        rounds += 1
        spent = time.perf_counter() - begin
        if watch is not None:
            watch(min(int(1000 * spent), int(1000 * seconds)), int(1000 * seconds))
        if rounds > LEAST_ROUNDS and spent >= seconds:
            break
    return taken, refused


def _mapping(byte_count: int) -> dict[str, Elapsed]:
    with Mapped(byte_count) as memory:
        touched = memory.touch_all()
        return {
            "map": Elapsed(memory.mapping_s, 1),
            "touch": touched,
            "unmap": memory.unmap(),
        }


def _huge(byte_count: int) -> dict[str, Elapsed]:
    with Mapped(byte_count, huge_page()) as memory:
        touched = memory.touch_all()
        if not memory.is_huge():
            raise Refused("the kernel gave small pages where huge ones were advised (madvise)")
        return {"touch huge": touched, "unmap huge": memory.unmap()}


def _reserved(byte_count: int) -> dict[str, Elapsed]:
    page = huge_page()
    free = _reserved_pages()
    if not free:
        raise Refused("no huge pages are reserved")
    with Mapped(min(byte_count // page, free) * page, page, reserved=True) as memory:
        return {"touch reserved": memory.touch_all()}


def _pinning(byte_count: int) -> dict[str, Elapsed]:
    return dict(zip(("pin", "unpin"), _pinned(byte_count, PAGE), strict=True))


def _huge_pinning(byte_count: int) -> dict[str, Elapsed]:
    return {"pin huge": _pinned(byte_count, huge_page())[0]}


def _pinned(byte_count: int, page: int) -> tuple[Elapsed, Elapsed]:
    may = lockable()
    most = min(byte_count, may) // page * page
    if not most:
        raise Refused(f"the process may lock {may:,} bytes more (RLIMIT_MEMLOCK, ulimit -l)")
    with Mapped(most, page) as memory:
        memory.touch_all()
        if page > PAGE and not memory.is_huge():
            raise Refused("the kernel gave small pages where huge ones were advised (madvise)")
        return memory.lock(), memory.unlock()


def _copying(byte_count: int) -> dict[str, Elapsed]:
    return dict(zip(("copy", "zero"), copy(byte_count), strict=True))


def _middle(name: str, found: list[float]) -> Measured:
    first, median, third = statistics.quantiles(found, n=4, method="inclusive")
    each = {"map": 0}.get(name, huge_page() if name.endswith(("huge", "reserved")) else PAGE)
    return Measured(name, Span(first, third), median, len(found), each)


def costs_of(
    measured: dict[str, Measured], nic: RegistrationCosts, where: str
) -> RegistrationCosts:
    """Costs of registration: the host's as measured, a NIC's as ``nic`` has them.

    The first touch of a page is its fault and the zeroing of its bytes: pages of two sizes tell
    them apart, and where there are no huge ones, zeroing memory that is there does.
    """
    source = f"nicscope rdma calibrate: the middle half of its rounds on {where}"
    costs: dict[str, Span] = {}
    origins: dict[str, Origin] = {}

    def add(name: str, span: Span, told: str) -> None:
        costs[name] = span
        origins[name] = Origin(Evidence.MEASURED, f"{source}; {told}")

    touch, huge = measured["touch"].span, measured.get("touch huge")
    if huge is None:
        zero = Span(*(end / PAGE * GIB for end in measured["zero"].span))
        told = "zeroing memory that is there, as there are no huge pages"
    else:
        more = huge.each_bytes - PAGE
        low, high = huge.span.low - touch.high, huge.span.high - touch.low
        zero = Span(max(0.0, low / more * GIB), max(0.0, high / more * GIB))
        told = "what a huge page takes more than a small one, by their bytes"
    fault = Span(
        max(0.0, touch.low - zero.high * PAGE / GIB), max(0.0, touch.high - zero.low * PAGE / GIB)
    )
    add("fault", fault, "first touch less zeroing")
    add("zero", zero, told)
    taken = [*OF_A_NIC]
    if "pin" in measured:
        add("pin", measured["pin"].span, "mlock of pages that are there; no IOMMU is asked")
    else:
        taken.append("pin")
    pages = {}
    if huge_pin := measured.get("pin huge"):
        pages[huge_pin.each_bytes] = {"pin": huge_pin.span}
        origins[f"pin of {page_name(huge_pin.each_bytes)}"] = Origin(
            Evidence.MEASURED, f"{source}; mlock of huge pages that are there; no IOMMU is asked"
        )
    copying, copying_origins = dict(nic.copying), dict(nic.copying_origins)
    if copying and (copied := measured.get("copy")):
        copying["bytes"] = Span(*(end / PAGE * GIB for end in copied.span))
        copying_origins["bytes"] = Origin(Evidence.MEASURED, f"{source}; memory that is there")
    absent = {}
    for name in taken:
        if name in nic.costs:
            costs[name], origins[name] = nic.costs[name], nic.origins[name]
        else:
            absent[name] = nic.not_applicable[name]
    return RegistrationCosts(
        name="host",
        title=f"Memory of this machine, NICs as {nic.name!r} has them",
        description=f"Measured on {where}.",
        costs=costs,
        origins=origins,
        not_applicable=absent,
        limits=nic.limits,
        sources=nic.sources,
        measured={"page": PAGE},
        pages=pages,
        copying=copying,
        copying_origins=copying_origins,
    )


def _reserved_pages() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free:"):
            return int(line.split()[1])
    return 0


def _machine() -> dict[str, str | int]:
    processor = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {
        "processor": processor,
        "kernel": f"{platform.system()} {platform.release()}",
        "page_bytes": PAGE,
        "huge_page_bytes": huge_page(),
        "lockable_bytes": min(lockable(), 1 << 62),
    }
