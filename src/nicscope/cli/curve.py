"""``nicscope curve``: how much a larger, or wider, translation cache would buy."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Explain,
    Scheduler,
    Service,
    Traces,
    Workers,
    option,
    reads_services,
)

if TYPE_CHECKING:
    from nicscope.reports.curve import ShownCurves

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope curve bundled:redis_server[/bold]\n\n"
    "[bold]nicscope curve mine.parquet --ways 1,4 --line 1,8 --entries 64..8192[/bold]\n\n"
    "[bold]nicscope curve mine.parquet --by process --page-size 2MiB --json[/bold]\n\n"
    "[bold]nicscope curve huge.parquet --sample 0.01 --out results[/bold]\n\n"
    "[bold]nicscope curve conversation.jsonl --model llama-3-70b --tp 8 --page-size 2MiB[/bold]"
)


@reads_services
def curve(
    traces: Traces,
    ways: Annotated[
        str | None, option("N,...", "Ways of set-associative caches; default 1,2,4,8.")
    ] = None,
    line: Annotated[str, option("N,...", "Pages that share a line of the cache.")] = "1",
    entries: Annotated[
        str | None,
        option("LOW..HIGH", "Default 256..65536, or as the trace's pages suggest; up to 67108864."),
    ] = None,
    by: Annotated[
        str, option("trace|node|process", "A curve for each; a process as if it had the NIC alone.")
    ] = "trace",
    sample: Annotated[
        float | None,
        option("RATE", "Estimate from this share of the pages, with an interval; no sets then."),
    ] = None,
    seed: Annotated[int | None, option("N", "Sample other pages than those of seed 0.")] = None,
    skip: Annotated[
        int, option("N", "The first N requests fill the caches and are not counted.")
    ] = 0,
    no_offset: Annotated[
        bool, typer.Option("--no-offset", help="Let all processes begin at the same set.")
    ] = False,
    page_size: Annotated[str | None, option("BYTES", "Such as 2MiB; default the trace's.")] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, curves.parquet and figures.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show what every size of translation cache misses: exact, from one pass over the trace."""
    from nicscope.library.curve import curve as measure

    def measured() -> ShownCurves:
        return measure(
            [service.opened(one) for one in traces],
            ways=ways,
            line=line,
            entries=entries,
            by=by,
            sample=sample,
            seed=seed,
            offset=not no_offset,
            page_size=page_size,
            skip=skip,
            workers=workers,
            scheduler=scheduler,
        )

    answer(measured, out, as_json, explain)
