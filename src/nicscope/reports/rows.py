"""A comparison as rows of text, for a terminal and for a notebook alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.palette import KIND_COLOURS, KIND_TEXTURES
from nicscope.reports.rates import kind_names, miss_rates
from nicscope.reports.table import Bar, Piece, Rows
from nicscope.reports.wording import (
    byte_size,
    in_words,
    per_hundred,
    significant,
    us_per,
    whole,
)

if TYPE_CHECKING:
    from nicscope.reports.rates import MissRates
    from nicscope.studies.replaying import Comparison, Priced

HARDLY = 100  # a structure of less than one part in this many
FEW = 2  # designs whose unpriced steps are spelt out


def headline(comparison: Comparison) -> str:
    """How much the trace asks for, in pages of the sizes that the designs see."""
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
                *map(per_hundred, (rates.misses, *rates.by_path.values())),
                *map(per_hundred, rates.by_kind.values()),
            ]
            for rates in found
        ],
        bars=[_bar(rates, most) for rates in found],
    )


def _bar(rates: MissRates, most: float) -> Bar:
    """The kinds of misses, by the rate of the design that misses ``most``."""
    return Bar(
        tuple(
            Piece(KIND_TEXTURES[kind], KIND_COLOURS[kind], rate / most if most else 0.0)
            for kind, rate in rates.by_kind.items()
        )
    )


def work_rows(comparison: Comparison) -> Rows:
    """What the host had to do, and what the translation path took."""
    return Rows(
        "Host work and time (evidence: of the weakest price)",
        ["design", "pins", "unpins", "interrupts", _us_heading(comparison), "evidence", "platform"],
        [
            [
                priced.name,
                *(whole(priced.total(name)) for name in ("pins", "unpins", "interrupts")),
                us_per(comparison.denominator, priced.cost),
                priced.weakest_evidence.value if priced.weakest_evidence else "none",
                priced.platform or "none",
            ]
            for priced in comparison.priced
        ],
        left=(0, 5, 6),
        least=("platform", "unpins", "evidence", "pins", "interrupts"),
    )


def _us_heading(comparison: Comparison) -> str:
    return f"us per {comparison.denominator.value}"


def memory_rows(comparison: Comparison) -> Rows:
    """NIC memory by structure, and pinned host memory."""
    return Rows(
        "Memory",
        ["design", "on the NIC", "pinned in hosts", "NIC memory by structure"],
        [
            [
                priced.name,
                byte_size(priced.nic_bytes),
                byte_size(priced.pinned_host_bytes),
                _structures(priced.result.nic_memory_bytes),
            ]
            for priced in comparison.priced
        ],
        left=(0, 3),
        least=("NIC memory by structure",),
    )


def component_rows(priced: Priced) -> Rows:
    """The parts that add up to the cost of one design."""
    return Rows(
        f"Time of {priced.name} on {priced.platform or 'no platform'}, by component",
        ["component", "events", "us each", "us in all", "evidence", "source"],
        [
            [
                part.name,
                whole(part.count),
                _span(*(float(bound) / 1e6 for bound in part.unit_ps)),
                _span(part.low_ps / 1e6, part.high_ps / 1e6),
                part.evidence.value,
                part.source,
            ]
            for part in priced.cost.components
        ],
        left=(0, 4, 5),
        least=("source", "us each", "events", "evidence"),
    )


def notes(comparison: Comparison) -> list[str]:
    """What the tables alone would hide: requests turned away, steps without a price."""
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
    """The structures, largest first; several that hardly matter are one."""
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
