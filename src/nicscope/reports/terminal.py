"""A comparison on a terminal: tables and bars within 100 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.palette import KIND_COLOURS, KIND_TEXTURES
from nicscope.reports.rates import kind_names, miss_rates
from nicscope.reports.rows import (
    component_rows,
    headline,
    memory_rows,
    miss_rows,
    notes,
    work_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table
    from rich.text import Text

    from nicscope.reports.rates import MissRates
    from nicscope.reports.rows import Rows
    from nicscope.studies.replaying import Comparison

WIDEST = 100
BAR = 15  # characters of the longest bar
LONGEST_NAME = 18  # characters of a name before it wraps


def print_comparison(comparison: Comparison) -> None:
    """Print everything that people want of ``comparison`` on stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    for part in comparison_parts(comparison):
        console.print(part)


def comparison_parts(comparison: Comparison) -> Iterator[Any]:
    """What ``print_comparison`` prints, piece by piece."""
    from rich.text import Text

    yield _headline(comparison)
    yield Text()
    yield _miss_table(comparison)
    yield _legend(comparison)
    yield Text()
    yield _table(work_rows(comparison))
    yield Text()
    yield _table(memory_rows(comparison))
    if len(comparison.priced) == 1 and comparison.priced[0].cost.components:
        yield Text()
        yield _table(component_rows(comparison.priced[0]))
    lines = notes(comparison)
    if lines:
        yield Text()
    for line in lines:
        yield Text(line, style="dim")


def _headline(comparison: Comparison) -> Text:
    from rich.text import Text

    name = Text(Path(comparison.trace["file"]).name, style="bold")
    return name.append(f": {headline(comparison)}", style="not bold")


def _table(rows: Rows, bars: Sequence[Text] = ()) -> Table:
    """``rows`` as a table, each with its bar at the end if there are ``bars``."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(rows.title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, heading in enumerate(rows.headings):
        words = number in rows.left
        table.add_column(
            heading,
            justify="left" if words else "right",
            no_wrap=not words,
            max_width=LONGEST_NAME if number == 0 else None,
            overflow="fold",
        )
    if bars:
        table.add_column("", no_wrap=True, width=BAR)
    for number, cells in enumerate(rows.cells):
        table.add_row(*(_cell(cell) for cell in cells), *bars[number : number + 1])
    return table


def _cell(text: str) -> Text:
    from rich.text import Text

    return Text(text, style="dim" if text in ("0", "none", "unknown") else "")


def _miss_table(comparison: Comparison) -> Table:
    rates = miss_rates(comparison)
    most = max(rate.misses for rate in rates)
    return _table(miss_rows(comparison), [_bar(rate, most) for rate in rates])


def _bar(rates: MissRates, most: float) -> Text:
    """One character per equal share of the largest rate; kinds round so that they add up."""
    from rich.text import Text

    bar = Text()
    if not most:
        return bar
    along, drawn = 0.0, 0
    for kind, rate in rates.by_kind.items():
        along += rate
        end = round(BAR * along / most)
        bar.append(KIND_TEXTURES[kind] * (end - drawn), style=KIND_COLOURS[kind])
        drawn = end
    if not drawn and rates.misses:
        bar.append("▏", style="dim")  # too few to be drawn, but there
    return bar


def _legend(comparison: Comparison) -> Text:
    from rich.text import Text

    legend = Text()
    for kind in kind_names(comparison):
        legend.append(KIND_TEXTURES[kind] * 2, style=KIND_COLOURS[kind]).append(f" {kind}   ")
    return legend
