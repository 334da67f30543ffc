"""``nicscope rdma odp``: registering memory ahead against paging it in by the NIC's faults.

Counts are the driver's; what they take is counts times costs, of registration and of faults, each
a range.  What requests wait for is kept apart from what is done meanwhile.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import RangedCosts, Span
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.drivers.on_demand import OnDemandReplay, Paged, Paging, Touched
from nicscope.errors import StudyError, did_you_mean
from nicscope.host.on_demand import MOST_FAULTS, WHOLE
from nicscope.studies.registering import GIB, LARGEST_PAGE, SMALLEST_PAGE
from nicscope.studies.sources import RowsDone, extent_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.traces.reader import Trace

REQUEST = "request"
NONE = "none"
PREFETCHES = (NONE, "sync", "async")
MOST_AHEAD = 1 << 20
MOST_TOLD = MOST_FAULTS  # faults of a request that are told apart from more
MOST_RESIDENT = 1 << 31  # pages
US = 1e-6  # seconds
TAIL = (50, 99, 99.9)  # of 100 requests


class Way(NamedTuple):
    """One configuration of on-demand paging."""

    fault_bytes: int | None  # None: a fault brings what is left of its request
    prefetch: str
    ahead: int  # requests, if async
    resident_bytes: int | None  # of a node; None: all that is touched

    def paging(self, page: int) -> Paging:
        """The configuration as the driver takes it."""
        pages = None if self.fault_bytes is None else max(self.fault_bytes // page, 1)
        bits = WHOLE if pages is None else pages.bit_length() - 1
        kept = None if self.resident_bytes is None else self.resident_bytes // page
        ahead = self.ahead if self.prefetch == "async" else 0
        return Paging(bits, self.prefetch != NONE, ahead, kept)


class Costs(NamedTuple):
    """The costs of registration and faults."""

    registration: RangedCosts
    faults: RangedCosts
    page: int  # bytes
    touched: bool  # by the program, before the NIC comes

    def page_us(self, end: int) -> float:
        """Mapping a page for the NIC, the program's own first touch excluded."""
        return sum(self.registration.each(name, self.page)[end] for name in ("pin", "entry"))

    def minor_us(self, end: int) -> float:
        """Faulting in a page that is not in swap."""
        if self.touched:
            return self.page_us(end)
        zero = self.registration.each("zero")[end] * self.page / GIB
        return self.page_us(end) + self.registration.each("fault", self.page)[end] + zero

    def major_us(self, end: int) -> float:
        """Faulting in a page that is in swap."""
        return self.page_us(end) + self.faults.each("page_in")[end]


class Ahead(NamedTuple):
    """Registering everything that requests touch before the first one."""

    pages: int
    regions: int
    fits: bool  # into what may be resident
    seconds: Span


class Demand(NamedTuple):
    """One configuration of on-demand paging, and its costs."""

    way: Way
    counts: dict[str, int]
    waits: Span  # seconds that requests wait in all, over nodes
    behind: Span  # seconds of the hosts' CPUs that nobody waits for
    pays_after: tuple[int | None, int | None]  # requests of a node, at the earliest and the latest
    tail: dict[str, int]  # faults of a request, of those that have fewest to most

    @property
    def counters(self) -> dict[str, int]:
        """The region's counters in ``rdma statistic``: pages, and handled calls."""
        counts = self.counts
        return {
            "page_faults": counts["fault_range_pages"],
            "page_faults_handled": counts["faults"],
            "page_invalidations": counts["invalidated_pages"],
            "page_invalidations_handled": counts["invalidated_pages"],
            "page_prefetch": counts["advised_pages"],
        }

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            **self.way._asdict(),
            "counts": self.counts,
            "rdma_statistic": self.counters,
            "waits_s": list(self.waits),
            "behind_s": list(self.behind),
            "ahead_pays_after_requests": list(self.pays_after),
            "faults_of_a_request": self.tail,
        }


class DemandReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, registered ahead and paged on demand."""

    trace: dict[str, Any]
    page: int
    touched: bool
    ahead: Ahead
    demand: list[Demand]
    costs: str
    fault_costs: Any  # RangedCosts

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        ahead = self.ahead
        return {
            "trace": self.trace,
            "page_size": self.page,
            "touched": self.touched,
            "costs": self.costs,
            "fault_costs": self.fault_costs.name,
            "evidence": {
                name: origin.to_json() for name, origin in self.fault_costs.origins.items()
            },
            "registered_ahead": {
                "pages": ahead.pages,
                "regions": ahead.regions,
                "fits": ahead.fits,
                "seconds": list(ahead.seconds),
            },
            "on_demand": [each.to_json() for each in self.demand],
        }


def page_bytes(given: str | int) -> int:
    """The host's page size.  Errors: ``StudyError`` for what is none."""
    page = given if isinstance(given, int) else read_bytes(given)
    if not page or not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
        raise StudyError(
            f"--page-size must be a power of two from {SMALLEST_PAGE} to {LARGEST_PAGE} bytes, "
            f"{BYTE_SPELLINGS}; got {given!r}"
        )
    return page


def ways(fault_bytes: str, prefetch: str, ahead: int, resident: str, page: int) -> list[Way]:
    """Parse the options into configurations.  Errors: ``StudyError`` naming the option."""
    if not 1 <= ahead <= MOST_AHEAD:
        raise StudyError(f"--ahead must be from 1 to {MOST_AHEAD}, got {ahead}")
    for each in prefetch.split(","):
        if each not in PREFETCHES:
            raise StudyError(f"--prefetch: no {each!r}{did_you_mean(each, PREFETCHES)}")
    pieces = [_piece(each, page) for each in fault_bytes.split(",")]
    kept = [_resident(each, page) for each in resident.split(",")]
    return [
        Way(piece, how, ahead if how == "async" else 0, limit)
        for limit, piece, how in itertools.product(kept, pieces, prefetch.split(","))
    ]


def _piece(text: str, page: int) -> int | None:
    if text == REQUEST:
        return None
    count = read_bytes(text)
    if not count or count & (count - 1) or count < page:
        raise StudyError(
            f"--fault-bytes must be {REQUEST}, or powers of two from the page size of {page} on, "
            f"{BYTE_SPELLINGS}; got {text!r}"
        )
    return count


def _resident(text: str, page: int) -> int | None:
    if text == NONE:
        return None
    count = read_bytes(text)
    if not count or not page <= count < MOST_RESIDENT * page:
        raise StudyError(
            f"--resident must be {NONE}, or bytes from the page size of {page} on, "
            f"{BYTE_SPELLINGS}; got {text!r}"
        )
    return count


def page_on_demand(
    trace: Trace,
    tried: Sequence[Way],
    costs: Costs,
    watch: Callable[[int, int], None] | None = None,
) -> DemandReport:
    """Run every request under each configuration; ``watch`` counts rows."""
    replay = OnDemandReplay(
        [each.paging(costs.page) for each in tried], costs.page.bit_length() - 1
    )
    nodes: set[int] = set()
    rows = 0
    for batch in RowsDone(watch, trace.rows).through(trace):
        replay.feed(batch)
        nodes.update(set(batch.node.tolist()) - nodes)
        rows += len(batch.length)
    replay.finish()
    touched = replay.touched()
    demand = [
        _demand(way, paged, touched, costs)
        for way, paged in zip(tried, replay.paged(), strict=True)
    ]
    most = max(each.pages for each in touched) * costs.page
    fits = all(way.resident_bytes is None or most <= way.resident_bytes for way in tried)
    every = Touched(sum(each.pages for each in touched), sum(each.runs for each in touched))
    return DemandReport(
        trace=extent_of(trace, rows, len(nodes)),
        page=costs.page,
        touched=costs.touched,
        ahead=Ahead(every.pages, every.runs, fits, _registering(every, costs)),
        demand=demand,
        costs=costs.registration.name,
        fault_costs=costs.faults,
    )


def _registering(touched: Touched, costs: Costs) -> Span:
    """Seconds to register everything, each run of adjacent pages as a region."""
    ends = [
        touched.runs * costs.registration.each("region")[end] + touched.pages * costs.minor_us(end)
        for end in (0, 1)
    ]
    return Span(ends[0] * US, ends[1] * US)


def _demand(way: Way, paged: Sequence[Paged], touched: Sequence[Touched], costs: Costs) -> Demand:
    counts = {name: sum(each.counts[name] for each in paged) for name in paged[0].counts}
    counts["most_faults"] = max(each.counts["most_faults"] for each in paged)
    waiting = [_waits(way, counts, costs, end) for end in (0, 1)]
    behind = [_background_us(way, counts, costs, end) for end in (0, 1)]
    return Demand(
        way,
        counts,
        Span(waiting[0] * US, waiting[1] * US),
        Span(behind[0] * US, behind[1] * US),
        _break_even(way, paged, touched, costs),
        _tail([each.by_faults for each in paged]),
    )


def _waits(way: Way, counts: Mapping[str, Any], costs: Costs, end: int) -> Any:
    """Microseconds that requests wait, for counts that are numbers or arrays."""
    faults = costs.faults
    waits = (
        counts["faults"] * faults.each("nic_fault")[end]
        + counts["minor_pages"] * costs.minor_us(end)
        + counts["major_pages"] * costs.major_us(end)
    )
    if way.prefetch == "sync":
        return (
            waits
            + counts["advices"] * faults.each("advise")[end]
            + _prefetch_us(counts, costs, end)
        )
    return waits + counts["advices"] * faults.each("advise_later")[end]


def _background_us(way: Way, counts: Mapping[str, Any], costs: Costs, end: int) -> float:
    """Microseconds of host CPU time in the background."""
    behind = counts["invalidated_pages"] * costs.faults.each("invalidation")[end]
    if way.prefetch == "async":
        behind += counts["advices"] * costs.faults.each("advise")[end]
        behind += _prefetch_us(counts, costs, end)
    return float(behind)


def _prefetch_us(counts: Mapping[str, Any], costs: Costs, end: int) -> Any:
    """Microseconds for prefetched pages."""
    minor = counts["prefetched_minor_pages"] * costs.minor_us(end)
    return minor + counts["prefetched_major_pages"] * costs.major_us(end)


def _break_even(
    way: Way, paged: Sequence[Paged], touched: Sequence[Touched], costs: Costs
) -> tuple[int | None, int | None]:
    """The number of a node's requests after which registering ahead is cheaper: lowest and highest.

    Of the node whose requests wait longest; None where that is never so.
    """
    worst = max(range(len(paged)), key=lambda node: _waits(way, paged[node].counts, costs, 1))
    once = _registering(touched[worst], costs)
    notes = paged[worst].notes
    fields = {name: notes[name] for name in notes.dtype.names or ()}
    last = {name: np.array([count]) for name, count in paged[worst].counts.items()}
    found = []
    for end in (1, 0):  # faults at their dearest against registering at its cheapest, and so on
        spent = np.concatenate((_waits(way, fields, costs, end), _waits(way, last, costs, end)))
        asked = np.concatenate((fields["requests"], last["requests"]))
        later = np.flatnonzero(spent * US > once[1 - end])
        found.append(int(asked[later[0]]) if len(later) else None)
    return found[0], found[1]


def _tail(by_faults: Sequence[NDArray[np.int64]]) -> dict[str, int]:
    """Percentiles (``TAIL``) of faults per request; ``MOST_TOLD`` means that or more."""
    sums = np.zeros(MOST_FAULTS + 1, np.int64)
    for each in by_faults:
        sums[: len(each)] += each
    reached = np.cumsum(sums)
    requests = int(reached[-1])
    return {
        f"p{share:g}": int(np.searchsorted(reached, np.ceil(requests * share / 100)))
        for share in TAIL
    }
