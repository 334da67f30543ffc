"""Results on stdout, text, tables or JSON, and in folders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from nicscope.cli.streams import is_unicode
from nicscope.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from nicscope.reports.result import Report

Shown = TypeVar("Shown", bound="Report")


def answer(work: Callable[[], Shown], out: Path | None, as_json: bool) -> Shown:
    """Do ``work``, keep what it finds in the folder ``out`` if there is one, and print it.

    That the folder cannot be had is told before any work is done.
    """
    from nicscope.reports.result import folder_for

    with folder_for(out) as folder:
        report = work()
        written = [] if folder is None else report.write(folder)
    tell(report, written, as_json)
    return report


def tell(report: Report, written: list[Path], as_json: bool) -> None:
    """Print ``report``, and where its files went unless it is as JSON."""
    if as_json:
        print_json(report.to_json())
    else:
        report.show()
        print_written(written)


def command_line(words: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """Arguments that give the same numbers again.

    ``options``: those that were not left out.  None and False are left out after all, True is an
    option without a value, and of a list each value has the option before it.
    """
    command = ["nicscope", *words]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                command.append(option)
            elif one is not None and one is not False:
                command += [option, one if isinstance(one, str) else repr(one)]
    return command


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    from nicscope.reports.result import json_text

    print(json_text(result, ascii_only=not is_unicode(sys.stdout)), end="")


def print_written(files: list[Path]) -> None:
    """Print where results went."""
    if files:
        print("\nwritten:")
    for file in files:
        print(f"  {printable(str(file))}")
