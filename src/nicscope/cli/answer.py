"""Prints results as text, tables or JSON, and writes them to folders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from nicscope.cli.streams import is_unicode
from nicscope.errors import OutputError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.reports.result import Report

Shown = TypeVar("Shown", bound="Report")


def answer(
    work: Callable[[], Shown],
    out: Path | None,
    as_json: bool,
    explain: bool = False,
    also: Sequence[Path] = (),
) -> Shown:
    """Run ``work``, write its result to the folder ``out`` if given, and print it.

    ``also``: what else ``work`` has written then.  That the folder cannot be had is told before
    any work is done.
    """
    from nicscope.reports.result import folder_for

    check_explained(explain, as_json)
    with folder_for(out) as folder:
        report = work()
        written = [] if folder is None else report.write(folder)
    tell(report, [*written, *also], as_json, explain)
    return report


def check_explained(explain: bool, as_json: bool) -> None:
    """Errors: ``OutputError`` for ``--explain`` together with ``--json``."""
    if explain and as_json:
        raise OutputError("--explain is for people, --json for programs; leave one of them out")


def tell(report: Report, written: list[Path], as_json: bool, explain: bool = False) -> None:
    """Print ``report``, and the paths of its files unless as JSON."""
    if as_json:
        print_json(report.as_json())
    else:
        report.show(explain=explain)
        print_written(written)


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    from nicscope.reports.result import json_text

    print(json_text(result, ascii_only=not is_unicode(sys.stdout)), end="")


def print_written(files: list[Path]) -> None:
    """Print the paths of written files."""
    if files:
        print("\nwritten:")
    for file in files:
        print(f"  {printable(str(file))}")
