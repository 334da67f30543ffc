"""Parallel programs on simulated machines: right with what NICs brought, and what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nicscope.apps.svm.machines.station import check_machines, run_on_machines
from nicscope.config.design import read_interface
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.errors import StudyError, did_you_mean
from nicscope.interfaces.run_report import on_run
from nicscope.studies.applications import PHASES, check_run, made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from nicscope.apps.svm.running import Placement
    from nicscope.interfaces.run_report import RunReport

USUAL = {  # sizes that take seconds
    "fft": "4K",
    "lu": "128",
    "radix": "8K",
    "ocean": "10",
    "barnes": "64",
    "water-nsquared": "64",
    "water-spatial": "125",
    "raytrace": "16",
    "volrend": "16",
}
PS_PER_US = 1_000_000
Placed: TypeAlias = "Placement"
Given: TypeAlias = "Faults | str | Iterable[str] | None"
CHANCES = ("loss", "duplication", "reordering", "corruption")
DEATHS = {"link": "link_deaths", "node": "node_deaths"}


class Machines(NamedTuple):
    """What a program is to run on."""

    on: str  # an interface
    design: str | Path | None = None  # None: the interface's first choice
    platform: str | Path | None = None
    faults: Faults = Faults()


class MachineApplicationRun(NamedTuple):
    """What has come of a program whose result was right."""

    name: str
    size: str
    placement: Placement
    seed: int
    on: str
    milliseconds: float  # of virtual time
    fetches: int
    initial_copies: int
    diffs: int
    diff_bytes: int
    report: RunReport  # what the NICs did, node by node

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        fields = self._asdict()
        fields["placement"] = self.placement._asdict()
        fields["report"] = self.report.to_json()
        return fields


def run_application_on_machines(
    name: str,
    size: str | int | None,
    placement: Placement,
    machines: Machines,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> MachineApplicationRun:
    """Run a program on simulated machines, and check its result.

    ``watch`` is told how many of ``PHASES`` are over, of how many.  Errors: as of
    ``run_application``, and ``SimulationError`` for what does not run on such machines or does not
    get through.
    """
    phases = iter(range(1, PHASES + 1))

    def over() -> None:
        if watch is not None:
            watch(next(phases), PHASES)

    on = read_interface(machines.on, "--on", StudyError)
    given = USUAL.get(name) if size is None else size
    _, program, _ = made(name, given, placement.nodes * placement.processes, seed)
    check_machines(on, program.layout, placement)
    over()
    options: dict[str, Any] = {"faults": machines.faults}
    if machines.platform is not None:
        options["platform"] = machines.platform
    with on_run(lambda _: None):  # who watches is told by phases, not of virtual time
        run = run_on_machines(
            program.body, program.layout, placement, program.set_up, on, machines.design, **options
        )
    over()
    check_run(program, run)
    over()
    records = run.records
    return MachineApplicationRun(
        name,
        program.size,
        placement,
        seed,
        on,
        run.microseconds / 1000,
        records.fetches,
        records.initial_copies,
        records.diffs,
        records.diff_bytes,
        run.report,
    )


def faults_of(given: Given) -> Faults:
    """What is given as ``Faults`` or in texts.  Errors: as of ``read_faults``."""
    return (
        given
        if isinstance(given, Faults)
        else read_faults([given] if isinstance(given, str) else given or ())
    )


def read_faults(given: Iterable[str]) -> Faults:
    """What goes wrong: ``loss=0.1``, ``seed=3``, ``link=1@600``, which dies at 600 us.

    Errors: ``StudyError`` for what is none of these, ``SimulationError`` for no probability.
    """
    found: dict[str, Any] = {"node_deaths": {}, "link_deaths": {}}
    for text in given:
        name, _, value = text.partition("=")
        try:
            if name in CHANCES:
                found[name] = float(value)
            elif name == "seed":
                found[name] = int(value)
            elif name in DEATHS:
                number, _, when = value.partition("@")
                found[DEATHS[name]][int(number)] = round(float(when) * PS_PER_US)
            else:
                known = [*CHANCES, "seed", *DEATHS]
                raise StudyError(f"no fault {text!r}{did_you_mean(name, known)}")
        except (ValueError, OverflowError):
            raise StudyError(
                f"no fault {text!r}; such as loss=0.05, seed=3 or link=1@600, which dies at 600 us"
            ) from None
    return Faults(**found)
