"""``nicscope simulate`` for a program trace: virtual time under several designs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.design import POLICIES, Scheme, ServedBy, Way, chosen_transport
from nicscope.drivers.simulate.traced.state import PART_NAMES as PART_NAMES  # reports name them
from nicscope.errors import DesignError
from nicscope.studies.simulating import PS_PER_US, check_fits
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design, Transport
    from nicscope.drivers.simulate.traced.program import Program
    from nicscope.drivers.simulate.traced.timing import ProgramOutcome
    from nicscope.studies.simulating import Runnable
    from nicscope.traces.programs.schema import Others, ProgramTrace, Waits

OPERATIONS = ("compute", "fetch", "deposit", "send", "receive", "lock", "unlock", "barrier")
PERCENTILES = (50, 90, 99)
LEFT_OUT = (  # of what a machine would do; said with every result
    "Locks and barriers are remote fetches and stores on the same machine, by algorithms that are "
    "assumed (queues, and dissemination); the papers print none.",
    "What others reach of a node's memory is pinned before time begins, where the design pins it "
    "by its user library.",
)


class Spread(NamedTuple):
    """A distribution of times, in us; all None of nothing."""

    mean: float | None
    least: float | None
    percentiles: dict[int, float | None]
    most: float | None


class TimedDesign(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one design; ``outcome`` has times in ps."""

    design: Design
    platform: str
    nodes: list[int]  # of each process
    outcome: ProgramOutcome

    @property
    def elapsed_ps(self) -> int:
        """Until the last process has finished."""
        return self.outcome.elapsed_ps

    @property
    def speed_up(self) -> float:
        """The speed-up over all of its computing on one processor."""
        return self.outcome.compute_ps / max(self.elapsed_ps, 1)

    @property
    def parts_ps(self) -> dict[str, int]:
        """The parts of the processes' time, which add up to their run times."""
        from nicscope.drivers.simulate.traced.timing import parts_of

        return parts_of(self.outcome.times_ps)

    def share(self, *parts: str) -> float:
        """The share of the processes' time in those parts."""
        times = self.parts_ps
        return sum(times[part] for part in parts) / max(sum(times.values()), 1)

    @property
    def total(self) -> dict[str, int | None]:
        """A replay count's sum over all nodes; None if it was not counted."""
        rows = [node.counts for node in self.outcome.nodes]
        return {name: _sum([row[name] for row in rows]) for name in rows[0]}

    @property
    def interrupts(self) -> int:
        """Interrupts from NIC to host, on all nodes."""
        return sum(node.interrupts for node in self.outcome.nodes)

    def mean_us(self, operation: str) -> float | None:
        """The mean duration of such an operation; None if there was none."""
        place = OPERATIONS.index(operation)
        count = int(self.outcome.rows[:, place].sum())
        took = int(self.outcome.took_ps[:, place].sum())
        return took / count / PS_PER_US if count else None

    @property
    def miss_delay(self) -> Spread:
        """The time from a miss to the beginning of its service."""
        return _spread(self.outcome.misses_ps[:, 0])

    @property
    def miss_processing(self) -> Spread:
        """The time from the beginning of a miss's service to its fill."""
        return _spread(self.outcome.misses_ps[:, 1])

    @property
    def miss_time(self) -> Spread:
        """Delay and processing together."""
        return _spread(self.outcome.misses_ps.sum(axis=1))

    @property
    def nic_bytes(self) -> int:
        """NIC memory of the node that uses most."""
        return max(sum(node.nic_memory_bytes.values()) for node in self.outcome.nodes)

    def to_json(self) -> dict[str, Any]:
        """Plain values, times in us."""
        return {
            "design": self.design.to_json(),
            "parts": self.design.parts(),
            "platform": self.platform,
            "elapsed_us": self.elapsed_ps / PS_PER_US,
            "sequential_us": self.outcome.compute_ps / PS_PER_US,
            "speed_up": self.speed_up,
            "parts_us": {name: ps / PS_PER_US for name, ps in self.parts_ps.items()},
            "mean_us": {name: self.mean_us(name) for name in OPERATIONS},
            "failed": self.outcome.failed,
            "misses": {
                "count": self.outcome.misses,
                "kept": len(self.outcome.misses_ps),
                "delay_us": _spread_json(self.miss_delay),
                "processing_us": _spread_json(self.miss_processing),
                "total_us": _spread_json(self.miss_time),
            },
            "total": self.total,
            "interrupts": self.interrupts,
            "nic_memory_bytes": self.nic_bytes,
            "processes": [self._process_json(place) for place in range(len(self.nodes))],
            "nodes": [
                {
                    "node": node.number,
                    "counts": node.counts,
                    "interrupts": node.interrupts,
                    "packets": node.packets,
                    "repeated_lookups": node.repeated,
                }
                for node in self.outcome.nodes
            ],
        }

    def _process_json(self, place: int) -> dict[str, Any]:
        outcome = self.outcome
        times = outcome.times_ps[place].tolist()
        return {
            "process": place,
            "node": self.nodes[place],
            "parts_us": {name: ps / PS_PER_US for name, ps in zip(PART_NAMES, times, strict=True)},
            "operations": dict(zip(OPERATIONS, outcome.rows[place].tolist(), strict=True)),
        }


class ProgramTiming(msgspec.Struct, frozen=True, kw_only=True):
    """A program trace, the results of each design, and the command that repeats them."""

    trace: dict[str, Any]
    found: list[TimedDesign]
    skipped: list[str]  # why designs of the catalog were left out
    left_out: list[str]
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json`` and results.json."""
        return {
            "trace": self.trace,
            "results": [each.to_json() for each in self.found],
            "skipped": self.skipped,
            "left_out": self.left_out,
            "repeat": self.repeat,
        }


def _sum(values: list[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


def _spread(times_ps: NDArray[np.int64]) -> Spread:
    if not len(times_ps):
        return Spread(None, None, dict.fromkeys(PERCENTILES), None)
    ranks: list[float] = np.percentile(times_ps, PERCENTILES, method="lower").tolist()
    return Spread(
        float(times_ps.mean()) / PS_PER_US,
        int(times_ps.min()) / PS_PER_US,
        {rank: value / PS_PER_US for rank, value in zip(PERCENTILES, ranks, strict=True)},
        int(times_ps.max()) / PS_PER_US,
    )


def _spread_json(spread: Spread) -> dict[str, float | None]:
    ranks = {f"p{rank}": value for rank, value in spread.percentiles.items()}
    return {"mean": spread.mean, "min": spread.least, **ranks, "max": spread.most}


def time_program(
    trace: ProgramTrace,
    name: str,
    subjects: Sequence[Runnable],
    *,
    skipped: Sequence[str] = (),
    kinds: bool = True,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> ProgramTiming:
    """Time ``trace``, called ``name``, under each of ``subjects``.

    ``watch`` hears of rows that have ended.  Errors: ``SimulationError`` for a row that the machine
    cannot do, or naming who waits for what, if the program does not end; ``RoomError``.
    """
    program = program_of(trace)
    total = len(program.operation) * len(subjects)
    found = []
    for place, subject in enumerate(subjects):
        before = place * len(program.operation)
        heard = None if watch is None else partial(_tell, watch, before, total)
        found.append(time_design(program, trace.metadata.page_size, subject, kinds, heard))
    metadata = trace.metadata
    return ProgramTiming(
        trace={
            "file": name,
            "program": metadata.program,
            "size": metadata.size,
            "operations": trace.rows,
            "processes": metadata.processes,
            "nodes": metadata.nodes,
            "recorded_page_size": metadata.page_size,
            "origin": metadata.origin,
        },
        found=found,
        skipped=list(skipped),
        left_out=[*metadata.left_out, *LEFT_OUT],
        repeat=repeat(command),
    )


def _tell(watch: Callable[[int, int], None], before: int, total: int, done: int, of: int) -> None:
    del of
    watch(before + done, total)


def time_design(
    program: Program,
    page_size: int,
    subject: Runnable,
    kinds: bool = True,
    watch: Callable[[int, int], None] | None = None,
) -> TimedDesign:
    """Time ``program``, recorded with pages of ``page_size``, under one design.

    Errors: as ``time_program``; ``DesignError`` for a way that programs are not timed over.
    """
    from nicscope.drivers.simulate.traced.build import Subject
    from nicscope.drivers.simulate.traced.timing import Timing

    design = subject.design.at_page_size(page_size)
    if design.way != Way.PCI:
        raise DesignError(
            f"design {design.name!r}: program traces are timed over way 'pci', not "
            f"{design.way!r}; take --set way=pci"
        )
    timing = Timing(
        program,
        Subject(
            design,
            subject.transfers,
            subject.service,
            POLICIES[design.delivery],
            _transport(design),
            kinds,
            _processors(subject),
        ),
    )
    check_fits(subject.platform, timing.nic_bytes())
    return TimedDesign(
        design=design,
        platform=subject.platform.name,
        nodes=program.nodes.tolist(),
        outcome=timing.run(watch),
    )


def _processors(subject: Runnable) -> int:
    """Processors per host: two at most, and one where its NIC does not serve ports itself."""
    stated = subject.platform.machine.get("processors")
    has_two = stated is not None and stated.value > 1
    served_by = subject.design.served_by or subject.platform.served_by
    return 2 if has_two and served_by == ServedBy.NIC else 1


def _transport(design: Design) -> Transport:
    """The retransmission protocol of the design's interface; fetches need one."""
    from nicscope.interfaces import mini, vmmc

    own = mini.Cluster.transport if design.scheme is Scheme.HANDLE else vmmc.Cluster.transport
    chosen = chosen_transport(design.transport, own)
    if not chosen.reliable:
        raise DesignError(
            f"design {design.name!r}: a program's remote fetches need a transport that brings "
            "packets again; take --set transport=reliable"
        )
    return msgspec.structs.replace(chosen, by_connection=False)


def program_of(trace: ProgramTrace) -> Program:
    """The trace's rows as the driver takes them."""
    from nicscope.drivers.simulate.traced.program import Program

    return Program(
        nodes=np.array(trace.metadata.nodes_of_processes, np.int64),
        first=trace.first,
        operation=trace.operation,
        peer=trace.peer,
        address=trace.address,
        length=trace.length,
        name=trace.name,
        duration_ns=trace.duration_ns,
        after=_waited_for(trace.after),
        after_start=_waited_for(trace.after_start),
        after_others=_others(trace.after_others),
        after_start_others=_others(trace.after_start_others),
    )


def _others(waits: Others | None) -> Any:
    from nicscope.drivers.simulate.traced.program import OthersWaitedFor

    return None if waits is None else OthersWaitedFor(waits.first, waits.rows)


def _waited_for(waits: Waits | None) -> Any:
    from nicscope.drivers.simulate.traced.program import WaitedFor

    return None if waits is None else WaitedFor(waits.first, waits.places)
