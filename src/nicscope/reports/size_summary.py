"""What sizing found in a sentence or two, as one would tell it to a colleague."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.size_wording import budget, cost, misses, shape
from nicscope.reports.wording import byte_size, listed, significant, whole
from nicscope.studies.sizing.result import fewest_misses

if TYPE_CHECKING:
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.page_sizes import PageSize
    from nicscope.studies.sizing.result import Answer, Sizing, SizingReport

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
