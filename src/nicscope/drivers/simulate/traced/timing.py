"""A program trace timed on one machine: from its first row to its last, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.machine import continue_run
from nicscope.drivers.simulate.records import OPERATION, SLEEP
from nicscope.drivers.simulate.traced import state
from nicscope.drivers.simulate.traced.build import Subject, set_up
from nicscope.drivers.translation import counts_of, nic_memory_bytes
from nicscope.errors import SimulationError
from nicscope.fabric.topology import crossbar
from nicscope.kernel.entry import bound, portion
from nicscope.nic.ports.layout import STATUS_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.traced.program import Program

_ALL_LOOK = -1
_EVENTS_AT_ONCE = 1 << 20  # between two chances to be interrupted
_INTERPRETED_AT_ONCE = 1 << 12  # as compiled code is taken up between two calls only
WAITERS_SHOWN = 4


class ProgramNode(NamedTuple):
    """What a node's NIC and host did."""

    number: int
    counts: dict[str, int | None]  # by the names of a replay
    interrupts: int
    packets: int  # that its NIC sent
    repeated: int  # lookups that a retry repeated, not in ``counts``
    nic_memory_bytes: dict[str, int]


class ProgramOutcome(NamedTuple):
    """What became of a program; times in ps."""

    elapsed_ps: int  # until the last process has ended
    compute_ps: int  # of all COMPUTE rows together
    times_ps: NDArray[np.int64]  # shape (processes, parts): each row's sum is ``elapsed_ps``
    took_ps: NDArray[np.int64]  # shape (processes, operations): from begin to end of rows
    rows: NDArray[np.int64]  # shape (processes, operations): how many there were
    failed: int  # fetches, stores and lock requests that ended with an error
    nodes: list[ProgramNode]
    misses_ps: NDArray[np.int64]  # shape (misses, 2): until attended to, and then until served
    misses: int  # of which the first are kept
    events: int


class Timing:
    """One program on one machine; ``run`` once."""

    def __init__(self, program: Program, subject: Subject, *, keep_ends: bool = False) -> None:
        """Errors: as ``set_up``."""
        self.program = program
        self.machine = set_up(program, subject, keep_ends=keep_ends)
        self._topology = crossbar(program.node_count)
        self._run_events = bound(advance, self.machine)

    def nic_bytes(self) -> dict[str, int]:
        """Bytes of each structure and buffer on the NIC that has most."""
        ports = self.machine.ports
        buffers = (self.machine.store.send_buffers, self.machine.store.receive_buffers)
        parts = [nic_memory_bytes(ports.translations, n) for n in range(self.program.node_count)]
        most = max(parts, key=lambda each: sum(each.values()))
        return {**most, "buffers": sum(int(each[0].nbytes) for each in buffers)}

    def run(self, watch: Callable[[int, int], None] | None = None) -> ProgramOutcome:
        """Carry every row out; ``watch`` hears of rows ended and rows in all.

        Errors: ``SimulationError`` naming who waits for what, if that cannot come, or what a row
        did that it may not.
        """
        machine, program = self.machine, self.program
        rows = len(program.operation)
        with_rows = np.flatnonzero(np.diff(program.first))
        self._begin(with_rows)
        running, begun = len(with_rows), len(with_rows)
        self._run_events(_ALL_LOOK, 0)
        continue_run(self._run_events, machine, self._topology, 0)
        while running:
            most = portion(self._run_events, _EVENTS_AT_ONCE, _INTERPRETED_AT_ONCE)
            fired = self._run_events(begun, most)
            fired += continue_run(self._run_events, machine, self._topology, most - fired)
            begun = 0
            ended = int(machine.tally[0]["ended"])
            self._check_right()
            if ended == 0 and fired < most:
                raise SimulationError(self._stuck())
            running -= ended
            if watch is not None:
                watch(int(machine.traced.followers["ended"].sum()), rows)
        return self._outcome()

    def _begin(self, processes: NDArray[np.int64]) -> None:
        for place, process in enumerate(processes.tolist()):
            request: Any = np.zeros(1, OPERATION)[0]
            request["process"] = process
            request["operation"] = SLEEP
            request["node"] = self.program.nodes[process]
            self.machine.outbox[place] = request

    def _check_right(self) -> None:
        rules: Any = self.machine.traced.rules[0]
        if rules["wrong"] == state.NOTHING_WRONG:
            return
        row = int(rules["wrong_row"])
        if rules["wrong"] == state.NOT_HELD:
            raise SimulationError(f"{self.program.name_row(row)}: the lock is not its own")
        what = self.program.name_row(row) if row >= 0 else "word of a lock or barrier"
        raise SimulationError(
            f"{what} could not be delivered ({STATUS_NAMES[int(rules['wrong_status'])]}), and "
            "the program waits for it"
        )

    def _stuck(self) -> str:
        """Who waits for what, in one line."""
        hearing = np.flatnonzero(self.machine.traced.followers["doing"] == state.HEARS).tolist()
        shown = "; ".join(self._waits(process) for process in hearing[:WAITERS_SHOWN])
        more = len(hearing) - WAITERS_SHOWN
        others = f" and {more} more" if more > 0 else ""
        now = int(self.machine.tally[0]["now"])
        return f"nothing more will happen after {now / 1e6:.3f} us, but there wait: {shown}{others}"

    def _waits(self, process: int) -> str:
        """Which row of a process waits, and for which others, if it has not begun."""
        traced, program = self.machine.traced, self.program
        standing = self._standing(process)
        if standing:
            return program.name_row(min(standing))
        rows = slice(int(program.first[process]), int(program.first[process + 1]))
        row = rows.start + int(np.argmax(traced.begun[rows] < 0))
        ends, begins = program.waited_for(row)
        missing = [other for other in ends if traced.progress[other] & state.ENDED == 0]
        missing += [other for other in begins if traced.begun[other] < 0]
        behind = f", for {program.name_row(missing[0])}" if missing else ""
        return program.name_row(row) + behind

    def _standing(self, process: int) -> list[int]:
        """Rows of a process that are queued behind others."""
        traced = self.machine.traced
        held = int(traced.followers[process]["held"])
        found = [held] if held >= 0 else []
        heads = [int(traced.followers[process]["receives"]), *traced.locks["first"].tolist()]
        for row in (*heads, *traced.meetings["first"].tolist()):
            while row >= 0:
                if self.machine.script[row]["process"] == process:
                    found.append(row)
                row = int(traced.link[row])
        return found

    def _outcome(self) -> ProgramOutcome:
        machine, program = self.machine, self.program
        traced, followers = machine.traced, machine.traced.followers
        ends = np.maximum(followers["ended_at"], 0)
        elapsed = int(ends.max(initial=0))
        times = traced.times.copy()
        times[:, state.OVER] = elapsed - ends
        rows = np.zeros(traced.took.shape, np.int64)
        np.add.at(rows, (program.owners, program.operation), 1)
        kept = min(int(traced.rules[0]["misses"]), len(traced.misses))
        return ProgramOutcome(
            elapsed_ps=elapsed,
            compute_ps=program.compute_ps,
            times_ps=times,
            took_ps=traced.took.copy(),
            rows=rows,
            failed=int(followers["failed"].sum()),
            nodes=[self._node(n) for n in range(program.node_count)],
            misses_ps=traced.misses[:kept].copy(),
            misses=int(traced.rules[0]["misses"]),
            events=int(machine.tally[0]["events"]),
        )

    def _node(self, n: int) -> ProgramNode:
        machine = self.machine
        serving: Any = machine.ports.nodes[n]
        return ProgramNode(
            number=n,
            counts=counts_of(machine.ports.translations, n),
            interrupts=int(serving["interrupts"]),
            packets=int(machine.endpoints[n]["next_number"]),
            repeated=int(serving["repeated"]),
            nic_memory_bytes=nic_memory_bytes(machine.ports.translations, n),
        )


def parts_of(times_ps: NDArray[np.int64]) -> dict[str, int]:
    """The parts of processes' time, summed over them, by name."""
    return dict(zip(state.PART_NAMES, times_ps.sum(axis=0).tolist(), strict=True))
