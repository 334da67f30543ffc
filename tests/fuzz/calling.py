"""How a reader of a user's file is called, and what it may say."""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

from nicscope.cli.app import main
from nicscope.errors import LONGEST, NicscopeError


class Reader(NamedTuple):
    """A name, the ending of its files, how a file is made and how it is read."""

    ending: str
    make: object  # (random) -> bytes
    read: object  # (path, folder) -> None; raises if the property does not hold


class Broken(Exception):  # noqa: N818 - what the fuzzer looks for
    """A reader said what it should not."""


def commanded(*arguments):
    """Run a command, and check what it says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    said = err.getvalue()
    if status == 0:
        return out.getvalue()
    if status != 2 or out.getvalue() or said.count("\n") != 1 or not said.startswith("nicscope: "):
        raise Broken(f"{arguments}: status {status}, said {said[:500]!r}")
    _check_line(said[:-1])
    return None


def _check_line(line):
    if len(line) > LONGEST + len("nicscope: ") or not line.isprintable():
        raise Broken(f"an error of {len(line)} characters: {line[:500]!r}")
    if "not enough memory" in line:  # the last resort, where sizes were to be looked at before
        raise Broken(f"a MemoryError: {line[:500]!r}")


def called(function):
    """Call ``function``, and check what it refuses with."""
    try:
        return function()
    except NicscopeError as error:
        _check_line(str(error))
        return None
