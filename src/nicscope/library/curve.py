"""``nicscope curve``: how much a larger, or wider, translation cache would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import Option, Scheduler, Text, Workers, command, span
from nicscope.library.progress import progress
from nicscope.library.traces import Traces, all_opened
from nicscope.library.workers import check_alone, workers_for

if TYPE_CHECKING:
    from nicscope.reports.curve import ShownCurves


@command(
    "nicscope curve bundled:redis_server",
    "nicscope curve mine.parquet --ways 1,4 --line 1,8 --entries 64..8192",
    "nicscope curve mine.parquet --by process --page-size 2MiB --json",
    "nicscope curve huge.parquet --sample 0.01 --out results",
    "nicscope curve conversation.jsonl --model llama-3-70b --tp 8 --page-size 2MiB",
    out="Folder for results.json, curves.parquet and figures.",
)
def curve(
    repeat: list[str],
    /,
    trace: Traces,
    *,
    ways: Annotated[
        Text, Option("N,...", "Ways of set-associative caches; default 1,2,4,8.")
    ] = None,
    line: Annotated[Text, Option("N,...", "Pages that share a line of the cache.")] = "1",
    entries: Annotated[
        Text,
        Option(
            "LOW..HIGH",
            "Default 256..65536, or as the trace's pages suggest; up to 67108864.",
            read=span,
        ),
    ] = None,
    by: Annotated[
        Text,
        Option("trace|node|process", "A curve for each; a process as if it had the NIC alone."),
    ] = "trace",
    sample: Annotated[
        float | None,
        Option("RATE", "Estimate from this share of the pages, with an interval; no sets then."),
    ] = None,
    seed: Annotated[int | None, Option("N", "Sample other pages than those of seed 0.")] = None,
    skip: Annotated[
        int, Option("N", "The first N requests fill the caches and are not counted.")
    ] = 0,
    offset: Annotated[
        bool, Option("", "Let all processes begin at the same set.", ("--no-offset",))
    ] = True,
    page_size: Annotated[Text, Option("BYTES", "Such as 2MiB; default the trace's.")] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> ShownCurves:
    """Show what every size of translation cache misses: exact, from one pass over the trace."""
    from nicscope.studies.curves import ask

    question = ask(
        ways=ways,
        line=line,
        entries=entries,
        by=by,
        sample=sample,
        seed=seed,
        offset=offset,
        page_size=page_size,
        skip=skip,
    )
    from nicscope.reports.curve import ShownCurves
    from nicscope.studies.curves import report

    traces = all_opened(trace, folders=True)
    check_alone(skip, workers, scheduler)
    with (
        workers_for([one for _, one in traces], workers, scheduler, alone=bool(skip)) as hired,
        progress("measuring", "rows") as watch,
    ):
        return ShownCurves(report(traces, question, repeat, watch, hired))
