"""What registration caches of libraries make of a trace: ``nicscope rcache``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.drivers.registration import UNLIMITED, RegistrationReplay, Rules
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.sources import RowsDone, extent_of, numbers, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.rdma_costs import RegistrationCosts
    from nicscope.traces.reader import Trace

POLICIES = ("exact", "page", "merge")
PAGE = 4096
# UCX: RCACHE_ADDR_ALIGN, between 16 bytes and a page, is a cache line unless it is set.
CACHE_LINE = 64
MOST_ENTRIES = 1 << 26
NONE = "none"


class Library(NamedTuple):
    """One cache that is tried."""

    policy: str
    alignment: int
    entries: int | None  # regions at most; None: any number
    most_bytes: int | None

    def rules(self) -> Rules:
        """The same for the driver."""
        return Rules(
            self.alignment,
            self.policy == "merge",
            UNLIMITED if self.entries is None else self.entries,
            UNLIMITED if self.most_bytes is None else self.most_bytes,
        )


class Used(NamedTuple):
    """What became of the requests with one of them."""

    library: Library
    counts: dict[str, int]
    us_low: float  # per request, on registration alone
    us_high: float

    @property
    def hit_percent(self) -> float:
        """Requests whose buffer was registered already."""
        return 100 * self.counts["hits"] / max(self.counts["lookups"], 1)

    @property
    def deregistrations(self) -> int:
        """Regions that had to go."""
        return self.counts["evicted"] + self.counts["overlapped"] + self.counts["uncached"]


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and what every library made of it."""

    trace: dict[str, Any]
    processes: int
    used: list[Used]
    costs: Any  # RegistrationCosts
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "processes": self.processes,
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in self.costs.origins.items()},
            "libraries": [
                {
                    **each.library._asdict(),
                    **each.counts,
                    "deregistrations": each.deregistrations,
                    "registration_us_low": each.us_low,
                    "registration_us_high": each.us_high,
                }
                for each in self.used
            ],
            "repeat": self.repeat,
        }


def libraries(
    policies: str, entries: str, align: str | None = None, most_bytes: str | None = None
) -> list[Library]:
    """The caches that options name.  Errors: ``StudyError`` naming the option.

    ``entries``: ``none``, numbers with commas between, or LOW..HIGH, which doubles from one to
    the other.
    """
    found = []
    limit = None if most_bytes is None else _bytes("--bytes", most_bytes)
    alignment = None if align is None else _bytes("--align", align)
    if alignment is not None and alignment & (alignment - 1):
        raise StudyError(f"--align must be a power of two, got {align}")
    for policy in policies.split(","):
        if policy not in POLICIES:
            raise StudyError(f"--policy: no {policy!r}{did_you_mean(policy, POLICIES)}")
        usual = {"exact": 1, "page": PAGE, "merge": CACHE_LINE}[policy]
        found += [Library(policy, alignment or usual, each, limit) for each in _entries(entries)]
    return found


def _bytes(option: str, text: str) -> int:
    count = read_bytes(text)
    if not count:
        raise StudyError(f"{option} must be bytes, {BYTE_SPELLINGS}; got {text!r}")
    return count


def _entries(text: str) -> list[int | None]:
    if NONE in text.split(","):
        words = text.split(",")
        return [None if each == NONE else _numbers(each)[0] for each in words]
    return [*_numbers(text)]


def _numbers(text: str) -> list[int]:
    return numbers("--entries", text, MOST_ENTRIES, "none, ")


def use_caches(
    trace: Trace,
    tried: Sequence[Library],
    costs: RegistrationCosts,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> CacheReport:
    """Take every request's buffer to each library's cache; ``watch`` hears of rows done."""
    replay = RegistrationReplay([each.rules() for each in tried])
    nodes: set[int] = set()
    rows = 0
    for batch in RowsDone(watch, trace.rows).through(trace):
        replay.feed(batch)
        nodes.update(set(batch.node.tolist()) - nodes)
        rows += len(batch.length)
    used = [
        _priced(library, counts, costs)
        for library, counts in zip(tried, replay.counts(), strict=True)
    ]
    return CacheReport(
        trace=extent_of(trace, rows, len(nodes)),
        processes=replay.processes,
        used=used,
        costs=costs,
        repeat=repeat(command),
    )


def _priced(library: Library, counts: dict[str, int], costs: RegistrationCosts) -> Used:
    """What registration takes for each request, whose pages are there and have 4 KiB."""
    pages, gone = counts["registered_pages"], counts["deregistered_pages"]
    ends = []
    for end in (0, 1):
        total = (
            counts["lookups"] * costs.each("lookup")[end]
            + counts["registrations"] * costs.each("region")[end]
            + pages * (costs.each("pin")[end] + costs.each("entry")[end])
            + gone * costs.each("deregister_entry")[end]
        )
        ends.append(total / max(counts["lookups"], 1))
    return Used(library, counts, *ends)
