"""``nicscope replay``: what a trace does to the translation path of one or more designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import (
    Assignments,
    Kinds,
    Option,
    Scheduler,
    Text,
    Values,
    Workers,
    as_given,
    command,
    designs,
    platform_option,
)
from nicscope.library.progress import progress
from nicscope.library.traces import open_trace, words_of
from nicscope.library.workers import workers_for

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.library.traces import TraceLike
    from nicscope.reports.comparison import ReplayReport


@command(
    "nicscope replay bundled:redis_server",
    "nicscope replay mine.parquet --design utlb --set entries=1024 --json",
    "nicscope replay mine.parquet --design utlb --design mini --out results",
    "nicscope replay kv.parquet --design rnic --registered 200GiB --page-size 2MiB",
    "nicscope replay folder --design utlb --workers 8",
    "nicscope replay conversation.jsonl --model llama-3-70b --tp 8 --design rnic --page-size 2MiB",
    out="Folder for results.json, tables and figures.",
)
def replay(
    repeat: list[str],
    /,
    trace: Annotated[
        TraceLike,
        Option(
            "TRACE",
            "A trace (Parquet), a folder of files that are one, or bundled:NAME for one that "
            "comes with nicscope.",
            offers="traces",
            read=as_given,
            words=words_of,
            is_argument=True,
            reads_services=True,
        ),
    ],
    designs: Annotated[
        Values,
        designs("May be repeated; left out: every design of the catalog."),
    ] = None,
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("Prices every design; left out: each design's own platform."),
    ] = None,
    *,
    assignments: Assignments = None,
    registered: Annotated[
        Text,
        Option(
            "BYTES",
            "RDMA NICs: each process registers so much, from its lowest address on; left out: "
            "what it touches.",
        ),
    ] = None,
    page_size: Annotated[
        Text, Option("BYTES", "Of a page, for every design; left out: the trace's.")
    ] = None,
    counters: Annotated[
        Text, Option("neohost|freebsd|rdma", "Show RDMA NICs' counts by that tool's names too.")
    ] = None,
    kinds: Kinds = True,
    workers: Workers = None,
    scheduler: Scheduler = None,
    **_settings: One,
) -> ReplayReport:
    """Replay a trace through designs: NIC misses, pins, interrupts, time and memory."""
    from nicscope.reports.comparison import ReplayReport
    from nicscope.studies.replaying import choose_subjects, compare, tool_named

    given = {"registered": registered, "page_size": page_size}
    overrides = [*assignments, *(f"{name}={text}" for name, text in given.items() if text)]
    subjects = choose_subjects(designs, platform, overrides)
    tool = None if counters is None else tool_named(counters, [one.design for one in subjects])
    requests = open_trace(trace)
    with (
        workers_for([requests], workers, scheduler) as hired,
        progress("replaying", "rows") as watch,
    ):
        return ReplayReport(
            compare(
                requests,
                subjects,
                kinds=kinds,
                overrides=overrides,
                command=repeat,
                watch=watch,
                tool=tool,
                workers=hired,
            )
        )
