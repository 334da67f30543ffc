"""``nicscope replay``: what a trace does to the translation path of one or more designs.

``nicscope demo`` does it with the bundled traces.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nicscope.cli.answer import answer, command_line
from nicscope.cli.arguments import AsJson, Assignments, WithoutKinds, option, trace_path
from nicscope.cli.progress import progress

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope replay bundled:redis_server[/bold]\n\n"
    "[bold]nicscope replay mine.parquet --design utlb --set entries=1024 --json[/bold]\n\n"
    "[bold]nicscope replay mine.parquet --design utlb --design mini --out results[/bold]"
)


def replay(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A trace (Parquet), or bundled:NAME for one that comes with nicscope.",
            show_default=False,
        ),
    ],
    design: Annotated[
        list[str] | None,
        option("NAME|FILE", "May be repeated; left out: every design of the catalog."),
    ] = None,
    platform: Annotated[
        str | None,
        option("NAME|FILE", "Prices every design; left out: each design's own platform."),
    ] = None,
    assignments: Assignments = None,
    as_json: AsJson = False,
    no_kinds: WithoutKinds = False,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, counts.parquet and figures.")
    ] = None,
) -> None:
    """Replay a trace through designs: NIC misses, pins, interrupts, time and memory."""
    from nicscope.reports.comparison import ReplayReport
    from nicscope.studies.replaying import choose_subjects, compare

    designs, overrides = design or [], assignments or []
    subjects = choose_subjects(designs, platform, overrides)
    options = {"--design": designs, "--platform": platform, "--set": overrides}
    command = command_line(["replay", trace], {**options, "--no-kinds": no_kinds})

    def replayed() -> ReplayReport:
        from nicscope.traces.reader import open_trace

        requests = open_trace(trace_path(trace))
        with progress("replaying", "rows") as watch:
            return ReplayReport(
                compare(
                    requests,
                    subjects,
                    kinds=not no_kinds,
                    overrides=overrides,
                    command=command,
                    watch=watch,
                )
            )

    answer(replayed, out, as_json)


EXAMPLE = "Example: [bold]nicscope demo --out demo-output[/bold]"


def demo(
    out: Annotated[Path, option("DIR", "Folder for tables and figures.")] = Path("demo-output"),
) -> None:
    """Replay the bundled real traces through every published interface; tables and figures."""
    from nicscope.reports.comparison import ReplayReport
    from nicscope.reports.result import folder_for
    from nicscope.studies.replaying import choose_subjects, compare
    from nicscope.traces.bundled import bundled_traces

    subjects = choose_subjects([], None, [])
    files = []
    with folder_for(out) as folder:
        assert folder is not None
        from nicscope.traces.reader import open_trace

        for name, path in bundled_traces().items():
            with progress(f"replaying {name}", "rows", always_say=True) as watch:
                command = ["nicscope", "replay", f"bundled:{name}"]
                found = compare(open_trace(path), subjects, command=command, watch=watch)
            report = ReplayReport(found)
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
