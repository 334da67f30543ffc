"""What commands that write timelines take and say of it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nicscope.cli.arguments import option, output_path, text_beside
from nicscope.errors import printable

if TYPE_CHECKING:
    from nicscope.studies.programs import ProgramRuns

Timeline = Annotated[
    Path | None,
    option(
        "FILE",
        "Of a program: what every engine did when, for ui.perfetto.dev, or a page that shows "
        "itself where FILE ends in .html; - for standard output.",
        parser=output_path,
    ),
]


def beside_timeline(timeline: Path | None, as_json: bool) -> Any:
    """A block in which what is printed does not mix with a timeline.

    Errors: ``OutputError`` if that could not be written.
    """
    return contextlib.nullcontext() if timeline is None else text_beside(timeline, as_json)


def tell_of_rest(found: ProgramRuns, path: Path) -> None:
    """Say on the error stream how much of a run a timeline does not show."""
    from nicscope.studies.timeline import counts

    kept, every = counts(found)
    if kept < every:
        print(
            f"nicscope: {printable(str(path))}: the first {kept:,} of {every:,} records, which is "
            "as many as a browser holds",
            file=sys.stderr,
        )
