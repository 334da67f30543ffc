"""``nicscope reproduce`` and ``nicscope coverage``: the papers' numbers and requirements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.answer import tell
from nicscope.cli.arguments import AsJson, option, trace_path
from nicscope.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.outputs import OutputFolder
    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.studies.reproduce.harness import Plan
    from nicscope.studies.reproduce.verdict import Reproduction

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope reproduce utlb/table6 unet_mm --out results[/bold]\n\n"
    "[bold]nicscope reproduce utlb/table4 --trace traces[/bold]"
)
LISTED = 12  # files


def reproduce(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER[/ID]", help="What to reproduce; by default all."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        option(
            "DIR",
            "Traces for the tables that take any, each file a program; may be repeated. "
            "Left out: the bundled ones.",
            "--trace",
        ),
    ] = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, results.md, and tables and figures.")
    ] = None,
) -> None:
    """Set what the papers published beside what nicscope finds.

    Exit status 1 if a number or statement misses that is not listed as a known miss, or if one
    that is listed misses no more.
    """
    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.reports.result import folder_for
    from nicscope.studies.reproduce.harness import load_papers, plan
    from nicscope.studies.reproduce.traced.running import trace_files

    names = wanted or []
    todo = plan(load_papers(), names, bool(traces))  # a name that is wrong leaves no folder
    files = [file for given in traces or [] for file in trace_files(trace_path(given))]
    wording = [*names, *(part for given in traces or [] for part in ("--trace", given))]
    with folder_for(out) as folder:
        report = ShownReproduction(_reproduce(names, todo, files), wording)
        written = [] if folder is None else _write(report, folder)
    if len(written) <= LISTED or as_json:
        tell(report, written, as_json)
    else:
        tell(report, [], as_json)
        print(f"\nwritten: {len(written)} files in {out}, among them {written[0].name}")
    if not report.found.as_known():
        raise typer.Exit(1)


def _reproduce(names: Sequence[str], todo: Plan, files: Sequence[Path]) -> Reproduction:
    """Run all of it, with its progress on the error stream."""
    from nicscope.studies.reproduce import harness

    with progress("reproducing", "items") as watch:
        count = _Count(watch, len(todo.items))
        found = harness.reproduce(names, progress=count, traced=bool(files))
    if todo.studies:
        with progress("replaying", "rows") as watch:
            harness.study(found, names, files, watch=watch)
    return found


class _Count:
    """Counts the items that are begun for a watch that hears how many are done."""

    def __init__(self, watch: Callable[[int, int], None], total: int) -> None:
        self._watch = watch
        self._total = total
        self._done = 0

    def __call__(self, name: str) -> None:  # noqa: ARG002 - how many, not which
        self._watch(self._done, max(self._total, self._done))
        self._done += 1


def _write(report: ShownReproduction, folder: OutputFolder) -> list[Path]:
    count = len(report.found.tables)
    with progress("writing", "tables") as watch:
        report.tell = _Count(watch, count)
        return report.write(folder)


def coverage(
    tests: Annotated[
        Path | None,
        option(
            "DIR", "Folder of tests; left out: the source tree's, or those of this installation's."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which requirements of the five papers have a test and which have not.

    A test shows a requirement by carrying @pytest.mark.requirement("UT-25").

    Example: nicscope coverage --json
    """
    from nicscope.reports.coverage import ShownCoverage
    from nicscope.studies.coverage import cover, load_requirements

    papers = load_requirements()
    tell(ShownCoverage(cover(papers, tests or _default_tests()), papers), [], as_json)


def _default_tests() -> Path | None:
    """The tests of the source tree that is running, if one is."""
    beside = Path(__file__).parents[3] / "tests"
    return beside if (beside.parent / "pyproject.toml").is_file() else None
