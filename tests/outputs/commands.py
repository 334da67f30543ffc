"""Every file and folder that commands write, by the runs of every_command.py that write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from every_command import COMMANDS, INPUTS, RUNS, Run

if TYPE_CHECKING:
    from collections.abc import Iterable


class Case(NamedTuple):
    """A run that writes something of that name: the parameter's value."""

    run: Run
    parameter: str
    name: str  # a folder's has no point

    @property
    def command(self) -> str:
        return self.run.command

    @property
    def label(self) -> str:
        kinds = [kind for _, kind, _ in self.run.places if kind in INPUTS]
        return "-".join([*self.command.split(), *kinds, *self.name.split(".")])

    @property
    def is_folder(self) -> bool:
        return "." not in self.name


def _different(cases: Iterable[Case]) -> list[Case]:
    """Without files of a name that another run of the command writes as well."""
    found: dict[Any, Case] = {}
    for case in cases:
        written = case.run if case.is_folder else case.name
        found.setdefault((case.command, case.parameter, written), case)
    return [*found.values()]


CASES = _different(
    Case(run, parameter, name)
    for run in RUNS
    for parameter, kind, names in run.places
    if kind == "out"
    for name in names.split("|")
)
FILES = [case for case in CASES if not case.is_folder]
# Whose format is told by it.
BY_NAME = [case for case in FILES if case.parameter not in ("timeline", "pcap")]
# Whose files are in a folder of their own, or a new one.
NEW_FOLDERS = [case for case in CASES if case.command == "trace split"]
FOLDERS = [case for case in CASES if case.is_folder and case not in NEW_FOLDERS]
# Of each way to write and each ending one that takes little else: it is tried with everything.
QUICK = [
    *(case for case in FILES if case.command in ("trace make", "trace convert", "record")),
    *(case for case in FILES if case.name in ("g.csv", "s.parquet", "t.json")),
    *(case for case in FOLDERS if case.command in ("rdma descriptors", "rdma plan", "reproduce")),
    *(case for case in FOLDERS if case.label == "simulate-program-results"),
]
QUICKEST = ("trace make", "trace convert", "rdma descriptors", "rdma plan")


def spread(pairs: Iterable[tuple[Case, Any]]) -> list[tuple[Case, Any]]:
    """Those of pairs of a case and another value that the gate takes, and not the long tests.

    All of the quickest cases, three of each quick one, and one of each other, with the values in
    turn.
    """
    its: dict[Case, list[tuple[Case, Any]]] = {}
    for case, value in pairs:
        its.setdefault(case, []).append((case, value))
    chosen = []
    for number, (case, both) in enumerate(its.items()):
        count = len(both) if case.command in QUICKEST else 3 if case in QUICK else 1
        turned = both[number % len(both) :] + both[: number % len(both)]
        chosen += turned[:: max(1, len(both) // count)][:count]
    return chosen


# What is written, where the command is made of a function, which takes paths as text too.
AS_TEXT = {"out", "timeline", "pcap"}


def written_paths() -> set[tuple[str, str]]:
    """Command and parameter of every path that a command takes and that no run reads."""
    read = {(run.command, key) for run in RUNS for key, kind, _ in run.places if kind in INPUTS}
    # Of compiled programs: tests/live/test_recorded_verbs.py and test_captured_frames.py.
    read |= {("verbs exec", "record"), ("verbs exec", "pcap")}
    return {
        (name, parameter)
        for name, command in COMMANDS.items()
        for parameter, kind in get_type_hints(command.callback).items()
        if kind is Path or {Path, list[Path]} & {*get_args(kind)} or parameter in AS_TEXT
    } - read
