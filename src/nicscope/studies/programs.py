"""A person's program file: it is run, and every cluster that it ran says what that cost."""

from __future__ import annotations

import contextlib
import runpy
import sys
import warnings
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.errors import SimulationError, did_you_mean, printable
from nicscope.inputs import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nicscope.interfaces.ports.report import RunReport

MOST_BYTES = 1 << 22  # of a program's file
ENTRY = "main"
CLUSTER = "cluster"


class ProgramRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What a program's runs have cost, in their order."""

    program: str
    runs: list[RunReport]

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json`` and results.json."""
        return {"program": self.program, "runs": [run.to_json() for run in self.runs]}


def run_program(path: Path) -> ProgramRuns:
    """Run ``main()`` of the file, or else its ``cluster``, and collect what was run.

    Errors: ``SimulationError`` for a file that cannot be read, has neither or does not run
    anything, and whatever the program itself raises.
    """
    from nicscope.interfaces.ports.report import forget, on_run

    if not path.is_file():
        what = "is no regular file" if path.exists() else "no such program"
        raise SimulationError(f"{path}: {what}; name a .py file or a trace")
    runs: list[RunReport] = []
    on_run(runs.append)
    try:
        with _beside(path):
            names = _names_of(path)
            _start(path, names, bool(runs))
    finally:
        forget(runs.append)
    if not runs:
        raise SimulationError(
            f"{path}: ran no cluster of unet, vmmc or mini; call cluster.run() in {ENTRY}(), or "
            "run a program of trapeze or via with python, as their runs have no such report"
        )
    return ProgramRuns(program=printable(str(path)), runs=runs)


def _names_of(path: Path) -> dict[str, Any]:
    _check_source(path)
    return runpy.run_path(str(path), run_name=path.stem)


def _check_source(path: Path) -> None:
    """Errors: ``SimulationError`` if the file cannot be read or is no Python."""
    source = read_whole(path, MOST_BYTES, SimulationError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when it runs
            compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SimulationError(f"{path}: line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) or "it is nested too deeply"
        raise SimulationError(f"{path}: is no Python: {why}") from error


def _start(path: Path, names: dict[str, Any], has_run: bool) -> None:
    if callable(names.get(ENTRY)):
        names[ENTRY]()
    elif hasattr(names.get(CLUSTER), "run"):
        if not has_run:
            names[CLUSTER].run()
    elif not has_run:
        callables = [name for name, value in names.items() if callable(value)]
        raise SimulationError(
            f"{path}: has no {ENTRY}() and no {CLUSTER}{did_you_mean(ENTRY, callables)}; "
            f"define {ENTRY}(), which makes a cluster and runs it"
        )


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[None]:
    """The program may import what lies beside it."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
