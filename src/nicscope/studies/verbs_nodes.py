"""Programs of verbs on several nodes, each with its own device, on one network and one clock."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.errors import NicscopeError, SimulationError, StudyError, printable
from nicscope.studies.programs import ProgramError, check_source, failures_told
from nicscope.studies.topologies import topology_named
from nicscope.studies.verbs_modules import OwnModules, folder_of, forget_modules
from nicscope.studies.verbs_programs import (
    BINDINGS,
    VerbsRun,
    VerbsRuns,
    Wanted,
    run_of,
    seen_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.interfaces.verbs_device.device import Device
    from nicscope.interfaces.verbs_device.fabric import Fabric


MOST_NODES = 16  # assumed: an address space and a thread for each


class NodeProgram(msgspec.Struct, frozen=True):
    """What runs on a node: a file and its arguments."""

    path: Path
    arguments: list[str]

    @property
    def told(self) -> str:
        """As one line."""
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


def run_on_nodes(programs: Sequence[NodeProgram], wanted: Wanted) -> VerbsRuns:
    """Run a program on each node, together, once for each design.

    Errors: ``NicscopeError`` for a file that is no program, a device that cannot be, or programs
    that wait for each other for ever; ``ProgramError`` for whatever programs raise, with the
    number of the node of each.
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
            keep_log=wanted.log_of_each,
        )
        for design in wanted.designs
    ]
    runs = [run for fabric in fabrics for run in _run(programs, fabric, wanted)]
    told = ", ".join(f"{node}: {each.told}" for node, each in enumerate(programs))
    seen = seen_of(told, fabrics, wanted)
    return VerbsRuns(program=told, arguments=[], seed=wanted.seed, runs=runs, seen=seen)


def _run(programs: Sequence[NodeProgram], fabric: Fabric, wanted: Wanted) -> list[VerbsRun]:
    from nicscope.interfaces.verbs.alias import importable_as
    from nicscope.interfaces.verbs.sockets import sockets_joined
    from nicscope.interfaces.verbs.surroundings import system_answered
    from nicscope.studies.verbs_outcomes import outcomes_noted

    random.seed(wanted.seed)
    crew = Crew(programs, fabric, wanted.device)
    kept = sys.argv, sys.path, sys.modules["__main__"], {*sys.modules}
    try:
        with (
            importable_as(BINDINGS),
            system_answered(),
            sockets_joined(),
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


class Crew:
    """The programs of a run, and what each sees of Python itself while it is its turn."""

    def __init__(
        self, programs: Sequence[NodeProgram], fabric: Fabric, name: str | None = None
    ) -> None:
        from nicscope.drivers.simulate.turns import Turn
        from nicscope.interfaces.verbs.world import World
        from nicscope.interfaces.verbs_device.device import Device

        self.programs, self.fabric = programs, fabric
        devices: list[Device] = [Device.on(fabric) for _ in programs]
        fabric.begun()
        self.turns = fabric.take_turns()
        self.worlds = [World(device, node, name) for node, device in enumerate(devices)]
        for world in self.worlds:
            world.neighbours = self.worlds
            world.turn = Turn(self.turns)
        self.statuses = [0] * len(programs)
        self.failures: dict[int, Exception] = {}
        self._mains = [types.ModuleType("__main__") for _ in programs]
        self._argvs = [[str(each.path), *each.arguments] for each in programs]
        folders = [folder_of(each.path) for each in programs]
        self._paths = [[folder, *sys.path] for folder in folders]
        self._modules = OwnModules(folders)

    def run(self) -> None:
        """Run all to their ends.  Errors: as of ``run_on_nodes``."""
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
        from nicscope.interfaces.verbs.base import close_left
        from nicscope.interfaces.verbs.processes import join_children, left_with
        from nicscope.interfaces.verbs.sockets import close_all
        from nicscope.interfaces.verbs.world import run_here

        path, main = self.programs[node].path, self._mains[node]

        def run() -> None:
            run_here(self.worlds[node])
            main.__dict__.update(__file__=str(path.absolute()), __builtins__=__builtins__)
            try:
                with failures_told(path):
                    try:
                        code = compile(path.read_bytes(), os.fspath(path.absolute()), "exec")
                        exec(code, main.__dict__)
                    except SystemExit as leaving:
                        self.statuses[node] = left_with(leaving.code)
                    join_children()
            except (ProgramError, NicscopeError) as failed:
                self.failures[node] = failed
            with contextlib.suppress(Exception):
                main.__dict__.clear()  # what it has opened is closed, as when a process ends
                for context in [*self.worlds[node].opened]:  # which hangs in a circle
                    context.close()
                close_left()
                close_all()

        return run
