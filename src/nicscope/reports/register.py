"""Registration times of pools: summary, table, registrations.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Report
from nicscope.reports.wording import (
    byte_size,
    evidence_classes,
    in_words,
    listed,
    significant,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.config.costs import Span
    from nicscope.reports.printing import Printed
    from nicscope.studies.registering import Pool, RegisterReport, Registration


LITTLE = 0.001  # seconds
MATTERS = 0.05  # of the time, that joining regions has to save to be worth telling
_JOINED = {
    "none": "each line by itself",
    "exact": "what is listed twice once",
    "range": "what touches or overlaps as one range",
}
_ON_THE_MACHINE = (
    "On the machine: the time around ibv_reg_mr; rdma resource show mr (regions, mrlen); "
    "icm_consumption of devlink's vnic reporter (the tables, in units of 4 KiB)."
)


class ShownRegistrations(Report):
    """Pools and their registration times."""

    found: RegisterReport
    topic = "register"
    drawn: ClassVar = {"registrations": "rdma.draw_times", "parts": "rdma.draw_parts"}

    def summary(self) -> list[str]:
        """What the first way takes, what the shortest does, and where most of the time goes."""
        every = self.found.found
        first, best = every[0], min(every, key=lambda each: each.total.high)
        told = [*_joining_advice(every)]
        told += [f"{_called(first.pool)} takes {spelt_seconds(first.total)}, {_mostly(first)}."]
        if best is not first:
            other = _differences_from_first(best.pool, first.pool)
            told.append(f"Shortest is {other}: {spelt_seconds(best.total)}.")
        if best.pool.touched and not first.pool.touched:
            told.append("To touch it before takes its own time, where nobody waits for it.")
        beyond = {text: None for one in every for text in one.beyond}
        return [*told, *(f"Beyond a limit: {each}." for each in beyond)]

    def parts(self) -> Iterator[Printed]:
        """A table: each way."""
        pool = self.found.found[0].pool
        yield heading(
            f"{byte_size(pool.byte_count)} in {in_words(len(pool.regions), 'region')}, "
            f"costs {self.found.costs.name}: {self.found.costs.title}"
        )
        yield way_rows(self.found)
        if self.found.costs.not_applicable:
            absent = [*self.found.costs.not_applicable]
            yield remark(f"Not applicable here: {listed(absent)}.")
        yield remark(
            f"Costs: {self.found.costs.name!r} ({evidence_classes(self.found.costs.origins)})."
        )
        if told := _extrapolated(self.found):
            yield remark(told)
        yield remark(_ON_THE_MACHINE)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way."""
        import pyarrow as pa

        rows = []
        for each in self.found.found:
            pool = each.pool
            row: dict[str, Any] = {
                "page_size_bytes": pool.page,
                "registration_cache": pool.cache,
                "nics": pool.nics,
                "threads": pool.threads,
                "nics_at_once": pool.at_once,
                "touched": pool.touched,
                "pool_bytes": pool.byte_count,
                "pool_regions": len(pool.regions),
                "pool_pages": pool.pages,
                "table_bytes": each.table_bytes,
            }
            spans = {**each.parts, "total": each.total, "deregister": each.deregister}
            for name, span in spans.items():
                key = f"register_{name.lower()}_s"
                row[f"{key}_low"], row[f"{key}_high"] = span
            rows.append(row)
        yield "registrations", pa.Table.from_pylist(rows)


def way_rows(found: RegisterReport) -> Rows:
    """A row for each way."""
    cached = {one.pool.cache for one in found.found} != {"none"}
    return rows_of(
        "Seconds",
        found.found,
        {
            **({"cache": lambda one: one.pool.cache} if cached else {}),
            "page": lambda one: byte_size(one.pool.page),
            "regions": lambda one: whole(len(one.pool.regions)),
            "NICs": lambda one: f"{one.pool.nics}{' at once' if one.pool.at_once else ''}",
            "threads": lambda one: whole(one.pool.threads),
            "touched": lambda one: "yes" if one.pool.touched else "no",
            "table": lambda one: byte_size(one.table_bytes),
            "touching": lambda one: _span(one.parts["touching"]),
            "pinning": lambda one: _span(one.parts["pinning"]),
            "entering": lambda one: _span(one.parts["NICs"]),
            "other": lambda one: _other(one),
            "in all": lambda one: _span(one.total),
            "deregister": lambda one: _span(one.deregister),
        },
        words=("page", "NICs", "touched", "cache"),
        key=5 + cached,
        least=("deregister", "table", "other", "pinning", "touching", "entering"),
    )


def _other(one: Registration) -> str:
    low = one.parts["regions"].low + one.parts["backlog"].low
    high = one.parts["regions"].high + one.parts["backlog"].high
    return _ends(low, high)


def _span(span: Span) -> str:
    return _ends(span.low, span.high)


def _ends(low: float, high: float) -> str:
    """Seconds; empty where not applicable, small values without digits."""
    if not high:
        return ""
    first, last = (significant(end) if end >= LITTLE else "<0.001" for end in (low, high))
    return first if first == last else f"{first}–{last}"  # noqa: RUF001 - from, to


def spelt_seconds(span: Span) -> str:
    """Seconds, or milliseconds where they are less than one."""
    if span.high < 1:
        first, last = significant(1000 * span.low), significant(1000 * span.high)
        unit = "ms"
    else:
        first, last, unit = significant(span.low), significant(span.high), "s"
    return f"{first} {unit}" if first == last else f"{first} to {last} {unit}"


def _called(pool: Pool) -> str:
    nics = in_words(pool.nics, "NIC")
    order = "" if pool.nics == 1 else ", all at once" if pool.at_once else ", one after the other"
    there = "touched before" if pool.touched else "never touched"
    return (
        f"Registering {byte_size(pool.byte_count)} in pages of {byte_size(pool.page)}, {there}, at "
        f"{nics}{order}, with {in_words(pool.threads, 'thread')}"
    )


def _mostly(one: Registration) -> str:
    doing = {
        "regions": "the calls themselves",
        "touching": "touching the memory",
        "pinning": "pinning",
        "NICs": "entering it into the NICs' tables",
        "backlog": "what is registered already",
    }
    most = dict.fromkeys(max(one.parts, key=lambda part: one.parts[part][end]) for end in (0, 1))
    return f"most of it for {' or '.join(doing[name] for name in most)}"


def _joining_advice(every: list[Registration]) -> Iterator[str]:
    """Whether joining the list's regions pays, where both were asked for."""
    caches = list(dict.fromkeys(one.pool.cache for one in every))
    if len(caches) < 2:
        return
    alike = every[0].pool._replace(regions=(), cache="")
    ways = [one for one in every if one.pool._replace(regions=(), cache="") == alike]
    worst = max(ways, key=lambda one: one.total.high)
    best = min(ways, key=lambda one: (one.total.high, len(one.pool.regions)))
    saves = worst.total.high - best.total.high > MATTERS * worst.total.high
    much, little = (in_words(len(one.pool.regions), "region") for one in (worst, best))
    if saves:
        yield (
            f"Register {_JOINED[best.pool.cache]}: {little} {_takes(best)} "
            f"{spelt_seconds(best.total)}, {much} {spelt_seconds(worst.total)}."
        )
    else:
        yield (
            f"How regions are joined hardly matters here: {little} {_takes(best)} "
            f"{spelt_seconds(best.total)}, {much} {spelt_seconds(worst.total)}."
        )


def _takes(one: Registration) -> str:
    return "takes" if len(one.pool.regions) == 1 else "take"


def _extrapolated(found: RegisterReport) -> str:
    """Which options exceed the range of the measured costs, in a sentence."""
    words = {
        "nics": lambda most: in_words(most, "NIC"),
        "threads": lambda most: in_words(most, "thread"),
        "page": lambda most: f"pages of {byte_size(most)}",
    }
    named = {key: None for one in found.found for key in one.extrapolated}
    if not named:
        return ""
    those = listed([words[key](found.costs.measured[key]) for key in words if key in named])
    told = f"Extrapolated: costs are known of up to {those}."
    if "page" in named:
        told += " A larger page is taken at the price of such a one."
    if {"nics", "threads"} & {*named}:
        told += " Of more, low ends go on in proportion, high ends gain nothing."
    return told


def _differences_from_first(pool: Pool, first: Pool) -> str:
    """The options in which a pool differs from the first."""
    told = []
    if len(pool.regions) != len(first.regions):
        told.append(in_words(len(pool.regions), "region"))
    if pool.page != first.page:
        told.append(f"pages of {byte_size(pool.page)}")
    if pool.nics != first.nics:
        told.append(in_words(pool.nics, "NIC"))
    if pool.touched != first.touched:
        told.append("memory touched before" if pool.touched else "memory never touched")
    if pool.threads != first.threads:
        told.append(in_words(pool.threads, "thread"))
    if pool.at_once != first.at_once:
        told.append("all NICs at once" if pool.at_once else "one NIC after the other")
    return listed(told)
