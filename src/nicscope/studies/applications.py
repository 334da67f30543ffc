"""Parallel programs on shared memory: run, traced, and on simulated machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nicscope.apps.splash.barnes import barnes
from nicscope.apps.splash.kernels import fft, lu, radix
from nicscope.apps.splash.ocean import ocean
from nicscope.apps.splash.raytrace import raytrace
from nicscope.apps.splash.volrend import volrend
from nicscope.apps.splash.water import water_nsquared, water_spatial
from nicscope.apps.svm.coherence import LEFT_OUT, SHARED_BASE, Costs, ProgramRecord
from nicscope.apps.svm.machines.node import check_machines, run_on_machines
from nicscope.apps.svm.process import Placement, Run, run_on_shared_memory
from nicscope.config.design import read_interface
from nicscope.config.quantities import read_bytes
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.errors import SimulationError, StudyError, did_you_mean
from nicscope.interfaces.run_report import RunReport, on_run
from nicscope.memory_limit import check_memory
from nicscope.traces.programs.schema import OPERATION_CODES, Operation, ProgramMetadata
from nicscope.traces.programs.writer import ProgramBuilder, write_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.apps.splash.program import SharedProgram
    from nicscope.traces.programs.schema import ProgramTrace


class Printed(NamedTuple):
    """The values of UTLB's Table 3 for a node, on average."""

    pages: int
    lookups: int


PAPERS_PLACEMENT = Placement(4, 4)
PHASES = 3  # of a run: its input is made, it runs, its result is checked


class Application(NamedTuple):
    """A program that can be run at any size."""

    what: str
    unit: str  # of its size
    usual: str  # size, small
    make: Callable[..., SharedProgram]  # of size, processes and seed
    paper: str | None = None  # size in UTLB's Table 3
    printed: Printed | None = None
    as_paper: Mapping[str, int] = {}  # what else is then as there, by name of ``make``'s
    as_placed: Mapping[str, int] = {}  # the same, if it runs on as many processes as there too


APPLICATIONS = {
    "fft": Application(
        "a transform with three transposes",
        "points",
        "64K",
        fft,
        "4M",
        Printed(10_803, 43_132),
        # Chosen with Table 3 in view, by which each page is fetched twice: 43,132 lookups, two a
        # fetch, of 10,803 pages.  6.1 calls the program a 2D FFT; SPLASH-2's is none, and has
        # three transposes.
        {"forth_and_back": 1},
    ),
    "lu": Application(
        "a dense matrix factored in blocks",
        "rows",
        "512",
        lu,
        "4K",
        Printed(12_507, 25_198),
        # Table 3 leaves 184 lookups beside two of each page.  "Each send" is traced (6): by barrier
        # three nodes tell the fourth, which tells each, so one and a half messages of a node, and a
        # step has two barriers.  That makes 61 steps; blocks of 64 rows make 64, of 32 rows 128.
        as_placed={"block": 64},
    ),
    "radix": Application(
        "integers sorted digit by digit", "keys", "256K", radix, "4M", Printed(6_393, 11_775)
    ),
    "ocean": Application("eddies of a basin, by multigrid", "points a side", "66", ocean),
    "barnes": Application(
        "bodies that attract, by an octree",
        "bodies",
        "1K",
        barnes,
        "32K",
        Printed(2_235, 35_904),
        {"steps": 1},  # "during one time step" (6.1), though the original makes one more than asked
    ),
    "water-nsquared": Application(
        "molecules, each with all others", "molecules", "216", water_nsquared
    ),
    "water-spatial": Application(
        "molecules, each with near ones",
        "molecules",
        "1000",
        water_spatial,
        "15625",
        Printed(1_890, 8_488),
        {"steps": 1},
    ),
    "raytrace": Application(
        "an image of a scene, by rays",
        "pixels a side",
        "64",
        raytrace,
        "256",
        Printed(6_319, 14_594),
        {"primitives": 180_000},
    ),
    "volrend": Application(
        "images of a volume, by rays",
        "voxels a side",
        "32",
        volrend,
        "256",
        Printed(2_371, 9_438),
        {"slices": 128},
    ),
}


class Traffic(NamedTuple):
    """Requests of a node's processes, initial data distribution excluded."""

    node: int
    requests: int
    pages: int  # distinct
    process_pages: int  # distinct pairs of process and page


class SharedMemory(NamedTuple):
    """The size of a program's shared memory."""

    byte_count: int
    page_bytes: int


class ApplicationRun(NamedTuple):
    """The result of a run whose output was checked."""

    name: str
    size: str
    placement: Placement
    seed: int
    milliseconds: float  # of logical time
    fetches: int
    initial_copies: int
    diffs: int
    diff_bytes: int
    columns: dict[str, NDArray[Any]]  # of its requests
    traffic: list[Traffic]
    printed: Printed | None  # of a run at the paper's size, on as many processes
    program: ProgramRecord  # what each process did
    memory: SharedMemory
    costs: Costs  # under which it ran

    def to_json(self) -> dict[str, Any]:
        """Everything except the requests and the program, as plain values."""
        fields = self._asdict()
        for name in ("columns", "program", "memory", "costs"):
            del fields[name]
        fields["placement"] = self.placement._asdict()
        fields["traffic"] = [each._asdict() for each in self.traffic]
        fields["printed"] = None if self.printed is None else self.printed._asdict()
        return fields

    def origin(self) -> dict[str, Any]:
        """The source that a trace of this run states."""
        private = self.placement.are_copies_private
        skewed = {"skew_us": self.costs.skew} if self.costs.skew else {}
        return {
            "program": self.name,
            "problem_size": self.size,
            "nodes": self.placement.nodes,
            "processes_per_node": self.placement.processes,
            "copies": "of each process" if private else "of each node",
            "seed": self.seed,
            **skewed,
            "recorder": "nicscope apps run",
        }


def placed(nodes: int, processes: int, *, private: bool = False) -> Placement:
    """Place ``processes`` on each of ``nodes``; with ``private`` each has its own copies."""
    return Placement(nodes, processes, private)


def _phases(watch: Callable[[int, int], None] | None) -> Callable[[], None]:
    """What tells ``watch``, once called, that one more of ``PHASES`` is over."""
    phases = iter(range(1, PHASES + 1))
    return lambda: None if watch is None else watch(next(phases), PHASES)


def run_application(
    name: str,
    size: str | int | None,
    placement: Placement,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
    *,
    with_initial: bool = False,
    is_direct: bool = False,
    inputs: Mapping[str, int] | None = None,
    skew_us: float = 0.0,
) -> ApplicationRun:
    """Run a program and check its result.

    ``watch`` is told how many of ``PHASES`` are over, of how many.  ``with_initial``: what each
    process did, as it is recorded, includes the first distribution of data.
    ``is_direct``: nobody at the other end of a request takes part, as in GeNIMA.
    ``inputs``: what else than by default is asked of a program that is not at the paper's size.
    ``skew_us``: by how much processes leave a barrier at different times, at most.
    Errors: ``StudyError`` for a name or a size that is none, and if the result is wrong;
    ``SimulationError`` for a size that the processes cannot share, ``RoomError`` for one that does
    not fit into memory.
    """
    over = _phases(watch)
    processes = placement.nodes * placement.processes
    application, program, is_as_paper = made(name, size, processes, seed, inputs)
    copies = processes if placement.are_copies_private else placement.nodes
    check_memory(
        copies * program.layout.pages * program.layout.page_bytes,
        f"{name} of {program.size} with {copies} copies of its memory",
        "ask for a smaller size, or fewer nodes",
    )
    over()
    with on_run(lambda _: None):  # who watches is told by phases, not of virtual time
        costs = Costs(skew=skew_us)
        run = run_on_shared_memory(
            program.body,
            program.layout,
            placement,
            program.set_up,
            costs,
            with_initial=with_initial,
            is_direct=is_direct,
            seed=seed,
        )
    over()
    check_run(program, run)
    over()
    columns = run.records.columns()
    return ApplicationRun(
        name,
        program.size,
        placement,
        seed,
        run.microseconds / 1000,
        run.records.fetches,
        run.records.initial_copies,
        run.records.diffs,
        run.records.diff_bytes,
        columns,
        [_traffic(columns, node, program.layout.page_bytes) for node in range(placement.nodes)],
        application.printed if is_as_paper and placement == PAPERS_PLACEMENT else None,
        run.records.program,
        SharedMemory(program.layout.pages * program.layout.page_bytes, program.layout.page_bytes),
        costs,
    )


def made(
    name: str,
    size: str | int | None,
    processes: int,
    seed: int,
    inputs: Mapping[str, int] | None = None,
) -> tuple[Application, SharedProgram, bool]:
    """A program of that size, and whether that is the paper's size.

    ``inputs``: what else than by default is asked of one that is not at the paper's size.
    Errors: ``StudyError`` for a name or a size that is none; ``SimulationError`` for a size that
    the processes cannot share.
    """
    if name not in APPLICATIONS:
        raise StudyError(f"no program {name!r}{did_you_mean(name, [*APPLICATIONS])}")
    application = APPLICATIONS[name]
    number = _number(size, application)
    is_as_paper = application.paper is not None and number == _number(
        application.paper, application
    )
    more = application.as_paper if is_as_paper else inputs or {}
    if is_as_paper and processes == PAPERS_PLACEMENT.nodes * PAPERS_PLACEMENT.processes:
        more = {**more, **application.as_placed}
    return application, application.make(number, processes, seed, **more), is_as_paper


def check_run(program: SharedProgram, run: Run) -> None:
    """Errors: ``StudyError`` if the output of ``run`` is wrong."""
    try:
        program.check(run)
    except SimulationError as error:
        raise StudyError(f"{error}; this is a fault of nicscope's: please report it") from error


def _number(size: str | int | None, application: Application) -> int:
    """A size such as ``4M``."""
    given = application.usual if size is None else str(size)
    number = read_bytes(given)
    if not number or not given[-1:].isalnum() or given.lower().endswith("b"):
        raise StudyError(
            f"{given!r} is no number of {application.unit}; such as {application.usual}"
        )
    return number


def _traffic(columns: dict[str, NDArray[Any]], node: int, page_bytes: int) -> Traffic:
    of_node = (columns["node"] == node) & ~columns["initial"]
    shared = of_node & (columns["address"] >= SHARED_BASE)
    pages = columns["address"][shared] // np.uint64(page_bytes)
    pairs = np.stack([columns["pid"][shared].astype(np.uint64), pages])
    return Traffic(
        node,
        int(of_node.sum()),
        len(np.unique(pages)),
        np.unique(pairs, axis=1).shape[1],
    )


def requests_of(run: ApplicationRun, *, with_initial: bool) -> dict[str, NDArray[Any]]:
    """The columns of the run's request trace; initial data distribution only if asked for."""
    kept = slice(None) if with_initial else ~run.columns["initial"]
    return {
        name: column[kept]
        for name, column in run.columns.items()
        if with_initial or name != "initial"
    }


def write_requests(run: ApplicationRun, path: Path, *, with_initial: bool = False) -> int:
    """Write a trace of it; its rows.  Errors: ``OutputError`` for a path, or if it has none."""
    from nicscope.traces.schema import TraceMetadata
    from nicscope.traces.writer import write_trace

    columns = requests_of(run, with_initial=with_initial)
    rows = len(columns["time_ns"])
    if not rows:
        raise StudyError(f"{run.name} asks no network interface for anything on one node")
    write_trace(path, columns, TraceMetadata(origin=run.origin()))
    return rows


_MOVES = {"fetch", "deposit"}
_NO_INITIAL = "the first distribution of data; --with-initial has it"


def program_trace_of(run: ApplicationRun) -> ProgramTrace:
    """The program trace of a run, each process's operations in order."""
    nodes, each = run.placement.nodes, run.placement.processes
    metadata = ProgramMetadata(
        nodes_of_processes=[node for node in range(nodes) for _ in range(each)],
        page_size=run.memory.page_bytes,
        base=SHARED_BASE,
        memory_bytes=run.memory.byte_count,
        program=run.name,
        size=run.size,
        seed=run.seed,
        left_out=[*LEFT_OUT] + ([] if run.program.with_initial else [_NO_INITIAL]),
        # CPU costs that were not measured
        assumed={
            f"{name}_us": getattr(run.costs, name)
            for name in ("access", "local_miss", "write_fault")
        },
        origin=run.origin(),
    )
    made = ProgramBuilder(metadata)
    for process in range(nodes * each):
        for row in run.program.rows_of(process):
            fields = row._asdict()
            operation = Operation(OPERATION_CODES[fields.pop("operation")])
            if row.operation in _MOVES:
                fields["address"] += SHARED_BASE
            made.add(process, operation, **fields)
    return made.trace()


def write_application_program(run: ApplicationRun, path: Path) -> None:
    """Write a run's program trace to ``path``.  Errors: ``OutputError`` if it cannot be written."""
    write_program(path, program_trace_of(run))


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
    """Interface, design, platform and faults of the machines that a program runs on."""

    on: str  # an interface
    design: str | Path | None = None  # None: the interface's first choice
    platform: str | Path | None = None
    faults: Faults = Faults()


class MachineApplicationRun(NamedTuple):
    """The result of a run whose output was checked."""

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
    over = _phases(watch)
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
    """``Faults``, as given or parsed from texts.  Errors: as of ``read_faults``."""
    return (
        given
        if isinstance(given, Faults)
        else read_faults([given] if isinstance(given, str) else given or ())
    )


def read_faults(given: Iterable[str]) -> Faults:
    """Parse faults: ``loss=0.1``, ``seed=3``, ``link=1@600``, a link that dies at 600 us.

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
