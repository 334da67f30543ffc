"""Costs of RDMA on machines of today: registration, faults, NICs, paths to memory, hypotheses."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.costs import (
    MS,
    NS,
    US,
    Evidence,
    Origin,
    RangedCosts,
    Span,
    load_ranged_costs,
    only_known,
    read_origin,
    read_span,
)
from nicscope.config.shelf import open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import PlatformError, StudyError
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nicscope.config.costs import Known


# Beside what a page takes that is touched, pinned and entered, which registration states.
FAULT_COSTS: Known = {
    "nic_fault": ("a fault, from the NIC's event until it goes on", {"us": US, "ms": MS}),
    "page_in": ("a page that is read from swap", {"us": US}),
    "advise": ("a call that advises of pages and waits until they are there", {"us": US}),
    "advise_later": ("a call that advises of pages and does not wait", {"us": US}),
    "invalidation": ("a page whose entry is taken from the NIC", {"us": US}),
}


def fault_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("faults")


@ToldPlainly()
def load_fault_costs(name_or_path: str | Path) -> RangedCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    return load_ranged_costs("faults", FAULT_COSTS, name_or_path)


IN_NS = {"ns": Decimal(1), "us": Decimal(1000)}
# What one of it is of, and the units that it may be stated in, each as nanoseconds.
NIC_COSTS: dict[str, tuple[str, dict[str, Decimal]]] = {
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
COUNTS = {
    "lock_waiters": "of the threads that wait, how many slow a lock down",
    "work_requests": "work requests that the NIC keeps",
    "contexts": "contexts that the NIC keeps",
    "own_doorbells": "registers that one queue pair each has",
    "shared_doorbells": "registers that the other queue pairs share",
    "read_window": "reads of a queue pair that may be on their way",
    "packet_bytes": "payload of a packet of the link",
    "packet_header": "bytes that it has besides",
    "pcie_bytes": "payload of a packet of PCIe",
    "pcie_header": "bytes that it has besides",
}
RATES = {
    "link": "payload and headers of all links of a NIC",
    "pcie": "payload and headers between NIC and host",
}
GB_PER_S = {"GB/s": Decimal(1), "Gb/s": Decimal(1) / 8}
_NIC_SECTIONS = ("title", "description", "costs", "counts", "rates", "not_applicable", "sources")
_MOST = 1 << 40


class NicCosts(msgspec.Struct, frozen=True):
    """What a NIC's work takes, in nanoseconds, and how much it keeps; and why some is unknown."""

    name: str
    title: str
    description: str
    costs: dict[str, Span]
    counts: dict[str, tuple[int, int]]
    rates: dict[str, Span]  # GB/s
    origins: dict[str, Origin]
    not_applicable: dict[str, str]

    def cost(self, name: str, end: int) -> float:
        """Nanoseconds of one; ``end``: 0 the least, 1 the most.  Errors: ``PlatformError``."""
        if name not in self.costs:
            raise PlatformError(f"nic {self.name}: {name} is {self.not_applicable[name]}")
        return self.costs[name][end]

    def count(self, name: str, end: int) -> int:
        """How many; ``end`` as above.  Errors: ``PlatformError``."""
        if name not in self.counts:
            raise PlatformError(f"nic {self.name}: {name} is {self.not_applicable[name]}")
        return self.counts[name][end]

    def rate(self, name: str, end: int) -> float:
        """GB/s; ``end``: 0 the highest, 1 the lowest.  Errors: ``PlatformError``."""
        if name not in self.rates:
            raise PlatformError(f"nic {self.name}: {name} is {self.not_applicable[name]}")
        return self.rates[name][1 - end]


def nic_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("nics")


@ToldPlainly()
def load_nic_costs(name_or_path: str | Path) -> NicCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf("nics", name_or_path, PlatformError)
    only_known(content, _NIC_SECTIONS, called, PlatformError)
    sources = read_texts(content, "sources", called, PlatformError)
    absent = read_texts(content, "not_applicable", called, PlatformError)
    only_known(absent, (*NIC_COSTS, *COUNTS, *RATES), f"{called}: not_applicable", PlatformError)
    origins: dict[str, Origin] = {}
    costs = {
        key: read_span(NIC_COSTS[key][1], cell, where)
        for key, cell, where in _cells(
            content, "costs", NIC_COSTS, absent, sources, called, origins
        )
    }
    counts = {
        key: _read_count(cell, where)
        for key, cell, where in _cells(content, "counts", COUNTS, absent, sources, called, origins)
    }
    rates = {
        key: read_span(GB_PER_S, cell, where)
        for key, cell, where in _cells(content, "rates", RATES, absent, sources, called, origins)
    }
    return NicCosts(
        name=name,
        title=read_text(content, "title", name, called, PlatformError),
        description=read_text(content, "description", "", called, PlatformError),
        costs=costs,
        counts=counts,
        rates=rates,
        origins=origins,
        not_applicable=absent,
    )


def _cells(
    content: Mapping[str, Any],
    section: str,
    known: Mapping[str, Any],
    absent: Mapping[str, str],
    sources: Mapping[str, str],
    called: str,
    origins: dict[str, Origin],
) -> list[tuple[str, Any, str]]:
    """Key, cell and place of each that is stated; fills ``origins``."""
    cells = content.get(section, {})
    if not isinstance(cells, dict) or not cells:
        raise PlatformError(f"{called}: has no [{section}]; state {', '.join(known)}")
    only_known(cells, known, f"{called}: {section}", PlatformError)
    found = []
    for key in known:
        if (key in cells) == (key in absent):
            what = "is stated and not applicable" if key in cells else "is not stated"
            raise PlatformError(f"{called}: {key} {what}; give it a value, or say why it has none")
        if key in cells:
            where = f"{called}: {section}.{key}"
            if not isinstance(cells[key], dict):
                raise PlatformError(f"{where} must be a table of value, evidence and source")
            origins[key] = read_origin(cells[key], sources, where, PlatformError)
            found.append((key, cells[key], where))
    return found


def _read_count(cell: Mapping[str, Any], where: str) -> tuple[int, int]:
    given: Any = cell.get("value")
    ends: list[Any] = given if isinstance(given, list) else [given, given]
    if len(ends) != 2 or any(type(end) is not int or not 0 <= end <= _MOST for end in ends):
        raise PlatformError(f"{where}: value must be a whole number, or the least and the most")
    if ends[0] > ends[1]:
        raise PlatformError(f"{where}: {ends[0]} is more than {ends[1]}; give the least first")
    return ends[0], ends[1]


GENERATIONS = ("gen3", "gen4", "gen5")
PATH_COSTS: Known = {
    "access": ("an access to 4 KiB that the IOMMU translates at once", {"ns": NS}),
    "walk_read": ("a read of a table by a walk of the IOMMU", {"ns": NS}),
    "map": ("a call that maps a buffer for a device", {"us": US}),
    "unmap": ("a call that takes it away and waits until the IOMMU has forgotten it", {"us": US}),
    "dma_read": (
        "a read of the host's memory by the NIC, until the first bytes are there",
        {"ns": NS},
    ),
    **{name: ("4 KiB over PCIe of that generation, 16 lanes", {"ns": NS}) for name in GENERATIONS},
}


def path_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("paths")


@ToldPlainly()
def load_path_costs(name_or_path: str | Path) -> RangedCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    return load_ranged_costs("paths", PATH_COSTS, name_or_path)


# What one of it is of, and the units that it may be stated in, each as microseconds.
REGISTRATION_COSTS: Known = {
    "region": ("a region, whatever its size", {"us": Decimal(1), "ms": Decimal(1000)}),
    "fault": ("a page of the host that nobody has touched", {"us": Decimal(1)}),
    "zero": ("the zeroing of such pages", {"ms/GiB": Decimal(1000)}),
    "pin": ("a page of the host, pinned and mapped for devices", {"us": Decimal(1)}),
    "entry": ("an entry of a NIC's table", {"us": Decimal(1)}),
    "deregister_entry": ("an entry that is revoked", {"us": Decimal(1)}),
    "backlog": ("memory that is registered already at the NIC", {"ms/GiB": Decimal(1000)}),
    "lookup": ("a lookup in a library's registration cache", {"us": Decimal(1)}),
}
RegistrationCosts = RangedCosts


def registration_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("registrations")


@ToldPlainly()
def load_registration_costs(name_or_path: str | Path) -> RegistrationCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    return load_ranged_costs("registrations", REGISTRATION_COSTS, name_or_path, limited=True)


def registration_file(costs: RegistrationCosts) -> str:
    """``costs`` as a file that ``load_registration_costs`` reads."""
    lines = [f"title = {_text(costs.title)}", f"description = {_text(costs.description)}"]
    if costs.limits.limits:
        lines.append(f"limits = {_text(costs.limits.name)}")
    lines += ["", "[costs]"]
    for name, span in costs.costs.items():
        unit, factor = next(iter(REGISTRATION_COSTS[name][1].items()))
        low, high = (f"{end / float(factor):.6g}" for end in span)
        value = low if low == high else f"[{low}, {high}]"
        origin = costs.origins[name]
        lines.append(
            f'{name} = {{ value = {value}, unit = "{unit}", '
            f'evidence = "{origin.evidence.value}", source = {_text(origin.source)} }}'
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
_HYPOTHESIS_SECTIONS = (
    "title",
    "says",
    "stack",
    "counter",
    "cure",
    "threshold",
    "slows",
    "off",
    "sources",
)


class Hypothesis(msgspec.Struct, frozen=True):
    """One reason why regions from some size on may be slower than smaller ones."""

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
        """Whether a region of so many bytes would be slow."""
        if self.stack and self.stack != stack:
            return False
        if any(version == off or version.startswith(f"{off}.") for off in self.off_versions):
            return False
        return (region if self.of == BYTES else -(-region // page)) >= self.least


def hypothesis_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("hypotheses")


@ToldPlainly()
def load_hypothesis(name_or_path: str | Path) -> Hypothesis:
    """The hypothesis of that name in the catalog, or that of a ``.toml`` file.

    Errors: ``StudyError`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf("hypotheses", name_or_path, StudyError)
    only_known(content, _HYPOTHESIS_SECTIONS, called, StudyError)
    sources = read_texts(content, "sources", called, StudyError)
    threshold = _table(content, "threshold", ("of", "from", "evidence", "source"), called)
    of, least = threshold.get("of"), threshold.get("from")
    if of not in (BYTES, ENTRIES) or type(least) is not int or least < 1:
        raise StudyError(f"{called}: threshold: of must be bytes or entries, from a whole number")
    versions: list[str] = []
    if "off" in content:
        off = _table(content, "off", ("versions", "evidence", "source"), called)
        read_origin(off, sources, f"{called}: off", StudyError)
        given: Any = off.get("versions")
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise StudyError(f"{called}: off: versions must be a list of texts")
        versions = given
    words = {
        key: read_text(content, key, "", called, StudyError)
        for key in ("says", "stack", "counter", "cure")
    }
    return Hypothesis(
        name=name,
        title=read_text(content, "title", name, called, StudyError),
        off_versions=tuple(versions),
        of=of,
        least=least,
        origin=read_origin(threshold, sources, f"{called}: threshold", StudyError),
        slows=_slows(content, sources, called),
        **words,
    )


def _slows(content: Any, sources: dict[str, str], called: str) -> Origin:
    """Why what a hypothesis says would slow accesses; assumed where it does not tell."""
    if "slows" not in content:
        return Origin(Evidence.ASSUMED, f"assumed: {called} does not say why")
    table = _table(content, "slows", ("evidence", "source"), called)
    return read_origin(table, sources, f"{called}: slows", StudyError)


def _table(content: Any, key: str, known: tuple[str, ...], called: str) -> dict[str, Any]:
    table = content.get(key)
    if not isinstance(table, dict):
        raise StudyError(f"{called}: {key} must be a table of {', '.join(known)}")
    only_known(table, known, f"{called}: {key}", StudyError)
    return table
