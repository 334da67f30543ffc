"""Registering ahead or paging on demand: summary, three tables, odp.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of
from nicscope.reports.registration import spelt_seconds
from nicscope.reports.result import Report, table_of_rows
from nicscope.reports.wording import (
    byte_size,
    evidence_classes,
    in_words,
    of_trace,
    significant,
    whole,
)
from nicscope.studies.paging_on_demand import MOST_TOLD, Demand, DemandReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.config.costs import Span

US = 1e-6  # seconds
_PREFETCHED = {
    "none": "no advice",
    "sync": "advice that is waited for",
    "async": "advice ahead",
}


class ShownDemand(Report):
    """A trace, registered ahead and paged on demand."""

    found: DemandReport
    drawn: ClassVar = {"waits": "rdma.draw_waits", "resident": "rdma.draw_resident"}
    topic = "odp"

    def summary(self) -> list[str]:
        """Which is cheaper, when registering has paid, and what the slowest requests wait."""
        ahead, best = self.found.ahead, self.best()
        told = [*self._cheaper(best)]
        if not ahead.fits:
            told.append(
                f"Registered ahead, {byte_size(ahead.pages * self.found.page)} would be pinned, "
                "more than may be resident: it would fail."
            )
        told.append(self._tail(best))
        worst = max(self.found.demand, key=lambda one: one.waits.high)
        if worst is not best:
            told.append(
                f"The worst is {_called(worst)}: requests wait {spelt_seconds(worst.waits)}."
            )
            if not best.counts["faults"]:
                told.append(self._tail(worst))
        return told

    def best(self) -> Demand:
        """The on-demand configuration with the least waiting time."""
        return min(self.found.demand, key=lambda one: (one.waits.high, one.behind.high))

    def _cheaper(self, best: Demand) -> Iterator[str]:
        ahead = self.found.ahead
        once, takes = spelt_seconds(ahead.seconds), byte_size(ahead.pages * self.found.page)
        waits = f"requests wait {spelt_seconds(best.waits)} with {_called(best)}"
        if ahead.seconds.high < best.waits.low:
            yield f"Registering {takes} ahead is cheaper: {once} once, where {waits}."
        elif best.waits.high < ahead.seconds.low:
            yield f"Paging on demand is cheaper: {waits}; registering {takes} ahead takes {once}."
        else:
            yield (
                f"The known ranges of costs overlap: registering {takes} ahead takes {once}, and "
                f"{waits}."
            )
        earliest, latest = best.pays_after
        if earliest is None:
            yield "Within this trace registering does not pay."
        elif latest is None:
            many = in_words(earliest, "request")
            yield f"Registering pays after {many} of a node at the earliest."
        else:
            till = "" if latest == earliest else f" to {whole(latest)}"
            many = "request" if latest == 1 else "requests"
            yield f"Registering pays after {whole(earliest)}{till} {many} of a node."

    def _tail(self, best: Demand) -> str:
        counts, fault = best.counts, self.found.fault_costs.each("nic_fault")
        faulting = counts["faulting_requests"]
        if not faulting:
            return "Then no request faults."
        share = 100 * faulting / counts["requests"]
        p99, most = best.tail["p99"], counts["most_faults"]
        told = f"{significant(share)} % of requests fault"
        if p99:
            told += f", so the 99th of 100 waits {_of_faults(p99, fault)}"
        return f"{told}; the longest waits {_of_faults(most, fault)} for {in_words(most, 'fault')}."

    def parts(self) -> Iterator[Printed]:
        """Tables: what each way takes, and what the machine's own counters would show."""
        found, ahead = self.found, self.found.ahead
        yield heading(
            f"{of_trace(found.trace)}, "
            f"{in_words(ahead.pages, 'page')} of {byte_size(found.page)} in "
            f"{in_words(ahead.regions, 'region')}"
        )
        yield way_rows(found)
        yield wait_rows(found)
        yield counter_rows(found)
        yield remark(
            f"Registered ahead: {byte_size(ahead.pages * found.page)} in "
            f"{spelt_seconds(ahead.seconds)}, then no request waits. Costs: "
            f"{found.costs!r} of registration, {found.fault_costs.name!r} of faults "
            f"({evidence_classes(found.fault_costs.origins)})."
        )
        yield remark(
            "On the machine: ibv_devinfo -v (odp_caps), rdma statistic show mr, and a run with "
            "and without IBV_ACCESS_ON_DEMAND."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way of paging."""
        rows = (
            {
                "fault_bytes": each.way.fault_bytes,
                "advice": each.way.prefetch,
                "advice_ahead": each.way.ahead,
                "resident_bytes": each.way.resident_bytes,
                **each.counts,
                **each.counters,
                "wait_s_low": each.waits.low,
                "wait_s_high": each.waits.high,
                "behind_s_low": each.behind.low,
                "behind_s_high": each.behind.high,
                "registering_s_low": self.found.ahead.seconds.low,
                "registering_s_high": self.found.ahead.seconds.high,
                "pays_after_earliest": each.pays_after[0],
                "pays_after_latest": each.pays_after[1],
                **{f"faults_{name}": count for name, count in each.tail.items()},
            }
            for each in self.found.demand
        )
        yield "odp", table_of_rows(rows, words=("advice",))


def way_rows(found: DemandReport) -> Rows:
    """A row for each on-demand configuration: faults and bytes moved."""
    own = _ways(found)
    moved = {
        "from swap": lambda one: whole(
            one.counts["major_pages"] + one.counts["prefetched_major_pages"]
        )
    }
    return rows_of(
        "By way of paging",
        found.demand,
        {
            **own,
            "faults": lambda one: whole(one.counts["faults"]),
            "faulting": _share,
            "p99.9": lambda one: _faults(one.tail["p99.9"]),
            **(moved if _is_limited(found) else {}),
        },
        words=(*own,),
        key=len(own),
        least=("p99.9", *(moved if _is_limited(found) else {}), "faulting"),
    )


def wait_rows(found: DemandReport) -> Rows:
    """A row for each on-demand configuration: waiting time and background work."""
    own, fault = _ways(found), found.fault_costs.each("nic_fault")
    return rows_of(
        "What requests wait",
        found.demand,
        {
            **own,
            "requests wait": lambda one: spelt_seconds(one.waits),
            "99th waits": lambda one: _of_faults(one.tail["p99"], fault),
            "longest waits": lambda one: _of_faults(one.counts["most_faults"], fault),
            "ahead pays after": _pays,
            "behind them": lambda one: spelt_seconds(one.behind) if one.behind.high else "",
        },
        words=(*own,),
        key=len(own),
        least=("99th waits", "longest waits", "ahead pays after", "behind them"),
    )


def _is_limited(found: DemandReport) -> bool:
    return any(one.way.resident_bytes is not None for one in found.demand)


def _ways(found: DemandReport) -> dict[str, Any]:
    """The columns that identify a row's configuration."""
    limit = {"resident": _resident} if _is_limited(found) else {}
    return {"a fault brings": _piece, "advice": _advice, **limit}


def counter_rows(found: DemandReport) -> Rows:
    """A row for each configuration, as ``rdma statistic`` shows the regions."""
    names, own = [*found.demand[0].counters], _ways(found)

    def shown(name: str) -> Any:
        return lambda one: whole(one.counters[name])

    return rows_of(
        "As rdma statistic counts it",
        found.demand,
        {
            **own,
            **{name: shown(name) for name in names if not name.endswith("invalidations_handled")},
        },
        words=(*own,),
        key=len(own),
    )


def way_name(one: Demand, *, limited: bool = True) -> str:
    """A short name of a configuration; ``limited``: with its memory limit."""
    told = f"{_piece(one)}, {_advice(one)}"
    if one.way.prefetch == "none":
        told = f"{_piece(one)}, no advice"
    within = limited and one.way.resident_bytes is not None
    return f"{told}, within {_resident(one)}" if within else told


def _advice(one: Demand) -> str:
    way = one.way
    return f"async, {way.ahead} ahead" if way.prefetch == "async" else way.prefetch


def _piece(one: Demand) -> str:
    size = one.way.fault_bytes
    return "its request" if size is None else byte_size(size)


def _resident(one: Demand) -> str:
    size = one.way.resident_bytes
    return "any" if size is None else byte_size(size)


def _share(one: Demand) -> str:
    return f"{significant(100 * one.counts['faulting_requests'] / one.counts['requests'])} %"


def _pays(one: Demand) -> str:
    return " to ".join(whole(end) for end in one.pays_after if end is not None)


def _faults(count: int) -> str:
    return f"{MOST_TOLD:,}+" if count >= MOST_TOLD else whole(count)


def _of_faults(count: int, fault: Span) -> str:
    """The time of so many faults, as a range."""
    more = "at least " if count >= MOST_TOLD else ""
    return more + spelt_seconds(type(fault)(count * fault.low * US, count * fault.high * US))


def _called(one: Demand) -> str:
    brings = (
        "faults that bring their request"
        if one.way.fault_bytes is None
        else f"faults of {byte_size(one.way.fault_bytes)}"
    )
    limit = (
        f" within {byte_size(one.way.resident_bytes)}" if one.way.resident_bytes is not None else ""
    )
    return f"{brings} and {_PREFETCHED[one.way.prefetch]}{limit}"
