"""Programs of RDMA's verbs on simulated devices of one design or several."""

from __future__ import annotations

import contextlib
import importlib._bootstrap
import os
import random
import runpy
import shlex
import sys
import types
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.design import load_design, with_settings
from nicscope.errors import (
    DesignError,
    NicscopeError,
    SimulationError,
    StudyError,
    did_you_mean,
    printable,
)
from nicscope.fabric.topology import Topology, crossbar, pair, trunk
from nicscope.interfaces.run_report import report_of
from nicscope.interfaces.verbs_device.device import COUNTERS, Device
from nicscope.studies.programs import (
    ProgramError,
    ProgramRuns,
    beside,
    check_source,
    failures_as_program_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nicscope.interfaces.verbs_device.capture import Capture
    from nicscope.interfaces.verbs_device.fabric import Fabric

CROSSBAR = "crossbar"
TOPOLOGIES = (CROSSBAR, "pair", "trunk")


def topology_named(name: str, nodes: int) -> Topology:
    """The named topology of so many nodes; a trunk joins the first half with the other.

    Errors: ``DesignError`` for a name that is none, or for nodes that it cannot have.
    """
    if name not in TOPOLOGIES:
        raise DesignError(f"no topology {name!r}{did_you_mean(name, TOPOLOGIES)}")
    if name == "trunk":
        return trunk((nodes + 1) // 2, nodes // 2)
    if name == CROSSBAR:
        return crossbar(nodes)
    if nodes != 2:
        raise DesignError(f"topology 'pair' has 2 nodes, got {nodes}; try 'crossbar'")
    return pair()


OURS = {"nicscope", "pyverbs", "__main__"}  # which all programs share, wherever it lies
# Of modules that are being imported, by name: weak references (Python 3.11 to 3.13).  A Python that
# keeps them elsewhere has programs wait for each other's imports of modules of one name.
_locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})


def folder_of(path: Path) -> str:
    """The folder that a program's imports are found in."""
    return str(path.resolve().parent)


def is_of(name: str, folders: set[str]) -> bool:
    """Whether an imported module lies in one of these folders, or in a package of theirs."""
    top = name.partition(".")[0]
    module = sys.modules.get(top)
    if module is None or top in OURS:
        return False
    places = [*getattr(module, "__path__", ())]
    file = getattr(module, "__file__", None)
    if not places and file:
        places = [file]
    return not folders.isdisjoint(os.path.realpath(Path(place).parent) for place in places)


def forget_modules(folders: Sequence[str], loaded: set[str]) -> None:
    """Unload the modules from a program's folder, except those already ``loaded``."""
    for name in [name for name in {*sys.modules} - loaded if is_of(name, {*folders})]:
        del sys.modules[name]


class NodeModules:
    """Per-node ``sys.modules``: each node's program sees its own modules while it runs.

    Those are its own that lie beside it, or in a folder that it has had searched.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._given = {*sys.path}
        self._shared = {*sys.modules}
        self._own: list[dict[str, Any]] = [{} for _ in folders]
        self._held: list[dict[str, Any]] = [{} for _ in folders]  # locks
        self._many = len(sys.modules)

    def enter(self, node: int) -> None:
        """Install the modules of a node whose program resumes."""
        sys.modules.update(self._own[node])
        _locks.update(self._held[node])
        self._many = len(sys.modules)

    def leave(self, node: int) -> None:
        """Save the modules of a node whose program is suspended."""
        names = {*self._own[node]}
        if len(sys.modules) != self._many:
            added = (os.path.realpath(each) for each in sys.path if each not in self._given)
            folders = {self._folders[node], *added}
            for name in {*sys.modules} - self._shared - names:
                (names if is_of(name, folders) else self._shared).add(name)
        self._own[node] = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        self._held[node] = dict(_locks)
        _locks.clear()


PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"


class TestOutcome(msgspec.Struct, frozen=True):
    """A test's outcome, and the reason if it did not pass."""

    test: str
    outcome: str
    reason: str = ""


@contextlib.contextmanager
def outcomes_noted() -> Iterator[list[TestOutcome]]:
    """Within the block, each test's outcome is appended to the list."""
    found: list[TestOutcome] = []
    result: Any = unittest.TestResult
    kept = {name: getattr(result, name) for name in _NOTED}

    def noting(name: str, outcome: str) -> Any:
        def note(self: Any, test: Any, *told: Any) -> None:
            reason = _reason(told[-1]) if told else ""
            found.append(TestOutcome(test.id(), outcome, reason))
            kept[name](self, test, *told)

        return note

    for name, outcome in _NOTED.items():
        setattr(result, name, noting(name, outcome))
    try:
        yield found
    finally:
        for name, method in kept.items():
            setattr(result, name, method)


_NOTED = {
    "addSuccess": PASSED,
    "addExpectedFailure": PASSED,
    "addSkip": SKIPPED,
    "addFailure": FAILED,
    "addError": FAILED,
    "addUnexpectedSuccess": FAILED,
}


def _reason(told: Any) -> str:
    """The reason of a skip, or an error in one line."""
    if isinstance(told, str):
        return told
    kind, error, _ = told
    lines = str(error).splitlines() or [""]
    return f"{kind.__name__}: {lines[0]}"


BINDINGS = "pyverbs"  # what programs import
NS_PER_US = 1000
OUTCOMES = (PASSED, SKIPPED, FAILED)


class VerbsRun(msgspec.Struct, frozen=True, kw_only=True):
    """The costs of one run of a program on one design."""

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
        """The number of tests with that outcome."""
        return sum(test.outcome == outcome for test in self.tests)

    @property
    def missed_percent(self) -> float:
        """The percentage of lookups that missed."""
        return 100 * self.ni_misses / self.lookups if self.lookups else 0.0


class VerbsRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A program, and the costs of each of its runs."""

    program: str
    arguments: list[str]
    seed: int
    runs: list[VerbsRun]
    # The machine's own account of each design, with logs if they were kept.
    seen: ProgramRuns | None = None
    captured: str = ""  # how many frames were written, and what was left out

    @property
    def has_nodes(self) -> bool:
        """Whether programs ran on several nodes together."""
        return any(run.node for run in self.runs)

    def counters(self) -> dict[str, str]:
        """The counters that are not 0 in all runs, and their meanings."""
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
        del found["seen"], found["captured"]
        return found


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The designs, and options of the device, that a program runs on."""

    designs: Sequence[Any]  # names, files or designs; None: the device's own
    platform: Any = None
    device: str | None = None  # its name; None: its own
    seed: int = 0
    faults: dict[str, Any] = {}  # shares of packets, by what befalls them
    topology: str = CROSSBAR  # of several nodes
    delay: str | None = None  # of a packet between two of them
    keep_log: int = 0  # records of what every engine did, of all designs

    @property
    def log_of_each(self) -> int:
        """How many of them are a design's."""
        return self.keep_log // len(self.designs)


@contextlib.contextmanager
def captured_to(path: Path | str | None) -> Iterator[Capture | None]:
    """What writes packets to a file that is whole after the block; None without one."""
    from nicscope.interfaces.verbs_device.capture import Capture
    from nicscope.outputs import whole_file

    if path is None:
        yield None
        return
    with whole_file(path) as file:
        yield Capture(file)


def run_programs(
    path: Path, arguments: Sequence[str], wanted: Wanted, capture: Capture | None = None
) -> VerbsRuns:
    """Run the file once for each design, as ``python FILE ARGUMENTS`` would.

    ``capture``: told of the packets, of one design alone.  Errors: ``NicscopeError`` for a file
    that is no program or a device that cannot be; ``ProgramError`` for whatever the program raises.
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
    if capture is not None:
        capture.begin(devices[0].fabric)
    runs = [_run(path, arguments, device, wanted) for device in devices]
    program = printable(str(path))
    return VerbsRuns(
        program=program,
        arguments=[*arguments],
        seed=wanted.seed,
        runs=runs,
        seen=report_of_runs(program, [device.fabric for device in devices], wanted),
    )


def report_of_runs(program: str, fabrics: Sequence[Fabric], wanted: Wanted) -> ProgramRuns:
    """The machines' reports of a program that has ended."""
    sources = [fabric.source() for fabric in fabrics]
    logs = [source.log() for source in sources] if wanted.keep_log else []
    return ProgramRuns(program=program, runs=[report_of(each) for each in sources], logs=logs)


def _run(path: Path, arguments: Sequence[str], device: Any, wanted: Wanted) -> VerbsRun:
    from nicscope.drivers.simulate.thread_scheduler import StoppedError
    from nicscope.interfaces.verbs.base import World, use
    from nicscope.interfaces.verbs.modules import importable_as
    from nicscope.interfaces.verbs.os_emulation import exit_code_of, join_children, system_emulated

    world = World(device, name=wanted.device)
    use(world)
    random.seed(wanted.seed)
    status = 0
    try:
        with (
            importable_as(BINDINGS),
            system_emulated(),
            outcomes_noted() as tests,
            beside(path),
            _called(path, arguments),
            failures_as_program_errors(path),
        ):
            try:
                # As Python itself has it: a program finds its folder by ``__file__``.
                runpy.run_path(str(path.absolute()), run_name="__main__")
            except SystemExit as leaving:
                status = exit_code_of(leaving.code)
            join_children()
    except StoppedError:
        raise SimulationError(f"no program can go on: {world.stuck(path.name)}") from None
    finally:
        world.end()
        use(None)
    return run_of(device, status, tests)


def run_of(device: Any, status: int, tests: list[TestOutcome], node: int = 0) -> VerbsRun:
    """The costs of a program that has ended on its device."""
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
    """Give the program its own command line, and unload its modules afterwards."""
    kept, loaded = sys.argv, {*sys.modules}
    sys.argv = [str(path), *arguments]
    try:
        yield
    finally:
        sys.argv = kept
        forget_modules([folder_of(path)], loaded)


MOST_NODES = 16  # assumed: an address space and a thread for each


class NodeProgram(msgspec.Struct, frozen=True):
    """A node's program: a file and its arguments."""

    path: Path
    arguments: list[str]

    @property
    def told(self) -> str:
        """The command line."""
        return " ".join([printable(str(self.path)), *self.arguments])


def programs_of(nodes: Mapping[int, str | Sequence[str]]) -> list[NodeProgram]:
    """The programs of nodes from 0 on.  Errors: ``StudyError`` for what is none, or missing."""
    if sorted(nodes) != list(range(len(nodes))) or not 2 <= len(nodes) <= MOST_NODES:
        raise StudyError(
            f"2 to {MOST_NODES} nodes have programs, from node 0 on; got nodes "
            f"{', '.join(map(str, sorted(nodes)))}"
        )
    found = []
    for node, command in sorted(nodes.items()):
        try:
            words = shlex.split(command) if isinstance(command, str) else [*map(str, command)]
        except ValueError as wrong:
            raise StudyError(f"the program of node {node}: {str(wrong).lower()}") from None
        if not words:
            raise StudyError(f"node {node} has no program")
        found.append(NodeProgram(Path(words[0]), words[1:]))
    return found


def run_on_nodes(
    programs: Sequence[NodeProgram], wanted: Wanted, capture: Capture | None = None
) -> VerbsRuns:
    """Run a program on each node, together, once for each design.

    ``capture``: as of ``run_programs``.  Errors: ``NicscopeError`` for a file that is no program, a
    device that cannot be, or programs that wait for each other for ever; ``ProgramError`` for
    whatever programs raise, with the number of the node of each.
    """
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.interfaces.verbs_device.fabric import DESIGN, Fabric

    for program in programs:
        check_source(program.path)
    topology = topology_named(wanted.topology, len(programs))
    faults = Faults(seed=wanted.seed, **wanted.faults)
    fabrics = [
        Fabric(
            design or DESIGN,
            wanted.platform,
            faults=faults,
            topology=topology,
            delay=wanted.delay,
            keep_log=wanted.log_of_each,
        )
        for design in wanted.designs
    ]
    if capture is not None:
        capture.begin(fabrics[0])
    runs = [run for fabric in fabrics for run in _run_nodes(programs, fabric, wanted)]
    told = ", ".join(f"{node}: {each.told}" for node, each in enumerate(programs))
    seen = report_of_runs(told, fabrics, wanted)
    return VerbsRuns(program=told, arguments=[], seed=wanted.seed, runs=runs, seen=seen)


def _run_nodes(programs: Sequence[NodeProgram], fabric: Fabric, wanted: Wanted) -> list[VerbsRun]:
    from nicscope.interfaces.verbs.modules import importable_as
    from nicscope.interfaces.verbs.os_emulation import sockets_emulated, system_emulated

    random.seed(wanted.seed)
    crew = ProgramGroup(programs, fabric, wanted.device)
    kept = sys.argv, sys.path, sys.modules["__main__"], {*sys.modules}
    try:
        with (
            importable_as(BINDINGS),
            system_emulated(),
            sockets_emulated(),
            outcomes_noted() as tests,
        ):
            crew.run()
    finally:
        sys.argv, sys.path, sys.modules["__main__"], loaded = kept
        forget_modules([folder_of(each.path) for each in programs], loaded)
    return [
        run_of(device, crew.statuses[node], tests if node == 0 else [], node)
        for node, device in enumerate(fabric.devices)
    ]


class ProgramGroup:
    """The programs of a run, each with its own interpreter state while it is scheduled."""

    def __init__(
        self, programs: Sequence[NodeProgram], fabric: Fabric, name: str | None = None
    ) -> None:
        from nicscope.drivers.simulate.thread_scheduler import ScheduledCaller
        from nicscope.interfaces.verbs.base import World
        from nicscope.interfaces.verbs_device.device import Device

        self.programs, self.fabric = programs, fabric
        devices: list[Device] = [Device.on(fabric) for _ in programs]
        fabric.begun()
        self.turns = fabric.take_turns()
        self.worlds = [World(device, node, name) for node, device in enumerate(devices)]
        for world in self.worlds:
            world.neighbours = self.worlds
            world.turn = ScheduledCaller(self.turns)
        self.statuses = [0] * len(programs)
        self.failures: dict[int, Exception] = {}
        self._mains = [types.ModuleType("__main__") for _ in programs]
        self._argvs = [[str(each.path), *each.arguments] for each in programs]
        folders = [folder_of(each.path) for each in programs]
        self._paths = [[folder, *sys.path] for folder in folders]
        self._modules = NodeModules(folders)

    def run(self) -> None:
        """Run all programs to their ends.  Errors: as of ``run_on_nodes``."""
        self.turns.taken, self.turns.left = self._enter, self._leave
        self.turns.run([self._program(node) for node in range(len(self.programs))])
        stuck = self.turns.stuck
        waits = "; ".join(f"{self._called(each)} waits for {what}" for each, what in stuck.items())
        if self.failures:
            told = [self._told(node, error) for node, error in sorted(self.failures.items())]
            raise ProgramError("".join(told) + (f"{waits}\n" if waits else ""))
        if stuck:
            raise SimulationError(f"no program can go on: {waits}")

    def _called(self, number: int) -> str:
        node = self.turns.process_of(number)
        name = printable(self.programs[node].path.name)
        return f"node {node} ({self.worlds[node].called.get(number, name)})"

    def _told(self, node: int, error: Exception) -> str:
        text = error.told if isinstance(error, ProgramError) else f"{error}\n"
        return f"{self._called(node)}:\n{text}"

    def _enter(self, number: int) -> None:
        node = self.turns.process_of(number)
        sys.argv, sys.path = self._argvs[node], self._paths[node]
        self._modules.enter(node)
        sys.modules["__main__"] = self._mains[node]

    def _leave(self, number: int) -> None:
        node = self.turns.process_of(number)
        self._argvs[node], self._paths[node] = sys.argv, sys.path
        self._modules.leave(node)

    def _program(self, node: int) -> Any:
        from nicscope.interfaces.verbs.base import bind_world, close_abandoned
        from nicscope.interfaces.verbs.os_emulation import (
            close_sockets,
            exit_code_of,
            join_children,
        )

        path, main = self.programs[node].path, self._mains[node]

        def run() -> None:
            bind_world(self.worlds[node])
            main.__dict__.update(__file__=str(path.absolute()), __builtins__=__builtins__)
            try:
                with failures_as_program_errors(path):
                    try:
                        code = compile(path.read_bytes(), os.fspath(path.absolute()), "exec")
                        exec(code, main.__dict__)
                    except SystemExit as leaving:
                        self.statuses[node] = exit_code_of(leaving.code)
                    join_children()
            except (ProgramError, NicscopeError) as failed:
                self.failures[node] = failed
            with contextlib.suppress(Exception):
                main.__dict__.clear()  # what it has opened is closed, as when a process ends
                for context in [*self.worlds[node].opened]:  # which hangs in a circle
                    context.close()
                close_abandoned()
                close_sockets()

        return run


def with_all_set(designs: Sequence[Any], assignments: Sequence[str]) -> list[Any]:
    """``designs``, None for the device's own, each with every ``KEY=VALUE`` of ``assignments``.

    Errors: ``DesignError`` for a design or a value that cannot be.
    """
    from nicscope.interfaces.verbs_device.fabric import DESIGN

    if not assignments:
        return [*designs]
    found = []
    for each in designs:
        design = load_design(DESIGN if each is None else each)
        try:
            found.append(with_settings(design, assignments))
        except DesignError as error:
            called = f"design {design.name!r}"
            raise DesignError(
                str(error) if str(error).startswith(called) else f"{called}: {error}"
            ) from error
    return found
