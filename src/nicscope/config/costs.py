"""Costs with evidence: values, ranges, tables over sizes, limits, and all names.

First what every shelf of the catalog has and the names of the costs of platforms, then the costs of
present-day RDMA: registration, faults, NICs, memory paths, and hypotheses.
"""

from __future__ import annotations

import json
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from nicscope.config.quantities import read_bytes
from nicscope.config.toml_files import beside, open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import NicscopeError, PlatformError, StudyError, did_you_mean
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class Evidence(StrEnum):
    """The class of evidence of a number."""

    PUBLISHED = "published"  # printed in the source
    DERIVED = "derived"  # arithmetic on published numbers
    FITTED = "fitted"  # chosen to meet published results; the source names them
    MEASURED = "measured"  # by us; the source names command and machine
    ASSUMED = "assumed"  # a choice; the source says why


CITING = (Evidence.PUBLISHED, Evidence.DERIVED, Evidence.FITTED)


class Origin(msgspec.Struct, frozen=True):
    """The evidence and source of one number."""

    evidence: Evidence
    source: str

    def to_json(self) -> dict[str, str]:
        """Both fields as plain strings."""
        return {"evidence": self.evidence.value, "source": self.source}


def read_origin(
    cell: Mapping[str, Any], sources: Mapping[str, Any], where: str, error: type[NicscopeError]
) -> Origin:
    """Parse the origin of a cell; ``where`` (file and key) begins every message.

    Errors: ``error`` if evidence or source is missing, unknown, or cites nothing in ``sources``.
    """
    classes = [member.value for member in Evidence]
    stated = cell.get("evidence")
    if stated not in classes:
        found = "has no evidence" if stated is None else f"has unknown evidence {stated!r}"
        raise error(f"{where} {found}; choose from {', '.join(classes)}")
    evidence = Evidence(stated)
    source = cell.get("source")
    if not isinstance(source, str) or not source.strip():
        raise error(f"{where} has no source; cite one, or say why if it is assumed")
    key = source.split(",")[0].split(":")[0].strip()
    if evidence in CITING and key not in sources:
        raise error(f"{where} cites {key!r}, which [sources] lacks{did_you_mean(key, sources)}")
    return Origin(evidence, source)


def check_known_keys(
    found: Iterable[str], known: Iterable[str], where: str, error: type[NicscopeError]
) -> None:
    """Check that every key of ``found`` is in ``known``; else raise ``error`` for the first."""
    choices = set(known)
    for key in found:
        if key not in choices:
            raise error(f"{where}: unknown key {key!r}{did_you_mean(key, choices)}")


def half_up(ps: Fraction) -> int:
    """``ps`` (not negative) rounded to a whole picosecond, a tie upwards."""
    return int(ps + Fraction(1, 2))


class UnitCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one event: from ``low_ps`` to ``high_ps``, or by size along ``points``.

    ``points`` are (size, ps) with rising sizes; without them both bounds hold for any size.
    """

    name: str
    unit: str  # of the citation
    origin: Origin
    low_ps: int = 0
    high_ps: int = 0
    points: tuple[tuple[int, int], ...] = ()

    def each(self, size: Fraction | None = None) -> tuple[Fraction, Fraction]:
        """Bounds (ps) on one event of ``size``; only tables need a size.

        Between two points a table is a straight line; beyond its ends the nearest segment goes
        on, but never below zero.
        """
        if not self.points:
            return Fraction(self.low_ps), Fraction(self.high_ps)
        if size is None:
            raise ValueError(f"cost {self.name!r} is a table and needs a size")
        along = 1
        while along < len(self.points) - 1 and size > self.points[along][0]:
            along += 1
        (x0, y0), (x1, y1) = self.points[along - 1], self.points[along]
        ps = max(Fraction(0), y0 + (size - x0) * Fraction(y1 - y0, x1 - x0))
        return ps, ps

    def evidence_at(self, size: Fraction | None = None) -> Evidence:
        """The class of evidence at ``size``: between a table's points at best derived."""
        known_here = not self.points or any(size == x for x, _ in self.points)
        if known_here or self.origin.evidence is not Evidence.PUBLISHED:
            return self.origin.evidence
        return Evidence.DERIVED


class File(NamedTuple):
    """What every file of numbers with evidence has."""

    name: str
    called: str  # in messages
    content: dict[str, Any]
    title: str
    description: str
    sources: dict[str, str]


def open_file(
    shelf: str,
    name_or_path: str | Path,
    sections: Iterable[str],
    error: type[NicscopeError] = PlatformError,
) -> File:
    """The file of that name on a shelf of the catalog, or a ``.toml`` file, of these ``sections``.

    Errors: ``error`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf(shelf, name_or_path, error)
    check_known_keys(content, ("title", "description", "sources", *sections), called, error)
    return File(
        name,
        called,
        content,
        read_text(content, "title", name, called, error),
        read_text(content, "description", "", called, error),
        read_texts(content, "sources", called, error),
    )


def read_table(file: File, section: str, known: Iterable[str], error: type[NicscopeError]) -> Any:
    """The table ``section``, none of whose keys is unknown.

    Errors: ``error`` if it is absent, empty, or no table.
    """
    found = file.content.get(section)
    known = tuple(known)
    if not isinstance(found, dict) or not found:
        raise error(f"{file.called}: has no [{section}]; state {', '.join(known)}")
    check_known_keys(found, known, f"{file.called}: {section}", error)
    return found


def read_unit(cell: Any, units: Iterable[str], where: str) -> str:
    """The unit that ``cell``, a table, states; errors: ``PlatformError``."""
    unit = cell.get("unit")
    if not isinstance(unit, str) or unit not in units:
        found = "has no unit" if unit is None else f"has unknown unit {unit!r}"
        raise PlatformError(f"{where} {found}; choose from {', '.join(units)}")
    return unit


LIMITS = ("region_bytes", "entries")


class Limit(NamedTuple):
    """An upper limit and its origin."""

    most: int
    origin: Origin


class RegionLimits(msgspec.Struct, frozen=True):
    """Limits on regions of one NIC or library; what is not named is unlimited."""

    name: str
    title: str
    description: str
    limits: dict[str, Limit]

    def most(self, name: str) -> int | None:
        """The limit of that name; None: unlimited."""
        limit = self.limits.get(name)
        return None if limit is None else limit.most


NO_LIMITS = RegionLimits("none", "no limits", "", {})
limit_names = partial(shelf_names, "limits")


@TrimmedTraceback()
def load_limits(name_or_path: str | Path) -> RegionLimits:
    """Load limits by catalog name, or from a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    file = open_file("limits", name_or_path, ["limits"])
    limits = {}
    for key, cell in read_table(file, "limits", LIMITS, PlatformError).items():
        where = f"{file.called}: limits.{key}"
        limits[key] = Limit(
            _read_most(cell, where), read_origin(cell, file.sources, where, PlatformError)
        )
    return RegionLimits(file.name, file.title, file.description, limits)


def _read_most(cell: Any, where: str) -> int:
    value = cell.get("value") if isinstance(cell, dict) else None
    if isinstance(value, str) and value.removesuffix(" GB").isdecimal() and value.endswith(" GB"):
        value = int(Decimal(value.removesuffix(" GB")) * 10**9)
    if type(value) is not int or not 1 <= value < 1 << 63:
        raise PlatformError(f"{where}: value must be a whole number of 1 or more, or such as 64 GB")
    return value


# By the name of a cost: what one of it is of, and the units that it may be stated in, each by what
# it is of the shelf's own; without units it is a whole number.
Known = dict[str, tuple[str, dict[str, Decimal]]]
_MEASURED = ("nics", "threads", "page", "source")
_MOST = 10**12


class Span(NamedTuple):
    """A cost in microseconds, as a range."""

    low: float
    high: float


class RangedCosts(msgspec.Struct, frozen=True):
    """Ranged costs of a machine or NIC, with reasons for those that do not apply."""

    name: str
    title: str
    description: str
    costs: dict[str, Span]
    origins: dict[str, Origin]
    not_applicable: dict[str, str]
    limits: RegionLimits
    sources: dict[str, str]  # that origins cite
    measured: dict[str, int] = {}  # how far they were: NICs at once, threads, bytes of a page
    pages: dict[int, dict[str, Span]] = {}  # costs of larger pages that are known, by their bytes
    copying: dict[str, Span] = {}  # instead of registering; none where nothing is said of it
    copying_origins: dict[str, Origin] = {}

    def each(self, name: str, page: int = 0) -> Span:
        """The cost of one event, or of a page of so many bytes; zero where it does not apply.

        A page whose cost is not known takes as long as the largest smaller one that is.  Pinning
        it takes up to as long as all of these that are in it, as a kernel finds a large page at
        once and yet lists each small one (Linux, drivers/infiniband/core/umem.c, ib_umem_get).
        """
        known = self.known_page(name, page)
        span = self.pages.get(known, {}).get(name) or self.costs.get(name, Span(0.0, 0.0))
        return Span(span.low, span.high * max(1, page // known) if name == "pin" else span.high)

    def known_page(self, name: str, page: int) -> int:
        """The bytes of the page whose cost stands for that of a page of ``page`` bytes."""
        larger = (size for size in self.pages if size <= page and name in self.pages[size])
        return max(larger, default=self.measured.get("page", 4096))


Kind = TypeVar("Kind", bound=RangedCosts)


@TrimmedTraceback()
def load_ranged_costs(
    shelf: str, known: Mapping[str, Known], kind: type[Kind], name_or_path: str | Path
) -> Kind:
    """Load ranged costs by catalog name from a shelf, or from a ``.toml`` file.

    ``known``: by section.  Costs of registration may name a file of limits, how far they were
    measured, costs of larger pages, and what copying takes instead.  Errors: ``PlatformError``
    naming the file and the key that is wrong.
    """
    also = ("limits", "measured", "pages", "copying") if shelf == "registrations" else ()
    file = open_file(shelf, name_or_path, (*known, "not_applicable", *also))
    called = file.called
    absent = read_texts(file.content, "not_applicable", called, PlatformError)
    every = {name for names in known.values() for name in names}
    check_known_keys(absent, every, f"{called}: not_applicable", PlatformError)
    costs, origins = {}, {}
    for section, names in known.items():
        cells = read_table(file, section, names, PlatformError)
        for key, (_, units) in names.items():
            if (key in cells) == (key in absent):
                what = "is stated and not applicable" if key in cells else "is not stated"
                raise PlatformError(
                    f"{called}: {key} {what}; give it a value, or say why it has none"
                )
            if key in cells:
                where = f"{called}: {section}.{key}"
                costs[key] = _read_span(units, cells[key], where)
                origins[key] = read_origin(cells[key], file.sources, where, PlatformError)
    pages = _larger_pages(file, origins)
    copying = {}
    if "copying" in file.content:
        copying = read_table(file, "copying", COPYING, PlatformError)
        if len(copying) < len(COPYING):
            raise PlatformError(f"{called}: copying must state {' and '.join(COPYING)}")
    copying_spans, copying_origins = _spans_of(file, "copying", COPYING, copying)
    named = read_text(file.content, "limits", "", called, PlatformError)
    return kind(
        file.name,
        file.title,
        file.description,
        costs,
        origins,
        absent,
        load_limits(beside(name_or_path, named)) if named else NO_LIMITS,
        file.sources,
        _measured(file.content, called),
        pages,
        copying_spans,
        copying_origins,
    )


def _spans_of(
    file: File, section: str, names: Mapping[str, tuple[str, dict[str, Decimal]]], cells: Any
) -> tuple[dict[str, Span], dict[str, Origin]]:
    """The costs of a table and their origins."""
    spans, origins = {}, {}
    for name, cell in cells.items():
        where = f"{file.called}: {section}.{name}"
        spans[name] = _read_span(names[name][1], cell, where)
        origins[name] = read_origin(cell, file.sources, where, PlatformError)
    return spans, origins


def page_name(size: int) -> str:
    """The size of a page in one word, as files of costs have it."""
    return f"{size >> 20}MiB" if size >> 20 else f"{size >> 10}KiB"


def _larger_pages(file: File, origins: dict[str, Origin]) -> dict[int, dict[str, Span]]:
    """Costs of pages by their bytes, from tables such as ``[pages.2MiB]``; adds their origins."""
    pages: dict[int, dict[str, Span]] = {}
    given = file.content.get("pages", {})
    if not isinstance(given, dict):
        raise PlatformError(f"{file.called}: pages must be tables, such as [pages.2MiB]")
    for key, cells in given.items():
        size, where = read_bytes(key), f"{file.called}: pages.{key}"
        if not size or size & (size - 1) or not isinstance(cells, dict) or not cells:
            raise PlatformError(
                f"{where} must be a table of {', '.join(OF_A_PAGE)}, with a size as its name, "
                "such as 2MiB"
            )
        check_known_keys(cells, OF_A_PAGE, where, PlatformError)
        pages[size], found = _spans_of(file, f"pages.{key}", REGISTRATION_COSTS, cells)
        origins |= {f"{name} of {page_name(size)}": origin for name, origin in found.items()}
    return pages


def _read_span(units: Mapping[str, Decimal], cell: Any, where: str) -> Span:
    """The two ends that a cell states, in the unit whose factor is 1.

    Errors: ``PlatformError`` beginning with ``where``.
    """
    if not isinstance(cell, dict):
        raise PlatformError(f"{where} must be a table of value, unit, evidence and source")
    by = units[read_unit(cell, units, where)] if units else Decimal(1)
    numbers = int | Decimal if units else int
    given: Any = cell.get("value")
    ends: list[Any] = given if isinstance(given, list) else [given, given]
    are_numbers = len(ends) == 2 and all(
        isinstance(end, numbers) and not isinstance(end, bool) and 0 <= end <= _MOST for end in ends
    )
    if not are_numbers or ends[0] > ends[1]:
        what = "number" if units else "whole number"
        raise PlatformError(f"{where}: value must be a {what}, or the least and the most of it")
    return Span(*(float(Decimal(end) * by) for end in ends))


def _measured(content: Mapping[str, Any], called: str) -> dict[str, int]:
    """Up to how many NICs, threads and bytes of a page costs were measured, where stated."""
    table = content.get("measured", {})
    where = f"{called}: measured"
    if not isinstance(table, dict):
        raise PlatformError(f"{where} must be a table of {', '.join(_MEASURED)}")
    check_known_keys(table, _MEASURED, where, PlatformError)
    read_text(table, "source", "", where, PlatformError)
    found = {key: value for key, value in table.items() if key != "source"}
    for key, value in found.items():
        if type(value) is not int or value < 1:
            raise PlatformError(f"{where}: {key} must be a whole number from 1, got {value!r}")
    return found


class CostName(msgspec.Struct, frozen=True):
    """The meaning and unit of a cost."""

    meaning: str
    per: str
    size_of: str | None = None  # of a tabulated cost
    by_byte: bool = False


COSTS: dict[str, CostName] = {
    # host, in user mode
    "user_check": CostName("user library: is the page pinned? (bitmap)", "lookup"),
    "user_tree": CostName("user library: page to table index (two-level tree)", "lookup"),
    "request_check_min": CostName("bitmap check of a request, best case", "request", "pages"),
    "request_check_max": CostName("bitmap check of a request, worst case", "request", "pages"),
    "user_pin": CostName("system call that pins pages and stores translations", "call", "pages"),
    "user_unpin": CostName("system call that unpins pages", "call", "pages"),
    "copy_start": CostName("copy to or from the pinned area, fixed part", "request"),
    "copy_per_byte": CostName("copy to or from the pinned area", "byte", by_byte=True),
    "trap": CostName("fast trap into the kernel", "send"),
    "system_call": CostName("call into the kernel and back, without what it does", "call"),
    "post": CostName("user library writes a descriptor to a queue", "descriptor"),
    "poll": CostName("look at a queue that is found ready", "look"),
    # host, in the kernel
    "interrupt": CostName("NIC's interrupt until the handler serves it", "interrupt"),
    "interrupt_entry": CostName("entry into the receive interrupt handler", "receive"),
    "kernel_pin": CostName("pin one resident page in kernel context", "page"),
    "kernel_pin_receive": CostName("same for a receive buffer, where it differs", "page"),
    "kernel_pin_shared": CostName("pin a shared page: copy on write first", "page"),
    "kernel_unpin": CostName("unpin one page in kernel context", "page"),
    "zero_map_in": CostName("map in a zeroed page for an absent receive buffer", "page"),
    "page_fault": CostName("bring an absent page from disk", "page"),
    "page_out": CostName("write a page to disk", "page"),
    "thread_delay": CostName("kernel thread is woken until it runs", "wake-up"),
    "wake_up": CostName("a blocked process is woken until it runs", "wake-up"),
    "notify": CostName("signal to a process until its handler runs", "signal"),
    "miss_delay": CostName("interrupt raised to miss thread scheduled", "miss"),
    "miss_processing": CostName("miss thread: host table, cache update; pins apart", "miss"),
    # NIC
    "ni_check": CostName("NIC looks a page up in its cache, hit or miss", "lookup"),
    "ni_further_way": CostName("NIC checks one more way of a set, after the first", "way"),
    "ni_handle": CostName("NIC looks up who or what a request names, no page", "lookup"),
    "ni_table_read": CostName("NIC reads an entry of its own table", "lookup"),
    "ni_hit_send": CostName("NIC cache hit on the send path", "hit"),
    "ni_hit_receive": CostName("NIC cache hit on the receive path", "hit"),
    "ni_hit_pretranslate": CostName("NIC cache hit while pre-translating a buffer", "hit"),
    "ni_dma": CostName("DMA part of a fetch of entries from the host", "miss", "entries"),
    "ni_miss": CostName("whole fetch of entries from the host table", "miss", "entries"),
    "ni_handshake": CostName("NIC and kernel exchange request and translation", "miss"),
    "icm_fetch": CostName("NIC reads an entry of a region, or a line of pages', by DMA", "fetch"),
    "send_queue": CostName("send queue handling", "send"),
    "receive_queue": CostName("receive queue handling", "receive"),
    # VIA: library, kernel agent, messaging on the NIC
    "retry_timeout": CostName("without an acknowledgement, until frames go again", "time-out"),
    # a coherent host and its interface: times of the machine, see docs/coherence.md
    "l1_latency": CostName("access that hits in the first level", "access"),
    "l2_latency": CostName("look into the second level", "access"),
    "bus_cycle": CostName("cycle of the memory bus", "cycle"),
    "memory_latency": CostName("memory, from address to data", "block"),
    "cache_supply": CostName("cache supplies a block to the bus", "block"),
    "device_latency": CostName("NIC's memory, from address to data", "access"),
    "flush_instruction": CostName("instructions to flush a block", "block"),
    "reaction": CostName("NIC: from an invalidation to its request for the block", "block"),
    "queue_poll": CostName("NIC: from losing the block at a queue's head to reading it", "block"),
    "dma_init": CostName("NIC sets up its DMA engine", "transfer"),
    "dma_interrupt": CostName("NIC is interrupted at the end of a transfer", "transfer"),
    # network
    "retransmission": CostName("a dropped request comes again", "drop"),
    # delivery in virtual time: the host's part of a message
    "send_call": CostName("from the program's call to the first store to the ring", "message"),
    "pio_write": CostName("store a control message to the send ring", "message"),
    "pio_read": CostName("notice and read a control message in the receive ring", "message"),
    "pio_write_burst": CostName("the same from a shadow buffer, in bursts", "message"),
    "pio_read_burst": CostName("the same into a shadow buffer, in bursts", "message"),
    "block_copy_per_byte": CostName("copy by the CPU while DMA rests", "byte", by_byte=True),
    "block_copy_contended_per_byte": CostName(
        "copy by the CPU while DMA moves data", "byte", by_byte=True
    ),
    # delivery in virtual time: DMA, links, memory
    "pci_read_start": CostName("host memory to NIC, before the first byte", "transfer"),
    "pci_read_per_byte": CostName("host memory to NIC", "byte", by_byte=True),
    "pci_read_contended_per_byte": CostName(
        "host memory to NIC while the CPU does PIO or copies", "byte", by_byte=True
    ),
    "pci_write_start": CostName("NIC to host memory, before the first byte", "transfer"),
    "pci_write_per_byte": CostName("NIC to host memory", "byte", by_byte=True),
    "pci_write_contended_per_byte": CostName(
        "NIC to host memory while the CPU does PIO or copies", "byte", by_byte=True
    ),
    "link_start": CostName("NIC to the link, before the first byte", "transfer"),
    "link_per_byte": CostName("link, one direction", "byte", by_byte=True),
    "link_watchdog": CostName("longest that a packet may hold any part of its path", "packet"),
    "switch_hop": CostName("head of a packet through one switch", "switch"),
    "nic_memory_per_byte": CostName("to or from NIC memory", "byte", by_byte=True),
    # delivery in virtual time: the NIC's processor
    "firmware_start": CostName("start a transfer or take a message", "action"),
    "firmware_finish": CostName("hand a buffer back, or a message to the host", "action"),
    "firmware_accept": CostName("post the receive of a payload, beside that", "payload"),
    "firmware_log": CostName("log a transfer, while logging is on", "transfer"),
}


IN_US = {"us": Decimal(1)}
IN_US_OR_MS = {"us": Decimal(1), "ms": Decimal(1000)}
MS_PER_GIB = {"ms/GiB": Decimal(1000)}
IN_NS = {"ns": Decimal(1), "us": Decimal(1000)}
NS_IN_US = {"ns": Decimal("0.001")}
GB_PER_S = {"GB/s": Decimal(1), "Gb/s": Decimal(1) / 8}
# Beside what a page takes that is touched, pinned and entered, which registration states.
FAULT_COSTS: Known = {
    "nic_fault": ("a fault, from the NIC's event until it goes on", IN_US_OR_MS),
    "page_in": ("a page that is read from swap", IN_US),
    "advise": ("a call that advises of pages and waits until they are there", IN_US),
    "advise_later": ("a call that advises of pages and does not wait", IN_US),
    "invalidation": ("a page whose entry is taken from the NIC", IN_US),
}
# In nanoseconds.
NIC_COSTS: Known = {
    "post": ("an operation that a thread posts, without the doorbell", IN_NS),
    "doorbell": ("a doorbell", IN_NS),
    "lock_moved": ("a lock that another thread had before", IN_NS),
    "lock_waiter": ("a thread that waits for a lock while it is handed over", IN_NS),
    "completion": ("a completion that a thread takes", IN_NS),
    "fetch": ("a work request that comes from the host, between two of them", IN_NS),
    "fetch_latency": ("the wait for one", IN_NS),
    "context": ("a queue pair's context that comes from the host", IN_NS),
    "execute_read": ("a small read that the NIC executes", IN_NS),
    "execute_write": ("a small write that the NIC executes", IN_NS),
    "post_nixl": ("a descriptor that NIXL hands to its transport", IN_NS),
    "post_mooncake": ("a slice that Mooncake's transfer engine posts", IN_NS),
    "answer": ("the round trip of an operation, without the NIC that asked", IN_NS),
}
COUNTS: Known = {
    "lock_waiters": ("of the threads that wait, how many slow a lock down", {}),
    "work_requests": ("work requests that the NIC keeps", {}),
    "contexts": ("contexts that the NIC keeps", {}),
    "own_doorbells": ("registers that one queue pair each has", {}),
    "shared_doorbells": ("registers that the other queue pairs share", {}),
    "read_window": ("reads of a queue pair that may be on their way", {}),
    "packet_bytes": ("payload of a packet of the link", {}),
    "packet_header": ("bytes that it has besides", {}),
    "pcie_bytes": ("payload of a packet of PCIe", {}),
    "pcie_header": ("bytes that it has besides", {}),
}
RATES: Known = {
    "link": ("payload and headers of all links of a NIC", GB_PER_S),
    "pcie": ("payload and headers between NIC and host", GB_PER_S),
}
GENERATIONS = ("gen3", "gen4", "gen5")
PATH_COSTS: Known = {
    "access": ("an access to 4 KiB that the IOMMU translates at once", NS_IN_US),
    "walk_read": ("a read of a table by a walk of the IOMMU", NS_IN_US),
    "map": ("a call that maps a buffer for a device", IN_US),
    "unmap": ("a call that takes it away and waits until the IOMMU has forgotten it", IN_US),
    "dma_read": (
        "a read of the host's memory by the NIC, until the first bytes are there",
        NS_IN_US,
    ),
    "translation_request": ("a NIC that asks the IOMMU for a translation, by ATS", NS_IN_US),
    "ordered": ("4 KiB that a NIC writes into memory in the order of its writes", NS_IN_US),
    **dict.fromkeys(GENERATIONS, ("4 KiB over PCIe of that generation, 16 lanes", NS_IN_US)),
}
REGISTRATION_COSTS: Known = {
    "region": ("a region, whatever its size", IN_US_OR_MS),
    "fault": ("a page of the host that nobody has touched", IN_US),
    "zero": ("the zeroing of such pages", MS_PER_GIB),
    "pin": ("a page of the host, pinned and mapped for devices", IN_US),
    "entry": ("an entry of a NIC's table", IN_US),
    "deregister_entry": ("an entry that is revoked", IN_US),
    "backlog": ("memory that is registered already at the NIC", MS_PER_GIB),
    "lookup": ("a lookup in a library's registration cache", IN_US),
}


COPYING: Known = {
    "start": ("a copy into memory that is registered, whatever its size", IN_US),
    "bytes": ("the copying of memory that is there", MS_PER_GIB),
}
OF_A_PAGE = ("fault", "pin", "entry", "deregister_entry")


class NicCosts(RangedCosts, frozen=True):
    """Costs of a NIC's work in nanoseconds, its cache sizes, and why some are unknown."""

    def cost(self, name: str, end: int) -> float:
        """Nanoseconds of one; ``end``: 0 the lowest, 1 the highest.  Errors: ``PlatformError``."""
        if name not in self.costs:
            raise PlatformError(f"nic {self.name}: {name} is {self.not_applicable[name]}")
        return self.costs[name][end]

    def count(self, name: str, end: int) -> int:
        """A capacity or number; ``end`` as above.  Errors: ``PlatformError``."""
        return int(self.cost(name, end))

    def rate(self, name: str, end: int) -> float:
        """GB/s; ``end``: 0 the highest, 1 the lowest.  Errors: ``PlatformError``."""
        return self.cost(name, 1 - end)


RegistrationCosts = RangedCosts

# Each loads costs by catalog name, or from a ``.toml`` file.
_registering = {"costs": REGISTRATION_COSTS}
load_fault_costs = partial(load_ranged_costs, "faults", {"costs": FAULT_COSTS}, RangedCosts)
load_path_costs = partial(load_ranged_costs, "paths", {"costs": PATH_COSTS}, RangedCosts)
load_registration_costs = partial(load_ranged_costs, "registrations", _registering, RangedCosts)
_of_nics = {"costs": NIC_COSTS, "counts": COUNTS, "rates": RATES}
load_nic_costs = partial(load_ranged_costs, "nics", _of_nics, NicCosts)

fault_names = partial(shelf_names, "faults")
path_names = partial(shelf_names, "paths")
registration_names = partial(shelf_names, "registrations")
nic_names = partial(shelf_names, "nics")
hypothesis_names = partial(shelf_names, "hypotheses")


def registration_file(costs: RegistrationCosts) -> str:
    """``costs`` as TOML that ``load_registration_costs`` reads."""
    lines = [f"title = {_text(costs.title)}", f"description = {_text(costs.description)}"]
    if costs.limits.limits:
        lines.append(f"limits = {_text(costs.limits.name)}")
    tables = [("costs", costs.costs, costs.origins, REGISTRATION_COSTS)]
    for size, spans in costs.pages.items():
        origins = {name: costs.origins[f"{name} of {page_name(size)}"] for name in spans}
        tables.append((f"pages.{page_name(size)}", spans, origins, REGISTRATION_COSTS))
    if costs.copying:
        tables.append(("copying", costs.copying, costs.copying_origins, COPYING))
    for section, spans, origins, known in tables:
        lines += ["", f"[{section}]"]
        for name, span in spans.items():
            unit, factor = next(iter(known[name][1].items()))
            low, high = (f"{end / float(factor):.6g}" for end in span)
            value = low if low == high else f"[{low}, {high}]"
            lines.append(
                f'{name} = {{ value = {value}, unit = "{unit}", '
                f'evidence = "{origins[name].evidence.value}", '
                f"source = {_text(origins[name].source)} }}"
            )
    if costs.measured:
        lines += ["", "[measured]", *(f"{key} = {most}" for key, most in costs.measured.items())]
    for section, table in (("not_applicable", costs.not_applicable), ("sources", costs.sources)):
        if table:
            lines += ["", f"[{section}]"]
            lines += [f"{_text(key)} = {_text(text)}" for key, text in table.items()]
    return "\n".join(lines) + "\n"


def _text(given: str) -> str:
    """A basic string of TOML, which JSON's are but for what is no character of TOML."""
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


BYTES, ENTRIES = "bytes", "entries"
_WORDS = ("says", "stack", "counter", "cure")


class Hypothesis(msgspec.Struct, frozen=True):
    """A hypothesis why regions from some size on are slower than smaller ones."""

    name: str
    title: str
    says: str
    stack: str  # the library that it is of; "": any, as it is the NIC's or the driver's
    off_versions: tuple[str, ...]  # of that library
    of: str  # BYTES or ENTRIES of a region
    least: int  # from which on it is slow
    origin: Origin  # of that
    slows: Origin  # that what it says slows accesses
    counter: str
    cure: str

    def is_slow(self, region: int, page: int, stack: str, version: str) -> bool:
        """Whether a region of so many bytes is predicted to be slow."""
        if self.stack and self.stack != stack:
            return False
        if any(version == off or version.startswith(f"{off}.") for off in self.off_versions):
            return False
        return (region if self.of == BYTES else -(-region // page)) >= self.least


@TrimmedTraceback()
def load_hypothesis(name_or_path: str | Path) -> Hypothesis:
    """Load a hypothesis by catalog name, or from a ``.toml`` file.

    Errors: ``StudyError`` naming the file and the key that is wrong.
    """
    file = open_file("hypotheses", name_or_path, (*_WORDS, "threshold", "slows", "off"), StudyError)
    called = file.called
    threshold = read_table(file, "threshold", ("of", "from", "evidence", "source"), StudyError)
    of, least = threshold.get("of"), threshold.get("from")
    if of not in (BYTES, ENTRIES) or type(least) is not int or least < 1:
        raise StudyError(f"{called}: threshold: of must be bytes or entries, from a whole number")
    versions: list[str] = []
    if "off" in file.content:
        off = read_table(file, "off", ("versions", "evidence", "source"), StudyError)
        read_origin(off, file.sources, f"{called}: off", StudyError)
        given: Any = off.get("versions")
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise StudyError(f"{called}: off: versions must be a list of texts")
        versions = given
    slows = Origin(Evidence.ASSUMED, f"assumed: {called} does not say why")
    if "slows" in file.content:
        table = read_table(file, "slows", ("evidence", "source"), StudyError)
        slows = read_origin(table, file.sources, f"{called}: slows", StudyError)
    return Hypothesis(
        name=file.name,
        title=file.title,
        off_versions=tuple(versions),
        of=of,
        least=least,
        origin=read_origin(threshold, file.sources, f"{called}: threshold", StudyError),
        slows=slows,
        **{key: read_text(file.content, key, "", called, StudyError) for key in _WORDS},
    )
