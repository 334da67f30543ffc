"""``nicscope demo``: the bundled traces through every published interface."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nicscope.cli.progress import progress

EXAMPLE = "Example: [bold]nicscope demo --out demo-output[/bold]"


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for tables and figures.")] = Path(
        "demo-output"
    ),
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
