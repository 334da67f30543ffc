"""Sized designs: an answer in words, tables, results.json, sizes.parquet and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports import size_wording as say
from nicscope.reports.result import Report
from nicscope.reports.size_wording import budget, cost, misses, shape
from nicscope.reports.table import Rows, rows_of
from nicscope.reports.wording import byte_size, listed, per_hundred, significant, us_within, whole
from nicscope.studies.columns import rates
from nicscope.studies.pricing import denominator_of
from nicscope.studies.sizing.result import fewest_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.sizing.result import Answer, Point, Sizing, SizingReport
    from nicscope.studies.sizing.search import PageSize


SAVED = 0.01  # of the cost, below which twice the memory saves hardly anything


def size_summary(sizing: Sizing, report: SizingReport) -> str:
    """What of all that was found one would act on; one sentence of page sizes, one of families."""
    told = []
    if sizing.page_sizes:
        told.append(_of_pages(sizing.page_sizes, sizing.page_size, sizing.touched_bytes))
    if sizing.answers:
        told.append(_of_families(sizing, report))
    return " ".join(told)


def _of_pages(sizes: list[PageSize], recorded: int, touched_bytes: int) -> str:
    """Which page size misses least, how many entries are enough, and what it pins for nothing."""
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
    """The cheapest family within the budget; where that is open, or nothing is priced, misses."""
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
    """What twice the memory would buy of the family."""
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
            yield from size_parts(sizing, self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield one row for each family and size of NIC memory from which a better design fits."""
        import pyarrow as pa

        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
        rows = [row for sizing in self.found.sizings for row in _rows(sizing)]
        yield "sizes", pa.Table.from_pylist(rows, schema)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield the table, and a figure for each trace."""
        from nicscope.reports.figures.sizes import draw_sizing

        report = self.found
        yield from super().files()
        for number, sizing in enumerate(report.sizings, 1):
            alone = len(report.sizings) == 1
            name = "size" if alone else f"size_{number}_{short_name(sizing.trace)}"
            yield name, draw_sizing(sizing, report)


def size_parts(sizing: Sizing, report: SizingReport) -> Iterator[Printed]:
    """What is printed of one trace, piece by piece; commands are plain strings."""
    from rich.text import Text

    yield Text(sizing.trace, style="bold").append(say.headline(sizing), style="not bold")
    yield Text()
    tables = [best_rows(sizing, report), part_rows(sizing, report)] if sizing.answers else []
    tables[1:1] = [memory_rows(answers, report) for answers in say.ranked_alike(sizing)]
    if sizing.answers and report.question.target_us is not None:
        tables.append(target_rows(sizing, report))
    if sizing.page_sizes:
        tables.append(page_rows(sizing, report))
    for number, rows in enumerate(tables):
        if number:
            yield Text()
        yield rows
    if sizing.page_sizes:
        for line in say.page_remarks(sizing):
            yield Text(line, style="dim")
    yield Text()
    remarks = say.remarks(sizing, report) if sizing.answers else []
    for line in remarks:
        yield Text(line, style="dim")
    if remarks:
        yield Text()
    from_file = "" if report.repeat["command"] else f", once {sizing.trace} is a file"
    yield Text(f"to count each of them again{from_file}:", style="dim")
    for answer in sizing.answers:
        if answer.best is not None:
            yield f"  {say.command(answer.command)}"
    for one in sizing.page_sizes:
        yield f"  {say.command(one.table_command)}"
        if one.cache is not None:
            yield f"  {say.command(one.cache_command)}"


def best_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """The best design of each family."""
    cells = []
    for answer in sizing.answers:
        best = answer.best
        if best is None:
            cells.append([answer.scheme.value, "nothing fits", *[say.NONE] * 5])
            continue
        mark = "*" if best.rejected else ""
        cells.append(
            [
                answer.scheme.value,
                say.shape(best),
                byte_size(best.nic_bytes),
                byte_size(best.pinned_bytes),
                whole(best.misses) + mark,
                say.misses(best) + mark,
                say.cost(best) + mark,
            ]
        )
    return Rows(
        f"Best within {say.budget(report)}: {say.objective(sizing, report)}",
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
    """What half the budget would lose and twice as much would buy, of families ranked alike."""
    budget = report.question.nic_bytes
    half, same, double = (byte_size(size) for size in (budget // 2, budget, 2 * budget))
    return rows_of(
        f"What NIC memory buys ({say.unit(answers)})",
        answers,
        {
            "family": _family,
            half: lambda one: say.measure(one.half),
            same: lambda one: say.measure(one.best),
            double: lambda one: say.measure(one.double),
            "halved": lambda one: say.change(one.best, one.half),
            "doubled": lambda one: say.change(one.best, one.double),
            "next better": say.larger,
            "knee": say.knee,
        },
        words=("family",),
        least=("knee", "next better", "doubled", "halved", double, half),
    )


def part_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """What the cost of each family's best is made of."""
    found = [(answer, answer.best) for answer in sizing.answers if answer.best is not None]
    columns: dict[str, Callable[[tuple[Answer, Point]], str]] = {
        "family": lambda pair: _family(pair[0]),
        "parts": lambda pair: say.parts(pair[1]),
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
        [[answer.scheme.value, *say.target(answer)] for answer in sizing.answers],
        left=(0, 2),
    )


def page_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """Entries, table, pinned memory, registration and misses by page size: totals throughout."""
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
            "misses": lambda one: say.NONE if one.misses is None else whole(one.misses),
            f"/100 {per.plural}": lambda one: per_hundred(rates[one.page_size]),
            "us": lambda one: _total(one.cache),
            "cache": lambda one: "none fits" if one.cache is None else say.shape(one.cache),
        },
        words=("cache",),
        least=("registration", "table", "pinned", "entries", f"/100 {per.plural}", "cache"),
    )


def _total(cache: Point | None) -> str:
    if cache is None:
        return say.NONE
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
