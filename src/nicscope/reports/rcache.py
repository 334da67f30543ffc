"""Results of registration caches: summary, table, caches.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Report, table_of_rows
from nicscope.reports.wording import (
    between,
    byte_size,
    evidence_classes,
    in_words,
    of_trace,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.registering import CacheReport, Library, Used

_AS_COLUMNS = {"regions": "kept_regions", "bytes": "kept_bytes"}
ON_THE_MACHINE = (
    "On the machine: rdma resource show mr (regions, and their mrlen), once and again; "
    "UCX_RCACHE_MAX_REGIONS and FI_MR_CACHE_MAX_COUNT set these limits. Whether a buffer that was "
    "given back and mapped anew is found stale is not in a trace of requests."
)
LITTLE = 1.0  # percent of requests that register


class ShownCaches(Report):
    """Registration caches over one trace."""

    found: CacheReport
    topic = "rcache"
    drawn: ClassVar = {"caches": "rdma.draw_caches"}

    def summary(self) -> list[str]:
        """Which cache registers least, and whether any of them thrashes."""
        used = self.found.used
        best = min(used, key=lambda each: (each.us_high, each.counts["most_bytes"]))
        told = [
            f"{_called(best.library).capitalize()} costs least: {_share(best)} of requests find "
            f"their buffer registered, for {byte_size(best.counts['most_bytes'])} kept registered."
        ]
        thrashing = [each for each in used if _thrashes(each)]
        if thrashing:
            worst = max(thrashing, key=lambda each: each.us_high)
            told.append(
                f"{_called(worst.library).capitalize()} thrashes: it registers "
                f"{in_words(worst.counts['registrations'], 'time')} and deregisters "
                f"{whole(worst.deregistrations)}."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each cache."""
        trace = self.found.trace
        yield heading(f"{of_trace(trace)}, {self.found.processes:,} with a cache each")
        yield cache_rows(self.found)
        yield remark(
            f"us per request: a lookup and what registering takes, by the costs "
            f"{self.found.costs.name!r} ({evidence_classes(self.found.costs.origins)})."
        )
        yield remark(ON_THE_MACHINE)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each cache."""
        rows = (
            {
                "policy": each.library.policy,
                "alignment_bytes": each.library.alignment,
                "regions_limit": each.library.entries,
                "bytes_limit": each.library.most_bytes,
                **{_AS_COLUMNS.get(name, name): count for name, count in each.counts.items()},
                "registration_us_low": each.us_low,
                "registration_us_high": each.us_high,
            }
            for each in self.found.used
        )
        yield "caches", table_of_rows(rows, words=("policy",))


def cache_rows(found: CacheReport) -> Rows:
    """A row for each cache."""
    return rows_of(
        "By cache",
        found.used,
        {
            "policy": lambda one: one.library.policy,
            "limit": lambda one: "" if one.library.entries is None else whole(one.library.entries),
            "found": _share,
            "registered": lambda one: whole(one.counts["registrations"]),
            "dropped": lambda one: whole(one.deregistrations),
            "regions": lambda one: whole(one.counts["most_regions"]),
            "kept": lambda one: byte_size(one.counts["most_bytes"]),
            "us per request": lambda one: between(one.us_low, one.us_high),
        },
        words=("policy",),
        key=2,
        grouped=True,
        least=("regions", "dropped"),
    )


def _share(one: Used) -> str:
    return f"{one.hit_percent:.1f} %"


def _called(library: Library) -> str:
    limit = "" if library.entries is None else f" of at most {library.entries:,} regions"
    return (
        f"a cache with {library.policy} keys{limit}"
        if library.policy != "merge"
        else (f"a cache that merges{limit}")
    )


def _thrashes(one: Used) -> bool:
    """Whether much of what it registers had been registered before."""
    counts = one.counts
    return (
        counts["evicted"] > counts["most_regions"]
        and counts["registrations"] * 100 > LITTLE * counts["lookups"]
    )
