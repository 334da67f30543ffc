"""``nicscope fit``: which caches explain what a NIC has counted."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, option

if TYPE_CHECKING:
    from nicscope.reports.fit import ShownFit

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope fit counters.json --trace mine.parquet[/bold]\n\n"
    "[bold]nicscope fit counters.json --trace mine.parquet --tolerance 0.05 --json[/bold]"
)


def fit(
    counters: Annotated[
        str,
        typer.Argument(
            metavar="COUNTERS",
            help='A JSON file of hits and misses: {"hits": 900, "misses": 100}, or a list of '
            'such, each with its "page_size".',
            show_default=False,
        ),
    ],
    trace: Annotated[
        str,
        option("TRACE", "The traffic that was counted.", autocompletion=arguments.traces),
    ],
    tolerance: Annotated[
        float, option("SHARE", "By which counted miss ratios may be off, beside chance.")
    ] = 0.01,
    entries: Annotated[
        str | None,
        option("LOW..HIGH", "Entries that a cache may have; default 1..65536 with sets."),
    ] = None,
    skip: Annotated[int, option("N", "Requests that warm the cache up and were not counted.")] = 0,
    line: Annotated[
        str, option("N,...", "Entries that the NIC fetches together; 64 bytes are 8.")
    ] = "1,8",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, caches.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Find cache sizes and ways that explain a NIC's hits and misses over known traffic."""
    from nicscope.library.fit import fit as find

    def found() -> ShownFit:
        return find(counters, trace, tolerance=tolerance, entries=entries, skip=skip, line=line)

    answer(found, out, as_json, explain)
