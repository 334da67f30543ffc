"""What several commands take: traces, folders, and results that are one file, ``-`` for stdout."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.cli import completion
from nicscope.config.byte_size import SPELLINGS, read_bytes
from nicscope.outputs import STDOUT, check_output

if TYPE_CHECKING:
    from collections.abc import Iterator

DASH = "-"


def option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    """An option with a value, which ``metavar`` stands for; ``told`` is its help."""
    return typer.Option(*names, metavar=metavar, help=told, **more)


Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="Traces (Parquet), or bundled:NAME for one that comes with nicscope.",
        autocompletion=completion.traces,
        show_default=False,
    ),
]
OneTrace = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace (Parquet), or bundled:NAME for one that comes with nicscope.",
        autocompletion=completion.traces,
        show_default=False,
    ),
]
Registering = Annotated[
    str, option("NAME|FILE", "What registering costs.", autocompletion=completion.registrations)
]
Assignments = Annotated[
    list[str] | None, option("KEY=VALUE", "Set on every design; may be repeated.", "--set")
]
WithoutKinds = Annotated[
    bool,
    typer.Option("--no-kinds", help="Do not part non-compulsory misses by cause; faster."),
]
Workers = Annotated[
    int | None,
    option("N", "Processes that share out a folder's nodes; left out: one per processor."),
]
Scheduler = Annotated[
    str | None,
    option(
        "tcp://HOST:PORT",
        "A Dask cluster to share a folder's nodes out to; it reads the files by the same paths.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Explain each term of the tables, once, below them.")
]


def byte_count(given: str | int) -> int:
    """The bytes that an argument names, as every size is spelt."""
    count = given if isinstance(given, int) else read_bytes(given)
    if count is None:
        raise typer.BadParameter(f"{given!r} is no whole number of bytes, {SPELLINGS}")
    return count


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
