"""A comparison in a notebook: the terminal's tables as HTML, and the figures inside."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from nicscope.reports.palette import KIND_COLOURS
from nicscope.reports.rates import miss_rates
from nicscope.reports.rows import (
    component_rows,
    headline,
    memory_rows,
    miss_rows,
    notes,
    work_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from nicscope.reports.rates import MissRates
    from nicscope.reports.table import Rows
    from nicscope.studies.replaying import Comparison


class ReplayReport:
    """A comparison that shows itself; ``comparison`` holds its numbers."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def figure(self, name: str) -> Figure:
        """The Matplotlib figure ``misses``, ``costs`` or ``memory``."""
        from nicscope.reports.figures import FIGURES

        return FIGURES[name](self.comparison)

    def save(self, folder: Path) -> list[Path]:
        """Files written to ``folder``; errors: ``OutputError``."""
        from nicscope.reports.folder import folder_for, write_comparison

        with folder_for(folder) as made:
            assert made is not None
            return write_comparison(self.comparison, made)

    def _repr_html_(self) -> str:
        found = self.comparison
        rates = miss_rates(found)
        most = max(rate.misses for rate in rates)
        tables = [_table(miss_rows(found), [_bar(rate, most) for rate in rates])]
        tables += [_table(work_rows(found)), _table(memory_rows(found))]
        if len(found.priced) == 1:
            tables.append(_table(component_rows(found.priced[0])))
        title = f"{found.trace['file']}: {headline(found)}"
        remarks = "".join(f"<p><small>{escape(line)}</small></p>" for line in notes(found))
        return f"<h3>{escape(title)}</h3>{''.join(tables)}{remarks}{self._pictures()}"

    def _pictures(self) -> str:
        from nicscope.reports.figures import FIGURES
        from nicscope.reports.figures.style import save

        tags = []
        for name in FIGURES:
            picture = io.BytesIO()
            save(self.figure(name), picture, "png")
            content = base64.b64encode(picture.getvalue()).decode()
            tags.append(f'<img alt="{name}" width="800" src="data:image/png;base64,{content}">')
        return "".join(tags)


def replay_report(trace: Path | str, designs: Sequence[str] = ()) -> ReplayReport:
    """What ``designs`` (all of the catalog if none is named) make of the trace file.

    Errors: ``TraceError`` or ``DesignError``, as on the command line.
    """
    from nicscope.studies.replaying import choose_subjects, compare
    from nicscope.traces.reader import open_trace

    subjects = choose_subjects(designs, None, [])
    return ReplayReport(compare(open_trace(trace), subjects))


def _table(rows: Rows, bars: Sequence[str] = ()) -> str:
    headings = "".join(f"<th>{escape(heading)}</th>" for heading in rows.headings)
    headings += "<th></th>" if bars else ""
    body = ""
    for number, cells in enumerate(rows.cells):
        body += "<tr>"
        for place, cell in enumerate(cells):
            side = "left" if place in rows.left else "right"
            body += f'<td style="text-align:{side}">{escape(cell)}</td>'
        body += "".join(f"<td>{bar}</td>" for bar in bars[number : number + 1]) + "</tr>"
    return f"<h4>{escape(rows.title)}</h4><table><tr>{headings}</tr>{body}</table>"


def _bar(rates: MissRates, most: float) -> str:
    pieces = ""
    for kind, rate in rates.by_kind.items():
        width = 200 * rate / most if most else 0
        style = f"display:inline-block;height:1em;width:{width:.1f}px;background:"
        pieces += f'<span title="{kind}" style="{style}{KIND_COLOURS[kind]}"></span>'
    return pieces
