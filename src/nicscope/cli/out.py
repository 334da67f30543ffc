"""A result that is one file: ``-`` for standard output, and where text goes beside it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.outputs import STDOUT, check_output

if TYPE_CHECKING:
    from collections.abc import Iterator

DASH = "-"


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
