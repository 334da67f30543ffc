"""``nicscope replay``: what a trace does to the translation path of one or more designs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nicscope.cli.progress import progress
from nicscope.cli.tables import print_json
from nicscope.errors import printable
from nicscope.inputs import STDIN

BUNDLED = "bundled:"
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
        typer.Option(
            metavar="NAME|FILE", help="May be repeated; left out: every design of the catalog."
        ),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="Prices every design; left out: each design's own platform."
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set on every design; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    no_kinds: Annotated[
        bool,
        typer.Option("--no-kinds", help="Do not part non-compulsory misses by cause; faster."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for results.json, counts.parquet and figures."),
    ] = None,
) -> None:
    """Replay a trace through designs: NIC misses, pins, interrupts, time and memory."""
    from nicscope.reports.folder import folder_for, write_comparison
    from nicscope.reports.terminal import print_comparison
    from nicscope.studies.replaying import choose_subjects, compare

    designs, overrides = design or [], assignments or []
    subjects = choose_subjects(designs, platform, overrides)
    with folder_for(out) as folder:
        from nicscope.traces.reader import open_trace

        requests = open_trace(trace_path(trace))
        with progress("replaying", "rows") as watch:
            found = compare(
                requests,
                subjects,
                kinds=not no_kinds,
                overrides=overrides,
                command=_command(trace, designs, platform, overrides, no_kinds),
                watch=watch,
            )
        written = [] if folder is None else write_comparison(found, folder)
    if as_json:
        print_json(found.to_json())
        return
    print_comparison(found)
    print_written(written)


def trace_path(given: str) -> Path:
    """The file that ``given`` names: a path, or ``bundled:NAME``.

    Errors: ``TraceError`` for a bundled trace that does not exist.
    """
    if not given.startswith(BUNDLED):
        return Path(given)
    from nicscope.errors import TraceError, did_you_mean
    from nicscope.traces.bundled import bundled_traces

    name = given.removeprefix(BUNDLED)
    bundled = bundled_traces()
    if name not in bundled:
        raise TraceError(f"no bundled trace {name!r}{did_you_mean(name, bundled)}")
    return bundled[name]


def trace_name(given: str) -> str:
    """What the trace that ``given`` names is called in tables: its file's name, or ``stdin``."""
    return "stdin" if given == STDIN else printable(Path(given.removeprefix(BUNDLED)).stem)


def print_written(files: list[Path]) -> None:
    """Print where results went."""
    if files:
        print("\nwritten:")
    for file in files:
        print(f"  {printable(str(file))}")


def _command(
    trace: str,
    designs: list[str],
    platform: str | None,
    overrides: list[str],
    no_kinds: bool,
) -> list[str]:
    """Arguments that give the same numbers again."""
    command = ["nicscope", "replay", trace]
    for name in designs:
        command += ["--design", name]
    if platform is not None:
        command += ["--platform", platform]
    for override in overrides:
        command += ["--set", override]
    return command + ["--no-kinds"] * no_kinds
