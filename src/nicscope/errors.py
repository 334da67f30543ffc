"""Every error that a user can cause.

NicscopeError           one line: what was found, where, and what to do; the CLI exits with 2
  TraceError            a trace that cannot be read, converted or believed
  DesignError           a design, or a ``--set`` value, that makes no sense
  PlatformError         a platform profile that makes no sense
  RecordError           a program that cannot be recorded
  OutputError           a result that cannot be written
  SimulationError       traffic or a program that cannot be simulated
  StudyError            a study or reproduction that does not exist
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class NicscopeError(Exception):
    """A mistake that one line can explain; never shown with a traceback."""


class TraceError(NicscopeError):
    """A trace that cannot be read, converted or believed."""


class DesignError(NicscopeError):
    """A design, or a value set on one, that makes no sense."""


class PlatformError(NicscopeError):
    """A platform profile that makes no sense."""


class RecordError(NicscopeError):
    """A program that cannot be recorded."""


class OutputError(NicscopeError):
    """A result that cannot be written."""


class SimulationError(NicscopeError):
    """Traffic, or a program, that cannot be simulated."""


class StudyError(NicscopeError):
    """A study or a reproduction that does not exist."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The tail of an error message: the nearest known word, or else all of them."""
    choices = sorted(known)
    near = difflib.get_close_matches(word, choices, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; choose from {', '.join(choices)}" if choices else ""
