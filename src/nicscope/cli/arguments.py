"""What several commands take: traces, folders, and results that are one file, ``-`` for stdout."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.errors import printable
from nicscope.inputs import STDIN
from nicscope.outputs import STDOUT, check_output

if TYPE_CHECKING:
    from collections.abc import Iterator

BUNDLED = "bundled:"
DASH = "-"


def option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    """An option with a value, which ``metavar`` stands for; ``told`` is its help."""
    return typer.Option(*names, metavar=metavar, help=told, **more)


Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="Traces (Parquet), or bundled:NAME for one that comes with nicscope.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None, option("KEY=VALUE", "Set on every design; may be repeated.", "--set")
]
WithoutKinds = Annotated[
    bool,
    typer.Option("--no-kinds", help="Do not part non-compulsory misses by cause; faster."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def output_path(given: str) -> Path:
    """The path that an argument names; ``-`` is standard output, ``./-`` a file."""
    return STDOUT if given == DASH else Path(given)


@contextlib.contextmanager
def text_beside(out: Path, as_json: bool = False) -> Iterator[None]:
    """Print on the error stream what the block prints, if ``out`` is standard output.

    Errors: ``OutputError`` if ``out`` cannot be written, or if JSON would be mixed into it.
    """
    from nicscope.errors import OutputError

    aside: Any = contextlib.nullcontext()
    if check_output(out).is_standard_output():
        if as_json:
            raise OutputError(
                f"{out}: is where --json prints; name a file for the result, or leave --json out"
            )
        aside = contextlib.redirect_stdout(sys.stderr)
    with aside:
        yield


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
