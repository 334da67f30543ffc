"""What touching, pinning, mapping and copying memory take here, as costs of registration.

Rounds over a few megabytes give each its middle half; what only a NIC's driver could tell is taken
from costs that somebody else published.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.evidence import Evidence, Origin
from nicscope.config.registration import RegistrationCosts, Span
from nicscope.errors import StudyError
from nicscope.room import bytes_left
from nicscope.studies.calibrate.host_memory import (
    PAGE,
    Mapped,
    Refused,
    Taken,
    copy,
    huge_page,
    lockable,
)
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """One measurement, in microseconds of one: its middle half, and the median."""

    name: str
    span: Span
    median: float
    rounds: int
    each_bytes: int  # of what it is of; 0: a call


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, what was refused, and the costs that come of it."""

    machine: dict[str, str | int]
    measured: dict[str, Measured]
    refused: dict[str, str]
    costs: RegistrationCosts
    repeat: dict[str, Any]

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
            "not_applicable": self.costs.not_applicable,
            "repeat": self.repeat,
        }


def calibrate_host(
    nic: RegistrationCosts,
    byte_count: int,
    seconds: float,
    command: Sequence[str] = (),
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
    left = bytes_left()
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
        repeat=repeat(command),
    )


def _rounds(
    byte_count: int, seconds: float, watch: Callable[[int, int], None] | None
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Microseconds of one, by measurement and round; and what the machine refused."""
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


def _mapping(byte_count: int) -> dict[str, Taken]:
    with Mapped(byte_count) as memory:
        touched = memory.touch_all()
        return {
            "map": Taken(memory.mapping_s, 1),
            "touch": touched,
            "unmap": memory.unmap(),
        }


def _huge(byte_count: int) -> dict[str, Taken]:
    with Mapped(byte_count, huge_page()) as memory:
        touched = memory.touch_all()
        if not memory.is_huge():
            raise Refused("the kernel gave small pages where huge ones were advised (madvise)")
        return {"touch huge": touched, "unmap huge": memory.unmap()}


def _reserved(byte_count: int) -> dict[str, Taken]:
    page = huge_page()
    free = _reserved_pages()
    if not free:
        raise Refused("no huge pages are reserved")
    with Mapped(min(byte_count // page, free) * page, page, reserved=True) as memory:
        return {"touch reserved": memory.touch_all()}


def _pinning(byte_count: int) -> dict[str, Taken]:
    return dict(zip(("pin", "unpin"), _pinned(byte_count, PAGE), strict=True))


def _huge_pinning(byte_count: int) -> dict[str, Taken]:
    return {"pin huge": _pinned(byte_count, huge_page())[0]}


def _pinned(byte_count: int, page: int) -> tuple[Taken, Taken]:
    may = lockable()
    most = min(byte_count, may) // page * page
    if not most:
        raise Refused(f"the process may lock {may:,} bytes more (RLIMIT_MEMLOCK, ulimit -l)")
    with Mapped(most, page) as memory:
        memory.touch_all()
        if page > PAGE and not memory.is_huge():
            raise Refused("the kernel gave small pages where huge ones were advised (madvise)")
        return memory.lock(), memory.unlock()


def _copying(byte_count: int) -> dict[str, Taken]:
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
    source = f"nicscope calibrate-host: the middle half of its rounds on {where}"
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
