"""Replayed designs compared: tables of misses, costs and memory, by cache level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nicscope.config.design import Scheme
from nicscope.reports.printing import Bar, Piece, Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Report, table_of_rows, tidy
from nicscope.reports.wording import (
    KIND_COLOURS,
    KIND_TEXTURES,
    byte_size,
    in_words,
    listed,
    per_hundred,
    significant,
    us_per,
    whole,
)
from nicscope.studies.replaying import Comparison, Counter, Priced, Tool, counters_of, rates
from nicscope.studies.sources import COUNT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from nicscope.studies.connection_replay import ConnectionCounts
    from nicscope.studies.pricing import Denominator


class MissRates(NamedTuple):
    """NI misses per 100 lookups or requests: total, by path, and by kind, which add up."""

    design: str
    misses: float
    by_path: dict[str, float]
    by_kind: dict[str, float]


def _cost_of_one(comparison: Comparison, priced: Priced) -> str:
    per, cost = comparison.denominator, priced.cost
    if priced.platform is None:
        return "No platform is named, so nothing is priced."
    if not cost.is_known:
        return f"What a {per.value} costs is unknown: {cost.reason}."
    us = us_per(per, cost)
    if cost.is_lower_bound:
        return f"A {per.value} costs at least {us.removeprefix('≥ ')} us: {cost.reason}."
    return f"A {per.value} costs {us} us on {priced.platform}."


def _costs_of_several(comparison: Comparison) -> list[str]:
    per = comparison.denominator
    able = [
        (bounds[1], priced)
        for priced in comparison.priced
        if not priced.cost.is_lower_bound and not priced.total("rejected")
        if (bounds := priced.cost.per_us(priced.cost.count_of(per))) is not None
    ]
    if not able:
        return ["No design has a whole price; the least that is known of each is marked ≥."]
    cheapest = min(able, key=lambda one: one[0])[1]
    told = (
        f"Of the designs with a whole price {cheapest.name} is the cheapest: "
        f"{us_per(per, cheapest.cost)} us per {per.value} on {cheapest.platform}"
    )
    others = {priced.platform for _, priced in able}
    if len(others) > 1:
        told += "; prices are of several machines, and --platform NAME takes one for all"
    return [f"{told}."]


class _Table(NamedTuple):
    """One of the two tables of one design's NICs."""

    design: str
    name: str
    entries: int
    lookups: int
    missed: int
    missed_again: int | None  # None: there is no level 1
    fetched: int


def level_rows(comparison: Comparison) -> Rows | None:
    """A row for each table of each RDMA NIC; None if there is none."""
    rows = [row for priced in comparison.priced for row in _tables_of(priced)]
    if not rows:
        return None
    return rows_of(
        "Tables in host memory, and what levels on the NIC had of them",
        rows,
        {
            "design": lambda one: one.design,
            "table": lambda one: one.name,
            "entries": lambda one: whole(one.entries),
            "lookups": lambda one: whole(one.lookups),
            "missed at L0": lambda one: whole(one.missed),
            "missed at L1": lambda one: (
                "none" if one.missed_again is None else whole(one.missed_again)
            ),
            "fetched": lambda one: whole(one.fetched),
        },
        words=("design", "table"),
        key=2,
        least=("entries",),
    )


def _tables_of(priced: Priced) -> list[_Table]:
    design, total = priced.result.design, priced.result.total
    if design.scheme is not Scheme.RNIC:
        return []
    counts = {name: count or 0 for name, count in total.items()}
    has_level = {
        "mtt": design.l1_entries is not None,
        "mpt": bool(design.l1_shared) or design.mpt_l1_entries is not None,
    }
    entries = {"mtt": counts["mtt_entries"], "mpt": counts["regions"]}
    fetched = {"mtt": counts["ni_misses"], "mpt": counts["icm_fetches"] - counts["ni_misses"]}
    return [
        _Table(
            *(priced.name, called, entries[table]),
            counts[f"{table}_l0_hits"] + counts[f"{table}_l0_misses"],
            counts[f"{table}_l0_misses"],
            counts[f"{table}_l1_misses"] if has_level[table] else None,
            fetched[table],
        )
        for table, called in (("mtt", "pages"), ("mpt", "regions"))
    ]


def connection_rows(found: ConnectionCounts) -> Rows:
    """What an RDMA NIC looked up of its connections, and how often it had not kept it."""
    total = found.total
    return rows_of(
        "What the NIC keeps of connections",
        [
            ("contexts", "context", found.contexts),
            ("work requests", "work_request", found.work_requests),
        ],
        {
            "kept": lambda row: row[0],
            "at most": lambda row: whole(row[2]),
            "lookups": lambda row: whole(total[f"{row[1]}_lookups"]),
            "hits": lambda row: whole(total[f"{row[1]}_lookups"] - total[f"{row[1]}_misses"]),
            "misses": lambda row: whole(total[f"{row[1]}_misses"]),
        },
        words=("kept",),
    )


def connection_notes(found: ConnectionCounts) -> list[str]:
    """What a connection is here, and requests of which the trace does not say theirs."""
    total = found.total
    lines = [
        f"{in_words(total['connections'], 'connection')} ({found.rule}), each with up to "
        f"{in_words(found.outstanding, 'outstanding request')}; replacement is {found.replacement}"
    ]
    if total["unknown_connections"]:
        lines.append(
            f"{in_words(total['unknown_connections'], 'request')} without a connection, left out "
            "of contexts and work requests"
        )
    return lines


def registered_notes(comparison: Comparison) -> list[str]:
    """Host memory of each RDMA NIC's tables."""
    lines = []
    for priced in comparison.priced:
        if priced.result.design.scheme is Scheme.RNIC:
            size = byte_size(priced.total("icm_bytes") or 0)
            lines.append(f"{priced.name}: the tables take {size} of host memory")
    return lines


# Why a request is no access that a region allows, by what is counted of it.
_REFUSED = {
    "rejected_unregistered": "outside of any region",
    "rejected_rights": "against a region's rights",
    "rejected_deregistered": "after deregistration",
}


def registration_notes(comparison: Comparison) -> list[str]:
    """The effect of a trace's registrations, and the designs that ignore them."""
    if not comparison.registrations:
        return []
    lines, ignoring = [], []
    for priced in comparison.priced:
        if priced.result.design.scheme is not Scheme.RNIC:
            ignoring.append(priced.name)
            continue
        counts = {name: count or 0 for name, count in priced.result.total.items()}
        lines.append(
            f"{priced.name}: {in_words(counts['pin_calls'], 'region')} registered as the trace "
            f"says, {whole(counts['unpin_calls'])} deregistered, which emptied "
            f"{whole(counts['entries_invalidated'])} places of the NIC's caches"
        )
        if counts["rejected"]:
            reasons = (
                f"{whole(counts[name])} {why}" for name, why in _REFUSED.items() if counts[name]
            )
            lines.append(
                f"{priced.name}: {in_words(counts['rejected'], 'request')} refused for protection: "
                f"{', '.join(reasons)}"
            )
    if ignoring:
        lines.append(
            f"{listed(ignoring)}: no regions; what the trace registers "
            f"({in_words(comparison.registrations, 'row')}) changes nothing there"
        )
    return lines


def counter_rows(title: str, counters: list[Counter]) -> Rows:
    """A row for each counter of each design."""
    return rows_of(
        f"Counters by the names of {title}",
        counters,
        {
            "design": lambda one: one.design,
            "counter": lambda one: one.name,
            "counted": lambda one: whole(one.value),
        },
        words=("design", "counter"),
        key=2,
    )


_KINDS = {
    "compulsory": "ni_misses_compulsory",
    "invalidated": "ni_misses_invalidated",
    "capacity": "ni_misses_capacity",
    "conflict": "ni_misses_conflict",
}
_WITHOUT_KINDS = {
    "compulsory": "ni_misses_compulsory",
    "not compulsory": "ni_misses_noncompulsory",
}
PS_PER_US = 10**6
COLUMNS = {  # of the first table: a row per design
    "design": "string",
    "scheme": "string",
    "platform": "string",
    "page_size_bytes": "int64",
    **dict.fromkeys(COUNT_NAMES, "int64"),  # null: not counted
    "miss_ratio": "float64",
    "misses_per_request": "float64",
    **{
        f"{cost}_{end}": "float64"
        for cost in ("cost_us", "cost_us_per_lookup", "cost_us_per_request")
        for end in ("low", "high")
    },
    "cost_bound": "string",
    "cost_unpriced": "string",
    "cost_evidence": "string",
    "nic_memory_bytes": "int64",
    "pinned_host_bytes": "int64",
}
COMPONENTS = {  # a row per design and part of its cost
    "design": "string",
    "platform": "string",
    "component": "string",
    "cost": "string",
    "events": "int64",
    "part_us_low": "float64",
    "part_us_high": "float64",
    "cost_evidence": "string",
    "source": "string",
}


def kind_names(comparison: Comparison) -> list[str]:
    """The kinds of misses that were counted separately."""
    return list(_KINDS if comparison.kinds else _WITHOUT_KINDS)


def miss_rates(comparison: Comparison) -> list[MissRates]:
    """Rates of every design, in the order of the comparison."""
    kinds = _KINDS if comparison.kinds else _WITHOUT_KINDS
    per = comparison.denominator
    return [
        MissRates(
            priced.name,
            _rate(priced, "ni_misses", per),
            {path: _rate(priced, f"ni_misses_{path}", per) for path in ("send", "receive")},
            {kind: _rate(priced, count, per) for kind, count in kinds.items()},
        )
        for priced in comparison.priced
    ]


def _rate(priced: Priced, name: str, per: Denominator) -> float:
    count, parts = priced.total(name), priced.cost.count_of(per)
    assert count is not None
    return 100 * count / parts if parts else 0.0


HARDLY = 100  # a structure of less than one part in this many
FEW = 2  # designs whose unpriced steps are spelt out


def headline(comparison: Comparison) -> str:
    """The trace's lookups, by the page sizes of the designs."""
    trace = comparison.trace
    (first, count), *others = sorted(comparison.lookups.items())
    parts = [in_words(trace["requests"], "request")]
    parts.append(f"{in_words(count, 'lookup')} of {byte_size(first)} pages")
    parts += [f"{whole(more)} of {byte_size(size)} pages" for size, more in others]
    return ", ".join([*parts, in_words(trace["nodes"], "node")])


def miss_rows(comparison: Comparison) -> Rows:
    """NI misses per 100 lookups (or requests), by path and by kind."""
    found = miss_rates(comparison)
    most = max(rates.misses for rates in found)
    return Rows(
        f"NI misses per 100 {comparison.denominator.plural}",
        ["design", "all", "send", "receive", *kind_names(comparison)],
        [
            [
                rates.design,
                *map(per_hundred, (rates.misses, *rates.by_path.values(), *rates.by_kind.values())),
            ]
            for rates in found
        ],
        bars=[_bar(rates, most) for rates in found],
    )


def _bar(rates: MissRates, most: float) -> Bar:
    """The kinds of misses as a bar, scaled to the design with ``most`` misses."""
    return Bar(
        tuple(
            Piece(KIND_TEXTURES[kind], KIND_COLOURS[kind], rate / most if most else 0.0)
            for kind, rate in rates.by_kind.items()
        )
    )


def work_rows(comparison: Comparison) -> Rows:
    """The host's work, and the cost of translation."""
    per = comparison.denominator
    return rows_of(
        "Host work and time (evidence: of the weakest price)",
        comparison.priced,
        {
            "design": lambda one: one.name,
            "pins": lambda one: whole(one.total("pins")),
            "unpins": lambda one: whole(one.total("unpins")),
            "interrupts": lambda one: whole(one.total("interrupts")),
            f"us per {per.value}": lambda one: us_per(per, one.cost),
            "evidence": lambda one: one.weakest_evidence.value if one.weakest_evidence else "none",
            "platform": lambda one: one.platform or "none",
        },
        words=("design", "evidence", "platform"),
        least=("platform", "unpins", "evidence", "pins", "interrupts"),
    )


def memory_rows(comparison: Comparison) -> Rows:
    """NIC memory by structure, and pinned host memory."""
    return rows_of(
        "Memory",
        comparison.priced,
        {
            "design": lambda one: one.name,
            "on the NIC": lambda one: byte_size(one.nic_bytes),
            "pinned in hosts": lambda one: byte_size(one.pinned_host_bytes),
            "NIC memory by structure": lambda one: (
                _structures(one.result.nic_memory_bytes) or "none: the host's kernel translates"
            ),
        },
        words=("design", "NIC memory by structure"),
        least=("NIC memory by structure",),
    )


def component_rows(priced: Priced) -> Rows:
    """The components of the cost of one design, which add up to it."""
    return rows_of(
        f"Time of {priced.name} on {priced.platform or 'no platform'}, by component",
        priced.cost.components,
        {
            "component": lambda part: part.name,
            "events": lambda part: whole(part.count),
            "us each": lambda part: _span(*(float(bound) / 1e6 for bound in part.unit_ps)),
            "us in all": lambda part: _span(part.low_ps / 1e6, part.high_ps / 1e6),
            "evidence": lambda part: part.evidence.value,
            "source": lambda part: part.source,
        },
        words=("component", "evidence", "source"),
        least=("source", "us each", "events", "evidence"),
    )


def notes(comparison: Comparison) -> list[str]:
    """Caveats that the tables do not show: rejected requests, steps without a price."""
    lines = []
    for priced in comparison.priced:
        if priced.total("rejected"):
            lines.append(f"{priced.name}: {_rejected(priced)}")
        if priced.total("dropped"):
            lines.append(f"{priced.name}: {whole(priced.total('dropped'))} requests sent again")
    bounds = [priced for priced in comparison.priced if priced.cost.unpriced]
    if len(comparison.priced) <= FEW:
        lines += [
            f"{priced.name}: no price for {step.name} ({whole(step.count)} times): {step.why}"
            for priced in bounds
            for step in priced.cost.unpriced
        ]
    elif bounds:
        lines.append(
            "≥ or unknown: a step that happened has no published price; "
            "--design NAME tells which, --platform another machine's prices"
        )
    return lines


def _structures(sizes: dict[str, int]) -> str:
    """The structures, largest first; several small ones are merged."""
    large: dict[str, int] = {}
    small: dict[str, int] = {}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        place = small if size * HARDLY < sum(sizes.values()) else large
        place[name] = size
    if len(small) > 1:
        small = {"rest": sum(small.values())}
    return ", ".join(f"{name} {byte_size(size)}" for name, size in (large | small).items())


def _rejected(priced: Priced) -> str:
    count = priced.total("rejected")
    what = "page" if priced.result.design.scheme.value == "static" else "request"
    return f"{whole(count)} {what}{'s' if count != 1 else ''} rejected"


def _span(low: float, high: float) -> str:
    return significant(low) if low == high else f"{significant(low)} to {significant(high)}"


class ReplayReport(Report):
    """A comparison: tables and bars, counts.parquet and three figures."""

    found: Comparison
    topic = "replay"
    drawn: ClassVar = {
        "misses": "designs.draw_misses",
        "costs": "designs.draw_costs",
        "memory": "designs.draw_memory",
    }

    @property
    def comparison(self) -> Comparison:
        """The comparison."""
        return self.found

    def summary(self) -> list[str]:
        """How much NICs miss, and what that costs."""
        comparison, rates = self.found, miss_rates(self.found)
        per = comparison.denominator
        if len(rates) == 1:
            [one], [priced] = rates, comparison.priced
            missed = f"Of 100 {per.plural}, {one.design}'s NIC misses {per_hundred(one.misses)}"
            first = one.by_kind["compulsory"]
            if one.misses:
                missed += f"; {per_hundred(first)} are first uses, which no size of cache avoids"
            return [f"{missed}.", _cost_of_one(comparison, priced)]
        nothing = [one.design for one in rates if not one.misses]
        ordered = sorted((one for one in rates if one.misses), key=lambda one: one.misses)
        told = []
        if nothing:
            told.append(f"{listed(nothing)} {'miss' if len(nothing) > 1 else 'misses'} nothing")
        if len(ordered) == 1:
            told.append(f"{ordered[0].design} misses {per_hundred(ordered[0].misses)}")
        elif ordered and per_hundred(ordered[0].misses) == per_hundred(ordered[-1].misses):
            whose = "each" if nothing else "every design"
            told.append(f"{whose} misses {per_hundred(ordered[0].misses)}")
        elif ordered:
            least, most = ordered[0], ordered[-1]
            told.append(
                f"{least.design} misses {per_hundred(least.misses)}, the fewest, and {most.design} "
                f"{per_hundred(most.misses)}, the most"
            )
        missed = f"Of 100 {per.plural} on the NIC {'; of the others '.join(told)}."
        return [missed, *_costs_of_several(comparison)]

    def parts(self) -> Iterator[Printed]:
        """The trace, its misses, the work of the hosts, memory, and what the tables do not say."""
        found = self.found
        yield _headline(found)
        yield miss_rows(found)
        yield _legend(found)
        yield work_rows(found)
        yield memory_rows(found)
        levels = level_rows(found)
        if levels is not None:
            yield levels
        if found.connections is not None:
            yield connection_rows(found.connections)
        if found.tool is not None:
            counters = self._counters(found.tool)
            if counters:
                yield counter_rows(found.tool.title, counters)
            yield remark(f"{found.tool.title} does not show {found.tool.without}.")
        if len(found.priced) == 1 and found.priced[0].cost.components:
            yield component_rows(found.priced[0])
        lines = [*notes(found), *registered_notes(found), *registration_notes(found)]
        if found.connections is not None:
            lines += connection_notes(found.connections)
        if lines:
            yield ""
        for line in lines:
            yield remark(line)

    def _counters(self, tool: Tool) -> list[Counter]:
        results = [priced.result for priced in self.found.priced]
        return counters_of(tool, [(result.design, result.total) for result in results])

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row per design; per design, node and count; per design and part of its cost."""
        yield "designs", table_of_rows(map(_row, self.found.priced), COLUMNS)
        counts = (
            (priced.name, node["node"], name, value)
            for priced in self.found.priced
            for node in priced.result.nodes
            for name, value in node.items()
            if name != "node"
        )
        kinds = {"design": "string", "node": "int32", "count": "string", "value": "int64"}
        yield "counts", tidy(kinds, counts)
        parts = [
            (
                *(priced.name, priced.platform, part.name, part.cost, part.count),
                *(part.low_ps / PS_PER_US, part.high_ps / PS_PER_US),
                *(part.evidence.value, part.source),
            )
            for priced in self.found.priced
            for part in priced.cost.components
        ]
        yield "components", tidy(COMPONENTS, parts)
        if self.found.connections is not None:
            rows = (
                (node["node"], name, value)
                for node in self.found.connections.nodes
                for name, value in node.items()
                if name != "node"
            )
            yield "connections", tidy({"node": "int32", "count": "string", "value": "int64"}, rows)


def _row(priced: Priced) -> dict[str, Any]:
    """A design's row of the first table."""
    design = priced.result.design
    return {
        **rates(priced),
        **priced.result.total,
        "design": design.name,
        "scheme": design.scheme.value,
        "nic_memory_bytes": priced.nic_bytes,
    }


def _headline(comparison: Comparison) -> Text:
    name = heading(Path(comparison.trace["file"]).name)
    return name.append(f": {headline(comparison)}", style="not bold")


def _legend(comparison: Comparison) -> Text:
    from rich.text import Text

    legend = Text()
    for kind in kind_names(comparison):
        legend.append(KIND_TEXTURES[kind] * 2, style=KIND_COLOURS[kind]).append(f" {kind}   ")
    return legend
