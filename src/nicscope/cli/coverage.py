"""``nicscope coverage``: which requirements of the papers have a test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nicscope.cli.answer import print_json
from nicscope.cli.arguments import AsJson  # noqa: TC001 - Typer reads the annotations


def coverage(
    tests: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of tests; left out: the source tree's, or those of this installation's.",
        ),
    ] = None,
    as_json: AsJson = False,
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
        from nicscope.reports.coverage import coverage_parts
        from nicscope.reports.printing import show

        show(coverage_parts(papers, found))


def _default_tests() -> Path | None:
    """The tests of the source tree that is running, if one is."""
    beside = Path(__file__).parents[3] / "tests"
    return beside if (beside.parent / "pyproject.toml").is_file() else None
