"""Conversions from and to program traces: GOAL's text, and the requests of a program.

Which formats they are is told by the files, as ``formats`` tells others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import TraceError
from nicscope.outputs.file import named_format
from nicscope.traces.files import MAGIC, check_footer, first_bytes, open_bytes
from nicscope.traces.goal.exporting import write_goal
from nicscope.traces.goal.importing import read_goal
from nicscope.traces.programs.reader import program_of
from nicscope.traces.programs.schema import ENDING, is_program
from nicscope.traces.programs.writer import write_program

if TYPE_CHECKING:
    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.programs.schema import ProgramTrace

GOAL, PROGRAM = "goal", "program"
PROGRAM_FORMATS = {PROGRAM: (ENDING,), GOAL: (".goal",)}
_SNIFFED_BYTES = 1 << 14
_GOAL = re.compile(rb"^\s*num_ranks\s*\d", re.M)


def program_format(source: Input, name: str | None) -> str | None:
    """``goal`` or ``program``, as named or else by content, if ``source`` is one of them."""
    if name is not None:
        return name if name in PROGRAM_FORMATS else None
    if source.head(len(MAGIC)) == MAGIC:
        return PROGRAM if _is_program_file(source) else None
    if _GOAL.search(first_bytes(source, _SNIFFED_BYTES)):
        return GOAL
    return GOAL if named_format(Path(source.name), PROGRAM_FORMATS) == GOAL else None


def program_format_to_write(path: Path, name: str | None) -> str | None:
    """``goal`` or ``program``, as named or else by the ending, if ``path`` is to be one of them."""
    if name is not None:
        return name if name in PROGRAM_FORMATS else None
    return named_format(path, PROGRAM_FORMATS)


def _is_program_file(source: Input) -> bool:
    """Whether its columns are a program trace's; whoever reads it tells what is wrong with it."""
    try:
        path = source.at_rest()
        check_footer(path, source.name)
        return is_program(pq.read_schema(path))
    except (TraceError, OSError, pa.ArrowException):
        return False


def is_program_file(path: Path) -> bool:
    """Whether ``path`` is a program trace, as far as its columns say."""
    try:
        with open_bytes(path) as source:
            return program_format(source, None) == PROGRAM
    except TraceError:
        return False


def read_as_program(
    source: Input, kind: str, choices: Choices, watch: Watch | None = None
) -> ProgramTrace:
    """The program trace in a source of that kind; errors: as its reader's."""
    return read_goal(source, choices, watch) if kind == GOAL else program_of(source, watch)


def write_as(path: Path, kind: str, trace: ProgramTrace, watch: Watch | None = None) -> list[str]:
    """Write ``trace`` in that format; what it has no place for.  Errors: as its writer's."""
    if kind == GOAL:
        return write_goal(path, trace, watch)
    write_program(path, trace)
    return []
