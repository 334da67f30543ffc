"""Sized designs in words: shapes, costs, budgets, and what they rest on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nicscope.reports.wording import (
    byte_size,
    listed,
    per_hundred,
    significant,
    us_within,
    whole,
)
from nicscope.studies.sizing.result import fewest_misses, shaky

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.sizing.result import Answer, Point, Sizing, SizingReport

NONE = "-"
LEAST_PERCENT = 0.1
# What is said of a design, in this order, with its unit if it has one.
_COUNTS = {
    "entries": "{} entries",
    "ways": "{} ways",
    "line": "lines of {}",
    "victim_entries": "{} victims",
    "prefetch": "prefetch {}",
    "prepin": "prepin {}",
    "pin_limit": "pin limit {}",
    "high_water": "high water {}",
}
_UNLESS = {"ways": 1, "prefetch": 1, "prepin": 1}


def shape(point: Point) -> str:
    """What sets this design apart: sizes, and policies that are not the plain ones."""
    design = point.priced.result.design
    words = []
    if design.area_bytes is not None:
        words.append(f"area of {byte_size(design.area_bytes)}")
    for name, text in _COUNTS.items():
        value = getattr(design, name)
        if value is not None and value != _UNLESS.get(name):
            words.append(_one(text.format(whole(value))))
    if dict(point.settings).get("replacement"):
        words.append(f"{dict(point.settings)['replacement']} replacement")
    return ", ".join(words)


def _one(text: str) -> str:
    """One of a thing is not spoken of as several."""
    return {"1 entries": "1 entry", "1 victims": "1 victim"}.get(text, text)


def cost(point: Point) -> str:
    """Microseconds per lookup: a number or a range; "≥" where a step that happened has no price."""
    return us_within(point.priced.cost.per_lookup_us(), point.priced.cost)


def measure(point: Point | None) -> str:
    """What is to be small of ``point``: us per lookup (the upper end), or misses per 100."""
    if point is None:
        return NONE
    us = point.us
    text = significant(us[1]) if point.by_cost and us is not None else misses(point)
    return f"{text}*" if point.rejected else text


def misses(point: Point) -> str:
    """NI misses per 100 lookups."""
    return per_hundred(100 * point.misses_per_lookup)


def unit(answers: Sequence[Answer]) -> str:
    """The unit of ``measure`` for ``answers``, all ranked alike."""
    if not any(answer.by_cost for answer in answers):
        return "misses per 100 lookups"
    steps = [step for answer in answers for step in answer.steps]
    ranges = any(step.us is not None and step.us[0] < step.us[1] for step in steps)
    return "us per lookup" + ", upper ends of ranges" * ranges


def ranked_alike(sizing: Sizing) -> list[list[Answer]]:
    """The families that are ranked by cost, and those by misses; without empty lists."""
    parts = [[one for one in sizing.answers if one.by_cost is by_cost] for by_cost in (True, False)]
    return [part for part in parts if part]


def budget(report: SizingReport) -> str:
    """Within what designs were looked for."""
    text = f"{byte_size(report.question.nic_bytes)} of NIC memory"
    if report.question.pin_bytes is not None:
        text += f" and {byte_size(report.question.pin_bytes)} pinned per host"
    return text


def objective(sizing: Sizing, report: SizingReport) -> str:
    """What makes a design best."""
    platform = report.question.platform
    if platform is None:
        return "the fewest misses"
    ranked = [answer.by_cost for answer in sizing.answers]
    if all(ranked):
        return f"the cheapest on {platform.name}"
    if any(ranked):
        return f"the cheapest on {platform.name}, or the fewest misses if not all is priced (≥, ?)"
    return f"the fewest misses, {platform.name} prices no family whole"


def headline(sizing: Sizing) -> str:
    """How much the trace asks for."""
    extent = sizing.extent
    nodes = len(extent.pages)
    processes = extent.processes
    each = " on the fullest" if nodes > 1 else ""
    return (
        f": {whole(extent.lookups)} lookups of {byte_size(sizing.page_size)} pages, "
        f"{whole(nodes)} node{'s' * (nodes != 1)}; {whole(extent.node_pages)} pages of "
        f"{whole(processes)} process{'es' * (processes != 1)}{each}"
    )


def parts(point: Point) -> str:
    """The components of the cost, the largest first; * after assumed or fitted ones."""
    found = point.priced.cost
    resting = {part.name for part in shaky(point).parts}
    paid = sorted((part for part in found.components if part.count), key=lambda p: -p.high_ps)
    words = [
        f"{part.name} {_per_lookup(part.low_ps, part.high_ps, found.lookups)}"
        + "*" * (part.name in resting)
        for part in paid
    ]
    words += [f"{one.name} ?" for one in found.unpriced]
    return ", ".join(words) or "nothing that has a price"


def _per_lookup(low: int, high: int, lookups: int) -> str:
    ends = [significant(ps / 1e6 / lookups) for ps in (low, high)]
    return ends[0] if low == high else f"{ends[0]} to {ends[1]}"


def change(before: Point | None, after: Point | None) -> str:
    """By how much more or less ``after`` costs, or misses, than ``before``."""
    if before is None or after is None or before.rejected != after.rejected:
        return NONE
    if before.value == after.value:
        return "same"
    if not before.value:
        return "more"
    percent = 100 * (after.value - before.value) / before.value
    if abs(percent) < LEAST_PERCENT:
        return f"{'+' if percent > 0 else '-'}<{LEAST_PERCENT} %"
    return f"{percent:+.1f} %" if abs(percent) < 1000 else f"x {after.value / before.value:,.0f}"


def knee(answer: Answer) -> str:
    """NIC memory of the knee, and what is to be small there."""
    if answer.knee is None:
        return "none"
    return f"{byte_size(answer.knee.nic_bytes)}: {measure(answer.knee)}"


def larger(answer: Answer) -> str:
    """The next better design that takes more than the budget."""
    if answer.larger is None:
        return "none is better"
    return f"{byte_size(answer.larger.nic_bytes)}: {measure(answer.larger)}"


def remarks(sizing: Sizing, report: SizingReport) -> list[str]:
    """What the tables alone would hide."""
    lines = _cheapest(sizing)
    lines += [_resting(answer) for answer in sizing.answers if _rests(answer)]
    for answer in sizing.answers:
        lines += _about(answer, report)
    lines += _unpriced(sizing, report)
    lines += _pinned_beyond(sizing)
    if report.question.platform is None:
        lines.append("costs are those of each design's own machine; --platform puts all on one")
    if any(_ways(answer) > 1 for answer in sizing.answers):
        lines.append(
            "assumed: what each further way takes, and that lines and victims take nothing; "
            "the papers timed direct-mapped caches"
        )
    return lines


def _cheapest(sizing: Sizing) -> list[str]:
    """Which family is cheapest, or why that is open."""
    first, others = sizing.cheapest, sizing.perhaps_cheaper
    if first is None or first.best is None:
        return []
    told = f"{first.scheme.value}, {cost(first.best)} us per lookup"
    if not others:
        return [f"cheapest of those that carry out everything: {told}"]
    names = listed([answer.scheme.value for answer in others])
    return [
        f"cheapest of those with a whole price: {told}; which is cheapest of all is open, for "
        f"{names} may cost less"
    ]


def _unpriced(sizing: Sizing, report: SizingReport) -> list[str]:
    """What has no whole price, and for want of what."""
    platform = report.question.platform
    if platform is None:
        bests = [answer.best for answer in sizing.answers if answer.best is not None]
        bound = any(best.priced.cost.is_lower_bound for best in bests)
        words = "≥ or unknown: a step that happened has no price there (? in the parts)"
        return [words] * bound
    by_misses = [answer for answer in sizing.answers if answer.steps and not answer.by_cost]
    if not by_misses:
        return []
    steps = (step for answer in by_misses for step in answer.steps)
    missing = dict.fromkeys(one.cost or one.why for s in steps for one in s.priced.cost.unpriced)
    return [
        f"no whole price (≥, unknown; ? in the parts), so the fewest misses are best there: "
        f"{listed([answer.scheme.value for answer in by_misses])}; {platform.name} states no "
        + ", ".join(missing)
    ]


def _pinned_beyond(sizing: Sizing) -> list[str]:
    """Which designs pin more than the program has."""
    names = [
        f"{answer.scheme.value} {byte_size(answer.best.pinned_bytes)}"
        for answer in sizing.answers
        if answer.best is not None and answer.best.pinned_bytes > sizing.touched_bytes
    ]
    if not names:
        return []
    return [f"pinned beyond the {byte_size(sizing.touched_bytes)} in use: {listed(names)}"]


def page_remarks(sizing: Sizing) -> list[str]:
    """Which page size is best, what is pinned for it, and where the times come from."""
    sizes = sizing.page_sizes
    lines = []
    best = fewest_misses(sizes)
    if best is not None and len(sizes) > 1:
        counts = [
            f"{whole(one.misses)} with {byte_size(one.page_size)} pages"
            for one in sorted(sizes, key=lambda one: one.misses or 0)
            if one.misses is not None
        ]
        lines.append(f"fewest misses in all: {', '.join(counts)}")
    beyond = [one for one in sizes if one.pinned_bytes > sizing.touched_bytes]
    lines += [
        f"{byte_size(one.page_size)} pages pin {byte_size(one.pinned_bytes)}, "
        f"{significant(one.pinned_bytes / sizing.touched_bytes)} times the "
        f"{byte_size(sizing.touched_bytes)} in use"
        for one in beyond
    ]
    first = sizes[0]
    evidence = first.registration_evidence
    if evidence is None:
        lines.append(f"registration: {first.registration_platform} states no price (user_pin)")
    else:
        lines.append(
            f"registration: {first.registration_platform} ({evidence.value}), over all hosts; "
            "assumed: a page of any size is pinned at the price of one page there"
        )
    return lines


def _ways(answer: Answer) -> int:
    return 1 if answer.best is None else answer.best.priced.result.design.ways or 1


def _rests(answer: Answer) -> bool:
    return answer.best is not None and bool(shaky(answer.best).parts)


def _resting(answer: Answer) -> str:
    assert answer.best is not None
    found = shaky(answer.best)
    named = dict.fromkeys(f"{part.cost} ({part.evidence.value})" for part in found.parts)
    prices = ", ".join(named)
    return f"{answer.scheme.value}: {100 * found.share:.0f} % of its cost rests on {prices}"


def _about(answer: Answer, report: SizingReport) -> list[str]:
    name = answer.scheme.value
    if answer.best is None:
        if answer.smallest is None:
            return [f"{name}: pins more than it may, whatever its shape"]
        size = byte_size(answer.smallest.nic_bytes)
        return [f"{name}: nothing fits; its smallest design takes {size} of NIC memory"]
    if not answer.best.rejected:
        return []
    lookups = answer.best.priced.cost.lookups
    what = "lookups" if name == "static" else "requests"
    count = answer.best.rejected
    text = f"{name}*: {whole(count)} {what} turned away"
    if what == "lookups":
        text += f" of {whole(lookups)}"
    if answer.larger is not None and answer.larger.rejected < count:
        left = "none" if not answer.larger.rejected else whole(answer.larger.rejected)
        text += f"; {left} with {byte_size(answer.larger.nic_bytes)} of NIC memory"
    elif report.question.pin_bytes is not None:
        text += "; more pinned memory is needed to carry them out"
    return [text]


def target(answer: Answer) -> tuple[str, str]:
    """NIC memory and shape that meet the target, or that none does and the floor."""
    assert answer.target is not None
    met, floor = answer.target.smallest, answer.target.floor
    if met is not None:
        return byte_size(met.nic_bytes), f"{shape(met)}: {measure(met)}"
    if answer.steps and not answer.by_cost:
        return "unknown", "its price is not whole"
    if floor is None:
        return "none", "no design carries everything out"
    return "none", f"floor {measure(floor)} with {byte_size(floor.nic_bytes)}: {shape(floor)}"


def command(words: list[str]) -> str:
    """A command as one types it."""
    return shlex.join(words)
