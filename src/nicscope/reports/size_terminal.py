"""Sized designs on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports import size_wording as say
from nicscope.reports.printing import show
from nicscope.reports.table import Rows
from nicscope.reports.wording import byte_size, per_hundred, significant, us_within, whole
from nicscope.studies.denominator import denominator_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.sizing.answer import Answer
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.page_sizes import PageSize
    from nicscope.studies.sizing.result import Sizing, SizingReport


def print_sizes(report: SizingReport) -> None:
    """Print everything that people want of ``report`` on stdout."""
    for number, sizing in enumerate(report.sizings):
        show([""] * (number > 0))
        show(size_parts(sizing, report))


def size_parts(sizing: Sizing, report: SizingReport) -> Iterator[Printed]:
    """What ``print_sizes`` prints of one trace, piece by piece; commands are plain strings."""
    from rich.text import Text

    yield Text(sizing.trace, style="bold").append(say.headline(sizing), style="not bold")
    yield Text()
    tables = [best_rows(sizing, report)]
    tables += [memory_rows(answers, report) for answers in say.ranked_alike(sizing)]
    tables.append(part_rows(sizing, report))
    if report.question.target_us is not None:
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
    for line in say.remarks(sizing, report):
        yield Text(line, style="dim")
    yield Text()
    yield Text("to count each of them again:", style="dim")
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
    return Rows(
        f"What NIC memory buys ({say.unit(answers)})",
        [
            "family",
            *(byte_size(size) for size in (budget // 2, budget, 2 * budget)),
            "halved",
            "doubled",
            "next better",
            "knee",
        ],
        [
            [
                answer.scheme.value,
                *(say.measure(point) for point in (answer.half, answer.best, answer.double)),
                say.change(answer.best, answer.half),
                say.change(answer.best, answer.double),
                say.larger(answer),
                say.knee(answer),
            ]
            for answer in answers
        ],
        least=(
            *("knee", "next better", "doubled", "halved"),
            *(byte_size(size) for size in (2 * budget, budget // 2)),
        ),
    )


def part_rows(sizing: Sizing, report: SizingReport) -> Rows:
    """What the cost of each family's best is made of."""
    title = "Parts of the cost, us per lookup (*: assumed or fitted price)"
    cells = []
    for answer in sizing.answers:
        if answer.best is None:
            continue
        weakest = answer.best.priced.weakest_evidence
        row = [answer.scheme.value, say.parts(answer.best), weakest.value if weakest else "none"]
        if report.question.platform is None:
            row.append(answer.platform or "none")
        cells.append(row)
    headings = ["family", "parts", "evidence"]
    if report.question.platform is None:
        headings.append("platform")
    return Rows(title, headings, cells, left=(0, 1, 2, 3))


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
    return Rows(
        f"By page size: a table of all pages, and a cache within "
        f"{byte_size(report.question.nic_bytes)} of NIC memory",
        [
            "pages",
            "lookups",
            "entries",
            "table",
            "pinned",
            "registration",
            "misses",
            f"/100 {per.plural}",
            "us",
            "cache",
        ],
        [
            [
                byte_size(one.page_size),
                whole(one.lookups),
                whole(one.entries),
                byte_size(one.table_bytes),
                byte_size(one.pinned_bytes),
                _duration(one),
                say.NONE if one.misses is None else whole(one.misses),
                per_hundred(rates[one.page_size]),
                _total(one.cache),
                "none fits" if one.cache is None else say.shape(one.cache),
            ]
            for one in sizing.page_sizes
        ],
        left=(9,),
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
