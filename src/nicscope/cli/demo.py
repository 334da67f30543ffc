"""``nicscope demo``: what the bundled traces do to the translation path of every interface."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nicscope.cli.arguments import option

EXAMPLE = "Example: [bold]nicscope demo --out demo-output[/bold]"


def demo(
    out: Annotated[Path, option("DIR", "Folder for tables and figures.")] = Path("demo-output"),
) -> None:
    """Replay three real traces on every published design."""
    from nicscope.library.translation import replay as run
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
