"""Programs of RDMA's verbs: each is run on the simulated device, and what it cost is kept."""

from __future__ import annotations

import contextlib
import random
import runpy
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.errors import SimulationError, printable
from nicscope.interfaces.run_report import report_of
from nicscope.interfaces.verbs_device.counters import COUNTERS
from nicscope.studies.programs import ProgramRuns, beside, check_source, failures_told
from nicscope.studies.topologies import CROSSBAR
from nicscope.studies.verbs_modules import folder_of, forget_modules
from nicscope.studies.verbs_outcomes import FAILED, PASSED, SKIPPED, TestOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from nicscope.interfaces.verbs_device.fabric import Fabric

BINDINGS = "pyverbs"  # what programs import
NS_PER_US = 1000
OUTCOMES = (PASSED, SKIPPED, FAILED)


class VerbsRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a program has cost on one design."""

    design: str
    node: int = 0
    status: int  # with which the program left
    messages_out: int
    bytes_out: int
    elapsed_us: float  # of virtual time
    lookups: int
    ni_misses: int
    pins: int
    unpins: int
    counters: dict[str, int] = {}  # by the names of Linux
    tests: list[TestOutcome]

    def count(self, outcome: str) -> int:
        """How many tests came to that."""
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def missed_percent(self) -> float:
        """Of the lookups."""
        return 100 * self.ni_misses / self.lookups if self.lookups else 0.0


class VerbsRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A program, and what each of its runs has cost."""

    program: str
    arguments: list[str]
    seed: int
    runs: list[VerbsRun]
    # The machine's own account of each design, with logs if they were kept.
    seen: ProgramRuns | None = None

    @property
    def has_nodes(self) -> bool:
        """Whether several nodes ran programs together."""
        return any(run.node for run in self.runs)

    def counters(self) -> dict[str, str]:
        """Counters that are not 0 in all runs, and what each counts."""
        return {
            name: counter.meaning
            for name, counter in COUNTERS.items()
            if any(run.counters.get(name) for run in self.runs)
        }

    def counted(self) -> Iterator[tuple[VerbsRun, str, str, int]]:
        """Yield each run's counters: the folder, the name, the value."""
        for run in self.runs:
            for name, value in run.counters.items():
                yield run, COUNTERS[name].folder, name, value

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json`` and results.json."""
        whole = msgspec.structs.replace(self, seen=None)
        found: dict[str, Any] = msgspec.to_builtins(whole)
        del found["seen"]
        return found


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is run on."""

    designs: Sequence[Any]  # names, files or designs; None: the device's own
    platform: Any = None
    device: str | None = None  # its name; None: its own
    seed: int = 0
    faults: dict[str, Any] = {}  # shares of packets, by what befalls them
    topology: str = CROSSBAR  # of several nodes
    keep_log: int = 0  # records of what every engine did, of all designs

    @property
    def log_of_each(self) -> int:
        """How many of them are a design's."""
        return self.keep_log // len(self.designs)


def run_programs(path: Path, arguments: Sequence[str], wanted: Wanted) -> VerbsRuns:
    """Run the file once for each design, as ``python FILE ARGUMENTS`` would.

    Errors: ``NicscopeError`` for a file that is no program or a device that cannot be;
    ``ProgramError`` for whatever the program raises.
    """
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.interfaces.verbs_device.device import Device

    check_source(path)
    faults = Faults(seed=wanted.seed, **wanted.faults)
    devices = []  # all of them before the program runs on the first
    for design in wanted.designs:
        chosen = {} if design is None else {"design": design}
        if wanted.platform is not None:
            chosen["platform"] = wanted.platform
        devices.append(Device(faults=faults, keep_log=wanted.log_of_each, **chosen))
    runs = [_run(path, arguments, device, wanted) for device in devices]
    program = printable(str(path))
    return VerbsRuns(
        program=program,
        arguments=[*arguments],
        seed=wanted.seed,
        runs=runs,
        seen=seen_of(program, [device.fabric for device in devices], wanted),
    )


def seen_of(program: str, fabrics: Sequence[Fabric], wanted: Wanted) -> ProgramRuns:
    """What machines tell of a program that has ended on them."""
    sources = [fabric.source() for fabric in fabrics]
    logs = [source.log() for source in sources] if wanted.keep_log else []
    return ProgramRuns(program=program, runs=[report_of(each) for each in sources], logs=logs)


def _run(path: Path, arguments: Sequence[str], device: Any, wanted: Wanted) -> VerbsRun:
    from nicscope.drivers.simulate.turns import StoppedError
    from nicscope.interfaces.verbs.alias import importable_as
    from nicscope.interfaces.verbs.processes import join_children, left_with
    from nicscope.interfaces.verbs.surroundings import system_answered
    from nicscope.interfaces.verbs.world import World, use
    from nicscope.studies.verbs_outcomes import outcomes_noted

    world = World(device, name=wanted.device)
    use(world)
    random.seed(wanted.seed)
    status = 0
    try:
        with (
            importable_as(BINDINGS),
            system_answered(),
            outcomes_noted() as tests,
            beside(path),
            _called(path, arguments),
            failures_told(path),
        ):
            try:
                # As Python itself has it: a program finds its folder by ``__file__``.
                runpy.run_path(str(path.absolute()), run_name="__main__")
            except SystemExit as leaving:
                status = left_with(leaving.code)
            join_children()
    except StoppedError:
        raise SimulationError(f"no program can go on: {world.stuck(path.name)}") from None
    finally:
        world.end()
        use(None)
    return run_of(device, status, tests)


def run_of(device: Any, status: int, tests: list[TestOutcome], node: int = 0) -> VerbsRun:
    """What a program that has ended has cost its device."""
    bill = device.bill()
    return VerbsRun(
        node=node,
        design=device.design_name,
        status=status,
        messages_out=bill.messages,
        bytes_out=bill.bytes,
        elapsed_us=bill.virtual_ns / NS_PER_US,
        lookups=bill.lookups,
        ni_misses=bill.misses,
        pins=bill.pins,
        unpins=bill.unpins,
        counters=device.counters(),
        tests=tests,
    )


@contextlib.contextmanager
def _called(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The program sees its own command line, and leaves no modules of its own behind."""
    kept, loaded = sys.argv, {*sys.modules}
    sys.argv = [str(path), *arguments]
    try:
        yield
    finally:
        sys.argv = kept
        forget_modules([folder_of(path)], loaded)
