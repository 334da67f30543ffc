"""What work requests cost at a NIC of today, and how much it keeps: each with its evidence."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.evidence import Origin, only_known, read_origin
from nicscope.config.ranged_costs import Span, read_span
from nicscope.config.shelf import open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import PlatformError
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NS = {"ns": Decimal(1), "us": Decimal(1000)}
# What one of it is of, and the units that it may be stated in, each as nanoseconds.
COSTS: dict[str, tuple[str, dict[str, Decimal]]] = {
    "post": ("an operation that a thread posts, without the doorbell", NS),
    "doorbell": ("a doorbell", NS),
    "lock_moved": ("a lock that another thread had before", NS),
    "lock_waiter": ("a thread that waits for a lock while it is handed over", NS),
    "completion": ("a completion that a thread takes", NS),
    "fetch": ("a work request that comes from the host, between two of them", NS),
    "fetch_latency": ("the wait for one", NS),
    "context": ("a queue pair's context that comes from the host", NS),
    "execute_read": ("a small read that the NIC executes", NS),
    "execute_write": ("a small write that the NIC executes", NS),
    "post_nixl": ("a descriptor that NIXL hands to its transport", NS),
    "post_mooncake": ("a slice that Mooncake's transfer engine posts", NS),
    "answer": ("the round trip of an operation, without the NIC that asked", NS),
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
_SECTIONS = ("title", "description", "costs", "counts", "rates", "not_applicable", "sources")
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
    only_known(content, _SECTIONS, called, PlatformError)
    sources = read_texts(content, "sources", called, PlatformError)
    absent = read_texts(content, "not_applicable", called, PlatformError)
    only_known(absent, (*COSTS, *COUNTS, *RATES), f"{called}: not_applicable", PlatformError)
    origins: dict[str, Origin] = {}
    costs = {
        key: read_span(COSTS[key][1], cell, where)
        for key, cell, where in _cells(content, "costs", COSTS, absent, sources, called, origins)
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
