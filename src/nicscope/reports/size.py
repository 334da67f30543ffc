"""What ``nicscope size`` finds: the best designs within NIC memory, or entries that do."""

from __future__ import annotations

import shlex
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, drawing, table_of, table_of_rows
from nicscope.reports.wording import (
    byte_size,
    in_words,
    listed,
    per_hundred,
    significant,
    us_within,
    whole,
)
from nicscope.studies.pricing import denominator_of
from nicscope.studies.replaying import rates
from nicscope.studies.sizing import fewest_misses, uncertain_components

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.studies.size_targets import Cliff, Target, TargetReport
    from nicscope.studies.sizing import Answer, PageSize, Point, Sizing, SizingReport

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
    """The distinguishing settings of a design: sizes, and non-default policies."""
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
    """Put a text into the singular where the count is one."""
    return {"1 entries": "1 entry", "1 victims": "1 victim"}.get(text, text)


def cost(point: Point) -> str:
    """Microseconds per lookup: a number or a range; "≥" where a step that happened has no price."""
    return us_within(point.priced.cost.per_lookup_us(), point.priced.cost)


def measure(point: Point | None) -> str:
    """The objective of ``point``: us per lookup (the upper end), or misses per 100."""
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
    """The budgets of the search."""
    text = f"{byte_size(report.question.nic_bytes)} of NIC memory"
    if report.question.pin_bytes is not None:
        text += f" and {byte_size(report.question.pin_bytes)} pinned per host"
    return text


def objective(sizing: Sizing, report: SizingReport) -> str:
    """The criterion for the best design."""
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
    """The trace's lookups and footprint."""
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
    resting = {part.name for part in uncertain_components(point).parts}
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
    """How much more or less ``after`` costs, or misses, than ``before``."""
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
    """NIC memory at the knee, and the objective there."""
    if answer.knee is None:
        return "none"
    return f"{byte_size(answer.knee.nic_bytes)}: {measure(answer.knee)}"


def larger(answer: Answer) -> str:
    """The next better design beyond the budget."""
    if answer.larger is None:
        return "none is better"
    return f"{byte_size(answer.larger.nic_bytes)}: {measure(answer.larger)}"


def remarks_on(sizing: Sizing, report: SizingReport) -> list[str]:
    """What the tables alone would hide."""
    lines = _cheapest(sizing)
    bests = [answer.best for answer in sizing.answers if answer.best is not None]
    lines += filter(None, map(_resting, sizing.answers))
    for answer in sizing.answers:
        lines += _about(answer, report)
    lines += _unpriced(sizing, report)
    lines += _pinned_beyond(sizing)
    if report.question.platform is None:
        lines.append("costs are those of each design's own machine; --platform puts all on one")
    if any((one.priced.result.design.ways or 1) > 1 for one in bests):
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
    """The families with incomplete prices, and the missing costs."""
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
    """Designs that pin more than the program's own memory."""
    names = [
        f"{answer.scheme.value} {byte_size(answer.best.pinned_bytes)}"
        for answer in sizing.answers
        if answer.best is not None and answer.best.pinned_bytes > sizing.touched_bytes
    ]
    if not names:
        return []
    return [f"pinned beyond the {byte_size(sizing.touched_bytes)} in use: {listed(names)}"]


def page_remarks(sizing: Sizing) -> list[str]:
    """The best page size, its pinned memory, and the evidence of the times."""
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


def _resting(answer: Answer) -> str:
    """Which assumed or fitted prices the best rests on; empty if on none."""
    found = None if answer.best is None else uncertain_components(answer.best)
    if found is None or not found.parts:
        return ""
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


def target_cells(answer: Answer) -> tuple[str, str]:
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


SAVED = 0.01  # of the cost, below which twice the memory saves hardly anything


def size_summary(sizing: Sizing, report: SizingReport) -> str:
    """The actionable findings: one sentence on page sizes, one on families."""
    told = []
    if sizing.page_sizes:
        told.append(_of_pages(sizing.page_sizes, sizing.page_size, sizing.touched_bytes))
    if sizing.answers:
        told.append(_of_families(sizing, report))
    return " ".join(told)


def _of_pages(sizes: list[PageSize], recorded: int, touched_bytes: int) -> str:
    """The page size with fewest misses, sufficient entries, and wasted pinned memory."""
    able = [one for one in sizes if one.misses is not None]
    least = fewest_misses(sizes)
    if least is None:
        return "No cache fits the budget, whatever the page size."
    best = next(one for one in able if one.page_size == least)
    others = [one for one in able if one is not best]
    enough = f"more than {whole(best.enough)} entries gain nothing"
    if best.enough == 1:
        enough = "more than one entry gains nothing"
    pinned = ""
    if best.pinned_bytes > touched_bytes:
        pinned = (
            f"; they pin {byte_size(best.pinned_bytes)} where the program uses "
            f"{byte_size(touched_bytes)}"
        )
    name = f"{byte_size(best.page_size)} pages"
    if not others:
        return f"{name}: {in_misses(best.misses)}; {enough}{pinned}."
    # What one has today: pages as they were recorded, or else the smallest asked for.
    today = next((one for one in others if one.page_size == recorded), None)
    before = today or min(others, key=lambda one: one.page_size)
    if all(one.misses == best.misses for one in others):
        return f"{name}: {in_misses(best.misses)}, as with any other; {enough}{pinned}."
    if best.misses == before.misses:
        before_name = f"pages of {byte_size(before.page_size)}"
        return f"{name}: {in_misses(best.misses)}, as with {before_name}; {enough}{pinned}."
    if best.page_size < before.page_size:
        return (
            f"{name}: {in_misses(best.misses)}, fewer than the {in_millions(before.misses)} of "
            f"{byte_size(before.page_size)} pages; {enough}{pinned}."
        )
    return (
        f"{name}: {in_misses(before.misses)} with pages of {byte_size(before.page_size)} become "
        f"{in_millions(best.misses)}; {enough}{pinned}."
    )


def in_misses(count: int | None) -> str:
    """``count`` misses."""
    return "1 miss" if count == 1 else f"{in_millions(count)} misses"


def in_millions(count: int | None) -> str:
    """A count as one says it: millions with two decimals, thousands and less as they are."""
    if count is None or count < 1_000_000:
        return whole(count)
    return f"{count / 1e6:,.2f} M"


def _of_families(sizing: Sizing, report: SizingReport) -> str:
    """The cheapest family within the budget; by misses if that is open or unpriced."""
    first = sizing.cheapest
    if first is None or first.best is None:
        return _by_misses(sizing, report)
    told = (
        f"Cheapest within {budget(report)}: {first.scheme.value} ({shape(first.best)}), "
        f"{cost(first.best)} us per lookup"
    )
    if sizing.perhaps_cheaper:
        names = listed([answer.scheme.value for answer in sizing.perhaps_cheaper])
        told += f"; {names}, of which not all is priced, may cost less"
    return f"{told}; {_doubled(first)}{_pinned(first.best, sizing)}."


def _by_misses(sizing: Sizing, report: SizingReport) -> str:
    able = [one for one in sizing.answers if one.best is not None and not one.best.rejected]
    if not able:
        return f"Nothing that carries out every request fits {budget(report)}."
    none = [one.scheme.value for one in able if one.best is not None and not one.best.misses]
    rest = [one for one in able if one.best is not None and one.best.misses]
    told = f"{listed(none)} never miss{'es' * (len(none) == 1)} on the NIC" if none else ""
    if not rest:
        return f"Within {budget(report)}, {told}."
    best = min(rest, key=lambda one: one.best.rank if one.best is not None else ((), 0, 0, ()))
    assert best.best is not None
    others = "of the others " if none else ""
    told += "; " if told else ""
    return (
        f"Within {budget(report)}, {told}{others}{best.scheme.value} ({shape(best.best)}) misses "
        f"least, {in_misses(best.best.misses)}, {misses(best.best)} per 100 lookups; "
        f"{_doubled(best)}{_pinned(best.best, sizing)}."
    )


def _doubled(answer: Answer) -> str:
    """The gain from twice the memory."""
    best, double = answer.best, answer.double
    if answer.larger is None or best is None or double is None:
        return "more NIC memory gains nothing"
    saved = 1 - double.value / best.value if best.value else 0.0
    if double.rejected < best.rejected:
        return f"with twice the memory it turns {whole(double.rejected)} requests away"
    if saved < SAVED:
        return "twice the memory gains hardly anything"
    return f"twice the memory saves {significant(100 * saved)} %"


def _pinned(best: Point, sizing: Sizing) -> str:
    if best.pinned_bytes <= sizing.touched_bytes:
        return ""
    return (
        f"; it pins {byte_size(best.pinned_bytes)} where the program uses "
        f"{byte_size(sizing.touched_bytes)}"
    )


class ShownSizes(Report):
    """Sized designs: tables for each trace, sizes.parquet and a figure for each."""

    found: SizingReport
    topic = "size"

    def summary(self) -> list[str]:
        """Which design is best within the budget."""
        several = len(self.found.sizings) > 1
        told = ((one.trace, size_summary(one, self.found)) for one in self.found.sizings)
        return [f"{name}: {text}" if several else text for name, text in told]

    def parts(self) -> Iterator[Printed]:
        """Trace after trace."""
        for number, sizing in enumerate(self.found.sizings):
            if number:
                yield ""
            yield from size_parts(sizing, self.found, once_a_file=not self.command)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield one row for each family and size of NIC memory from which a better design fits."""
        rows = [row for sizing in self.found.sizings for row in _rows(sizing)]
        yield "sizes", table_of_rows(rows, COLUMNS)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield the table, and a figure for each trace."""
        draw = drawing("designs.draw_sizing")
        report = self.found
        yield from super().files()
        for number, sizing in enumerate(report.sizings, 1):
            alone = len(report.sizings) == 1
            name = "size" if alone else f"size_{number}_{short_name(sizing.trace)}"
            yield name, draw(sizing, report)


def size_parts(sizing: Sizing, report: SizingReport, *, once_a_file: bool) -> Iterator[Printed]:
    """The text of one trace, piece by piece; commands are plain strings.

    ``once_a_file``: they will do when the trace, a table or an object, is a file.
    """
    yield heading(sizing.trace).append(headline(sizing), style="not bold")
    tables = [best_rows(sizing, report), part_rows(sizing, report)] if sizing.answers else []
    tables[1:1] = [memory_rows(answers, report) for answers in ranked_alike(sizing)]
    if sizing.answers and report.question.target_us is not None:
        tables.append(target_rows(sizing, report))
    if sizing.page_sizes:
        tables.append(page_rows(sizing, report))
    yield from tables
    if sizing.page_sizes:
        for line in page_remarks(sizing):
            yield remark(line)
    yield ""
    remarks = remarks_on(sizing, report) if sizing.answers else []
    for line in remarks:
        yield remark(line)
    if remarks:
        yield ""
    from_file = f", once {sizing.trace} is a file" * once_a_file
    yield remark(f"to count each of them again{from_file}:")
    for answer in sizing.answers:
        if answer.best is not None:
            yield f"  {shlex.join(answer.command)}"
    for one in sizing.page_sizes:
        yield f"  {shlex.join(one.table_command)}"
        if one.cache is not None:
            yield f"  {shlex.join(one.cache_command)}"


def best_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """The best design of each family."""
    cells = []
    for answer in sizing.answers:
        best = answer.best
        if best is None:
            cells.append([answer.scheme.value, "nothing fits", *[NONE] * 5])
            continue
        mark = "*" if best.rejected else ""
        cells.append(
            [
                answer.scheme.value,
                shape(best),
                byte_size(best.nic_bytes),
                byte_size(best.pinned_bytes),
                whole(best.misses) + mark,
                misses(best) + mark,
                cost(best) + mark,
            ]
        )
    return Rows(
        f"Best within {budget(report)}: {objective(sizing, report)}",
        [
            "family",
            "design",
            "on the NIC",
            "pinned",
            "misses",
            f"/100 {sizing.denominator.plural}",
            f"us/{sizing.denominator.value}",
        ],
        cells,
        left=(0, 1),
        least=(
            *("pinned", "on the NIC"),
            *(f"/100 {sizing.denominator.plural}", "misses", f"us/{sizing.denominator.value}"),
        ),
    )


def memory_rows(answers: Sequence[Answer], report: SizingReport) -> Rows:
    """The loss at half the budget and the gain at twice the budget, of families ranked alike."""
    budget = report.question.nic_bytes
    half, same, double = (byte_size(size) for size in (budget // 2, budget, 2 * budget))
    return rows_of(
        f"What NIC memory buys ({unit(answers)})",
        answers,
        {
            "family": _family,
            half: lambda one: measure(one.half),
            same: lambda one: measure(one.best),
            double: lambda one: measure(one.double),
            "halved": lambda one: change(one.best, one.half),
            "doubled": lambda one: change(one.best, one.double),
            "next better": larger,
            "knee": knee,
        },
        words=("family",),
        least=("knee", "next better", "doubled", "halved", double, half),
    )


def part_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """What the cost of each family's best is made of."""
    found = [(answer, answer.best) for answer in sizing.answers if answer.best is not None]
    columns: dict[str, Callable[[tuple[Answer, Point]], str]] = {
        "family": lambda pair: _family(pair[0]),
        "parts": lambda pair: parts(pair[1]),
        "evidence": lambda pair: getattr(pair[1].priced.weakest_evidence, "value", "none"),
        "platform": lambda pair: pair[0].platform or "none",
    }
    if report.question.platform is not None:
        del columns["platform"]
    title = "Parts of the cost, us per lookup (*: assumed or fitted price)"
    return rows_of(title, found, columns, words=columns)


def _family(answer: Answer) -> str:
    return answer.scheme.value


def target_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """The least NIC memory that meets the target."""
    target = report.question.target_us
    assert target is not None
    return Rows(
        f"Least NIC memory for at most {target:g} us per lookup",
        ["family", "NIC memory", "design"],
        [[answer.scheme.value, *target_cells(answer)] for answer in sizing.answers],
        left=(0, 2),
    )


def page_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """Entries, table, pinned memory, registration and misses by page size: totals."""
    per = denominator_of(one.page_size for one in sizing.page_sizes)
    rates = {
        one.page_size: None if one.misses is None else 100 * one.misses / one.count_of(per)
        for one in sizing.page_sizes
    }
    return rows_of(
        f"By page size: a table of all pages, and a cache within "
        f"{byte_size(report.question.nic_bytes)} of NIC memory",
        sizing.page_sizes,
        {
            "pages": lambda one: byte_size(one.page_size),
            "lookups": lambda one: whole(one.lookups),
            "entries": lambda one: whole(one.entries),
            "table": lambda one: byte_size(one.table_bytes),
            "pinned": lambda one: byte_size(one.pinned_bytes),
            "registration": _duration,
            "misses": lambda one: NONE if one.misses is None else whole(one.misses),
            f"/100 {per.plural}": lambda one: per_hundred(rates[one.page_size]),
            "us": lambda one: _total(one.cache),
            "cache": lambda one: "none fits" if one.cache is None else shape(one.cache),
        },
        words=("cache",),
        least=("registration", "table", "pinned", "entries", f"/100 {per.plural}", "cache"),
    )


def _total(cache: Point | None) -> str:
    if cache is None:
        return NONE
    return us_within(cache.priced.cost.total_us(), cache.priced.cost)


def _duration(one: PageSize) -> str:
    if one.registration_us is None:
        return "unknown"
    ends = [_time(us) for us in one.registration_us]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _time(us: float) -> str:
    return f"{significant(us)} us" if us < 1000 else f"{significant(us / 1000)} ms"


# Settings of a step, by column; null where its scheme does not have them.
_SETTINGS = {
    "area_bytes": "area_bytes",
    "entries": "entries",
    "ways": "ways",
    "line_pages": "line",
    "victim_entries": "victim_entries",
    "prefetch": "prefetch",
    "prepin_pages": "prepin",
    "pin_limit_pages": "pin_limit",
    "high_water_pages": "high_water",
}
_COSTS = ("cost_us", "cost_us_per_lookup", "cost_us_per_request")  # null: unknown
COLUMNS = {  # of sizes.parquet
    "trace": "string",
    "family": "string",
    "design": "string",
    "platform": "string",
    "nic_memory_bytes": "int64",
    "pinned_bytes_of_fullest_host": "int64",
    "page_size_bytes": "int64",
    "requests": "int64",
    "requested_bytes": "int64",
    "lookups": "int64",
    "ni_misses": "int64",
    "miss_ratio": "float64",
    "misses_per_request": "float64",
    "rejected": "int64",
    **{f"{cost}_{end}": "float64" for cost in _COSTS for end in ("low", "high")},
    "cost_bound": "string",
    "cost_unpriced": "string",  # null: nothing is
    "cost_evidence": "string",
    "ranked_by": "string",
    "is_best": "bool",
    "is_knee": "bool",
    **dict.fromkeys(_SETTINGS, "int64"),
    "replacement": "string",
}


def _rows(sizing: Sizing) -> Iterator[dict[str, Any]]:
    for answer in sizing.answers:
        for step in answer.steps:
            yield {
                **_step(step),
                "trace": sizing.trace,
                "family": answer.scheme.value,
                "design": answer.design,
                "platform": answer.platform,
                "is_best": step is answer.best,
                "is_knee": step is answer.knee,
                "ranked_by": "cost" if answer.by_cost else "misses",
                "requested_bytes": sizing.extent.requested_bytes,
            }


def _step(step: Point) -> dict[str, Any]:
    settings = step.priced.result.design.to_json()
    cost = step.priced.cost
    found = rates(step.priced) | {
        "nic_memory_bytes": step.nic_bytes,
        "pinned_bytes_of_fullest_host": step.pinned_bytes,
        "requests": cost.requests,
        "lookups": cost.lookups,
        "ni_misses": step.misses,
        "rejected": step.rejected,
        "replacement": settings.get("replacement"),
        **{column: settings.get(name) for column, name in _SETTINGS.items()},
    }
    return {name: found[name] for name in COLUMNS if name in found}


def short_name(trace: str) -> str:
    """A trace's name without folders and ending."""
    return Path(trace.removeprefix("bundled:")).stem


TARGET_COLUMNS: dict[str, Column] = {
    "trace": ("string", "trace"),
    "page_size_bytes": ("int64", "page_size"),
    "lookups": ("int64", "lookups"),
    "touched_pages": ("int64", "pages"),
    "ni_misses_compulsory": ("int64", "compulsory"),
    "enough_entries": ("int64", "entries"),
    "enough_ni_misses": ("int64", "misses"),
    "steady_entries": ("int64", "steady_entries"),
    "cliff_entries": ("int64", lambda one: None if one.cliff is None else one.cliff.entries),
}
NO_CACHE = "none"
ON_THE_MACHINE = (
    "On the machine: Level 0 and Level 1 MTT Cache Miss (Neo-Host), l0_mtt_miss and l1_mtt_miss "
    "(FreeBSD), over lookups; KernelPageSize of /proc/PID/smaps for the pages there really are."
)


class ShownTargets(Report):
    """Sufficient entries for each page size."""

    found: TargetReport
    topic = "size"

    def summary(self) -> list[str]:
        """How many entries do for pages of each size, and where a cliff is."""
        told = []
        several = len(self.found.traces) > 1
        for name, some in groupby(self.found.targets, lambda target: target.trace):
            targets = list(some)
            if several:
                told.append(f"{name}:")
            told += _fewest_needed(targets, _share(self.found))
            for target in targets:
                told.append(_enough_in_words(target, _share(self.found)))
                if target.cliff is not None:
                    told.append(_cliff_sentence(target.cliff, target.lookups))
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each page size of each trace."""
        skipped = self.found.question.skip
        for number, trace in enumerate(self.found.traces):
            after = f", of which {whole(skipped)} only fill the caches" if skipped else ""
            requests = in_words(trace["requests"], "request")
            if number:
                yield ""
            yield heading(f"{trace['name']}: {requests}{after}")
            yield ""
            those = [one for one in self.found.targets if one.trace == trace["name"]]
            yield entry_rows(those, self.found)
            cliffs = [(one, one.cliff) for one in those if one.cliff is not None]
            if cliffs:
                yield cliff_rows(cliffs)
        yield remark(
            "Fully associative, least recently used first out, one cache on each node's NIC. From "
            "the start: all misses count; steady: first lookups of a page are left out."
        )
        yield remark(ON_THE_MACHINE)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each page size of each trace."""
        yield "targets", table_of(self.found.targets, TARGET_COLUMNS)


def entry_rows(targets: list[Target], found: TargetReport) -> Rows:
    """A row for each page size."""
    return rows_of(
        f"Fewest entries with which at most {_share(found)} of lookups miss, by page size",
        targets,
        {
            "pages": lambda one: byte_size(one.page_size),
            "lookups": lambda one: whole(one.lookups),
            "touched": lambda one: whole(one.pages),
            "first lookups": lambda one: per_hundred(100 * one.compulsory_share) + " %",
            "from the start": lambda one: _entries(one.entries),
            "steady": lambda one: _entries(one.steady_entries),
            "reach, steady": lambda one: (
                NO_CACHE
                if one.steady_entries is None
                else byte_size(one.steady_entries * one.page_size)
            ),
        },
        words=("pages",),
        grouped=False,
        least=("lookups", "touched"),
    )


def cliff_rows(cliffs: list[tuple[Target, Cliff]]) -> Rows:
    """A row for each page size with a sharp drop of misses."""
    return rows_of(
        "Cliffs: the doubling of a cache that buys most, in misses per 100 lookups",
        cliffs,
        {
            "pages": lambda one: byte_size(one[0].page_size),
            "entries before": lambda one: whole(one[1].entries),
            "missed before": lambda one: _of_lookups(one[1].misses, one[0].lookups),
            "with twice as many": lambda one: _of_lookups(one[1].after, one[0].lookups),
        },
        words=("pages",),
        grouped=False,
    )


def _of_lookups(count: int, lookups: int) -> str:
    return per_hundred(100 * count / lookups)


def _entries(count: int | None) -> str:
    return NO_CACHE if count is None else whole(count)


def _share(found: TargetReport) -> str:
    return f"{100 * found.question.share:g} %"


def _many(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{whole(entries)} entries"


def _miss(entries: int) -> str:
    return "misses" if entries == 1 else "miss"


def _fewest_needed(targets: list[Target], share: str) -> list[str]:
    """The page size that needs the fewest entries, where several were asked for."""
    enough = [one for one in targets if one.entries is not None]
    if len(targets) < 2 or not enough:
        return []
    best = min(enough, key=lambda one: (one.entries or 0, one.page_size))
    return [
        f"Pages of {byte_size(best.page_size)} need fewest: {_many(best.entries or 0)} for at most "
        f"{share} of lookups that miss."
    ]


def _enough_in_words(target: Target, share: str) -> str:
    """The sufficient entries, as a sentence."""
    page, entries, steady = byte_size(target.page_size), target.entries, target.steady_entries
    if entries is not None:
        return f"In pages of {page} {_many(entries)} {_miss(entries)} at most {share} of lookups."
    first = f"{per_hundred(100 * target.compulsory_share)} % are the first of a page"
    later = (
        "" if steady is None else f"; of all others {_many(steady)} {_miss(steady)} at most {share}"
    )
    return f"In pages of {page} no cache misses as few as {share} of lookups: {first}{later}."


def _cliff_sentence(cliff: Cliff, lookups: int) -> str:
    """The position of the drop, as a sentence."""
    before, after = (_of_lookups(count, lookups) for count in (cliff.misses, cliff.after))
    return (
        f"There is a cliff: {_many(cliff.entries)} {_miss(cliff.entries)} {before} of 100 lookups, "
        f"twice as many {after}."
    )
