"""``nicscope replay``: what a trace does to the translation path of one or more designs.

``nicscope demo`` does it with the bundled traces.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Assignments,
    Explain,
    Scheduler,
    Service,
    WithoutKinds,
    Workers,
    option,
    reads_services,
)

if TYPE_CHECKING:
    from nicscope.reports.comparison import ReplayReport

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope replay bundled:redis_server[/bold]\n\n"
    "[bold]nicscope replay mine.parquet --design utlb --set entries=1024 --json[/bold]\n\n"
    "[bold]nicscope replay mine.parquet --design utlb --design mini --out results[/bold]\n\n"
    "[bold]nicscope replay kv.parquet --design rnic --registered 200GiB --page-size 2MiB[/bold]\n\n"
    "[bold]nicscope replay folder --design utlb --workers 8[/bold]\n\n"
    "[bold]nicscope replay conversation.jsonl --model llama-3-70b --tp 8 --design rnic "
    "--page-size 2MiB[/bold]"
)


@reads_services
def replay(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A trace (Parquet), a folder of files that are one, or bundled:NAME for one that "
            "comes with nicscope.",
            autocompletion=arguments.traces,
            show_default=False,
        ),
    ],
    design: Annotated[
        list[str] | None,
        option(
            "NAME|FILE",
            "May be repeated; left out: every design of the catalog.",
            autocompletion=arguments.designs,
        ),
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "Prices every design; left out: each design's own platform.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    assignments: Assignments = None,
    registered: Annotated[
        str | None,
        option(
            "BYTES",
            "RDMA NICs: each process registers so much, from its lowest address on; left out: "
            "what it touches.",
        ),
    ] = None,
    page_size: Annotated[
        str | None, option("BYTES", "Of a page, for every design; left out: the trace's.")
    ] = None,
    counters: Annotated[
        str | None,
        option("neohost|freebsd|rdma", "Show RDMA NICs' counts by that tool's names too."),
    ] = None,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
    no_kinds: WithoutKinds = False,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, tables and figures.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Replay a trace through designs: NIC misses, pins, interrupts, time and memory."""
    from nicscope.library.replay import replay as run

    def replayed() -> ReplayReport:
        given = {"registered": registered, "page_size": page_size}
        sizes = [f"{name}={text}" for name, text in given.items() if text is not None]
        return run(
            service.opened(trace),
            design,
            platform,
            kinds=not no_kinds,
            counters=counters,
            assignments=[*(assignments or ()), *sizes],
            workers=workers,
            scheduler=scheduler,
        )

    answer(replayed, out, as_json, explain)


EXAMPLE = "Example: [bold]nicscope demo --out demo-output[/bold]"


def demo(
    out: Annotated[Path, option("DIR", "Folder for tables and figures.")] = Path("demo-output"),
) -> None:
    """Replay the bundled real traces through every published interface; tables and figures."""
    from nicscope.library.replay import replay as run
    from nicscope.reports.result import folder_for
    from nicscope.traces.bundled import bundled_traces

    files = []
    with folder_for(out) as folder:
        assert folder is not None
        for name in bundled_traces():
            report = run(f"bundled:{name}")
            report.show()
            print()
            files += report.write(folder.within(name))
    _print_ending(out, files)


def _print_ending(out: Path, files: list[Path]) -> None:
    pictures = [file for file in files if file.suffix == ".png"]
    print("Open these figures (each as .svg too, beside results.json and counts.parquet):")
    for picture in pictures:
        print(f"  {picture}")
    first = pictures[0].parent.name
    print("\nTry next:")
    for line in (
        f"nicscope replay bundled:{first} --design utlb --set entries=256 --set ways=4",
        "nicscope record -o mine.parquet -- curl -s http://example.org -o /dev/null",
        f"nicscope replay mine.parquet --design utlb --design mini --out {out / 'mine'}",
    ):
        print(f"  {line}")
