"""``nicscope coverage``: which requirements of the papers have a test."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.tables import WIDEST, print_json

if TYPE_CHECKING:
    from nicscope.studies.coverage import Coverage, Requirements


def coverage(
    tests: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of tests; left out: the source tree's, or those of this installation's.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show which requirements of the five papers have a test and which have not.

    A test shows a requirement by carrying @pytest.mark.requirement("UT-25").

    Example: nicscope coverage --json
    """
    from nicscope.studies.coverage import cover, load_requirements

    papers = load_requirements()
    found = cover(papers, tests or _default_tests())
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
    else:
        sys.stdout.write(coverage_text(papers, found))


def coverage_text(papers: list[Requirements], found: Coverage) -> str:
    """Counts per paper, then the ids without a test, in lines of at most 100 columns."""
    lines = [f"{'':<20}{'covered':>10}{'explained':>11}{'uncovered':>11}{'all':>7}"]
    totals = [0, 0, 0, 0]
    for paper in papers:
        keys = paper.requirements
        counts = [
            sum(key in place for key in keys)
            for place in (found.covered, found.explained, found.uncovered, keys)
        ]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lines.append(_row(f"{paper.title} ({paper.prefix})", counts))
    lines.append(_row("all", totals))
    for paper in papers:
        waiting = [key for key in paper.requirements if key in set(found.uncovered)]
        if waiting:
            lines += ["", f"{paper.title}, without a test:"]
            lines += textwrap.wrap(
                ", ".join(waiting),
                WIDEST,
                initial_indent="  ",
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
    if found.explained:
        lines += ["", "without a test for a reason:"]
        for key, why in found.explained.items():
            lines += textwrap.wrap(
                why, WIDEST, initial_indent=f"  {key:<8}", subsequent_indent=" " * 10
            )
    return "\n".join(lines) + "\n"


def _row(title: str, counts: list[int]) -> str:
    covered, explained, uncovered, everything = counts
    return f"{title:<20}{covered:>10}{explained:>11}{uncovered:>11}{everything:>7}"


def _default_tests() -> Path | None:
    """The tests of the source tree that is running, if one is."""
    beside = Path(__file__).parents[3] / "tests"
    return beside if (beside.parent / "pyproject.toml").is_file() else None
