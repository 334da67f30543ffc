"""Costs of present-day RDMA: registration, faults, NICs, memory paths, hypotheses."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.costs import (
    Evidence,
    File,
    Known,
    Origin,
    RangedCosts,
    check_known_keys,
    load_ranged_costs,
    open_file,
    read_origin,
)
from nicscope.config.toml_files import read_text, shelf_names
from nicscope.errors import PlatformError, StudyError
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from pathlib import Path


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
    threshold = _table(file, "threshold", ("of", "from", "evidence", "source"))
    of, least = threshold.get("of"), threshold.get("from")
    if of not in (BYTES, ENTRIES) or type(least) is not int or least < 1:
        raise StudyError(f"{called}: threshold: of must be bytes or entries, from a whole number")
    versions: list[str] = []
    if "off" in file.content:
        off = _table(file, "off", ("versions", "evidence", "source"))
        read_origin(off, file.sources, f"{called}: off", StudyError)
        given: Any = off.get("versions")
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise StudyError(f"{called}: off: versions must be a list of texts")
        versions = given
    slows = Origin(Evidence.ASSUMED, f"assumed: {called} does not say why")
    if "slows" in file.content:
        table = _table(file, "slows", ("evidence", "source"))
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


def _table(file: File, key: str, known: tuple[str, ...]) -> dict[str, Any]:
    table = file.content.get(key)
    if not isinstance(table, dict):
        raise StudyError(f"{file.called}: {key} must be a table of {', '.join(known)}")
    check_known_keys(table, known, f"{file.called}: {key}", StudyError)
    return table
