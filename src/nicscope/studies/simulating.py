"""``nicscope simulate`` for a trace, of requests or of a program: virtual time under designs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from nicscope.config.design import (
    POLICIES,
    Design,
    Policy,
    Scheme,
    ServedBy,
    Transport,
    Way,
    chosen_transport,
)
from nicscope.config.platform import WORD as NIC_MEMORY
from nicscope.config.platform import Platform, excess_of, program_costs, transfer_costs
from nicscope.drivers.simulate.traced.state import PART_NAMES
from nicscope.errors import DesignError, NicscopeError, PlatformError, SimulationError
from nicscope.interfaces.ways import TRACE, Combination, check_runs
from nicscope.studies.replaying import choose_subjects
from nicscope.studies.sources import extent_of, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.ports.costs import ServiceCosts
    from nicscope.drivers.simulate.traced.program import Program
    from nicscope.drivers.simulate.traced.timing import ProgramOutcome
    from nicscope.drivers.simulate.tracing import NodeOutcome
    from nicscope.traces.programs.schema import Others, ProgramTrace, Waits
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests


PS_PER_US = 1_000_000
PS_PER_S = 10**12


EachDesign = TypeVar("EachDesign", "Simulated", "TimedDesign")


class Runnable(NamedTuple):
    """A design on a platform that prices all its steps."""

    design: Design
    platform: Platform
    transfers: Mapping[str, int]
    service: ServiceCosts


def sum_of_counts(rows: Sequence[Mapping[str, int | None]]) -> dict[str, int | None]:
    """A replay's counts summed over nodes; None if one was not counted."""

    def total(values: list[int | None]) -> int | None:
        return None if None in values else sum(value or 0 for value in values)

    return {name: total([row[name] for row in rows]) for name in rows[0]}


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one design; its nodes ran concurrently, each with its peer."""

    design: Design
    platform: str
    nodes: list[NodeOutcome]

    @property
    def requests(self) -> int:
        """The requests of all nodes."""
        return sum(node.requests for node in self.nodes)

    @property
    def busy_ps(self) -> int:
        """Time from beginning to end, summed over nodes."""
        return sum(node.elapsed_ps for node in self.nodes)

    @property
    def elapsed_ps(self) -> int:
        """Until the last node has finished."""
        return max(node.elapsed_ps for node in self.nodes)

    @property
    def requests_per_s(self) -> float:
        """Of all nodes together, in virtual time."""
        return self.requests * PS_PER_S / max(self.elapsed_ps, 1)

    @property
    def times_ps(self) -> dict[str, int]:
        """The parts of ``busy_ps``, which is their sum."""
        names = self.nodes[0].times_ps
        return {name: sum(node.times_ps[name] for node in self.nodes) for name in names}

    @property
    def total(self) -> dict[str, int | None]:
        """A replay count's sum over all nodes; None if it was not counted."""
        return sum_of_counts([node.counts for node in self.nodes])

    @property
    def nic_bytes(self) -> int:
        """NIC memory of the node that uses most."""
        return max(sum(node.nic_memory_bytes.values()) for node in self.nodes)

    def to_json(self) -> dict[str, Any]:
        """Plain values, times in us."""
        return {
            "design": self.design.to_json(),
            "parts": self.design.parts(),
            "platform": self.platform,
            "requests": self.requests,
            "elapsed_us": self.elapsed_ps / PS_PER_US,
            "requests_per_s": self.requests_per_s,
            "busy_us": self.busy_ps / PS_PER_US,
            "parts_us": {name: ps / PS_PER_US for name, ps in self.times_ps.items()},
            "total": self.total,
            "nic_memory_bytes": self.nic_bytes,
            "nodes": [_node_json(node) for node in self.nodes],
        }


class Simulation(msgspec.Struct, Generic[EachDesign], frozen=True, kw_only=True):
    """A trace, the results of each design, and the command that repeats them."""

    trace: dict[str, Any]
    found: list[EachDesign]
    skipped: list[str]  # why designs of the catalog were left out
    left_out: list[str] | None = None  # of a program: what a machine would do beside
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json`` and results.json."""
        return {
            "trace": self.trace,
            "results": [each.to_json() for each in self.found],
            "skipped": self.skipped,
            **({} if self.left_out is None else {"left_out": self.left_out}),
            "repeat": self.repeat,
        }


def _node_json(node: NodeOutcome) -> dict[str, Any]:
    return {
        "node": node.number,
        "requests": node.requests,
        "bytes": node.byte_count,
        "elapsed_us": node.elapsed_ps / PS_PER_US,
        "parts_us": {name: ps / PS_PER_US for name, ps in node.times_ps.items()},
        "mean_latency_us": node.latency_ps / PS_PER_US / node.requests,
        "packets": node.packets,
        "failed": node.failed,
        "repeated_lookups": node.repeated,
        "counts": node.counts,
    }


# What of a design beside its translation makes a difference here.  Requests of a trace come again
# until they arrive, whatever the transport.
PARTS_OF_A_TRACE = ("served_by", "delivery", "way")


def choose_runnable(
    names: Sequence[str | Path | Design],
    platform: str | Path | Platform | None,
    assignments: Sequence[str],
) -> tuple[list[Runnable], list[str]]:
    """The named designs with their costs, and why others of the catalog were left out.

    If none is named, all of the catalog's that can run.  Errors: ``DesignError`` or
    ``PlatformError`` for the first named one that is wrong or whose platform does not price it.
    """
    runnable: list[Runnable] = []
    skipped: list[str] = []
    for design, own in choose_subjects(names, platform, assignments, PARTS_OF_A_TRACE):
        try:
            runnable.append(_runnable(design, own))
        except NicscopeError as error:
            if names:
                raise
            skipped.append(f"{design.name}: {error}")
    if not runnable:
        raise PlatformError(skipped[0])
    return runnable, skipped


def _runnable(design: Design, platform: Platform | None) -> Runnable:
    from nicscope.drivers.simulate.ports.costs import service_costs

    if platform is None:
        raise DesignError(f"design {design.name!r} names no platform; give one with --platform")
    cuts_through = POLICIES[design.delivery].policy == Policy.CUT_THROUGH
    check_runs(Combination(TRACE, platform, design.way, design, cuts_through))
    costs = program_costs(platform, design.scheme, served_by=design.served_by or platform.served_by)
    return Runnable(design, platform, transfer_costs(platform), service_costs(costs, design))


def simulate_trace(
    trace: Trace,
    subjects: Sequence[Runnable],
    *,
    skipped: Sequence[str] = (),
    most: int | None = None,
    timed: bool = False,
    window: int = 1,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> Simulation[Simulated]:
    """Simulate ``trace`` under each of ``subjects``; ``watch`` counts requests.

    ``most``: only that many requests, from the beginning.  ``timed``: a request does not begin
    before its time.  ``window``: packets that may be outstanding; with 1 the counts are a
    replay's.  Errors: ``TraceError`` at the first row that the schema does not allow.
    """
    from nicscope.drivers.simulate.tracing import partition_trace

    parted = partition_trace(_first(trace, most), timed)
    rows = sum(len(requests.length) for requests in parted)
    done = _Done(watch, rows * len(subjects))
    found = [_simulated(subject, parted, trace, window, done) for subject in subjects]
    return Simulation(
        trace=extent_of(trace, rows, len(parted)),
        found=found,
        skipped=list(skipped),
        repeat=repeat(command),
    )


class _Done:
    """Progress over all designs, and nodes where these run one by one."""

    def __init__(self, watch: Callable[[int, int], None] | None, total: int) -> None:
        self._watch = watch
        self._total = total
        self.before = 0

    def __call__(self, done: int, of: int) -> None:
        if self._watch is not None:
            self._watch(self.before + done, self._total)
        if done == of:
            self.before += of


def _simulated(
    subject: Runnable,
    parted: Sequence[Any],
    trace: Trace,
    window: int,
    done: _Done,
) -> Simulated:
    from nicscope.drivers.simulate.bus.state import machine_parameters
    from nicscope.drivers.simulate.tracing import AtBus, simulate_node
    from nicscope.nic.coherent import NAMES

    design = subject.design.at_page_size(trace.metadata.page_size)
    at_bus = None
    if design.way != Way.PCI:
        at_bus = AtBus(machine_parameters(subject.platform), NAMES[Way(design.way)])
    nodes = [
        simulate_node(
            requests,
            design,
            subject.transfers,
            subject.service,
            delivery=POLICIES[design.delivery],
            window=window,
            at_bus=at_bus,
            fits=partial(check_fits, subject.platform),
            watch=done,
        )
        for requests in parted
    ]
    return Simulated(design=design, platform=subject.platform.name, nodes=nodes)


def check_fits(platform: Platform, parts: dict[str, int]) -> None:
    """Return if ``parts``, bytes by structure, fit on the NIC.  Errors: ``SimulationError``."""
    excess = excess_of(parts, platform)
    if excess is not None:
        raise SimulationError(
            f"{excess}; take a smaller cache (--set entries=...), or a NIC with more, as "
            f"--platform {platform.name.split('@')[0]}@{NIC_MEMORY}=8MiB"
        )


def _first(trace: Trace, most: int | None) -> Iterator[Requests]:
    """The batches of ``trace``, truncated to ``most`` rows."""
    left = trace.rows if most is None else most
    for batch in trace.batches():
        if left <= 0:
            return
        make: Any = type(batch)
        yield make(*(column[:left] for column in batch))
        left -= len(batch.length)


OPERATIONS = ("compute", "fetch", "deposit", "send", "receive", "lock", "unlock", "barrier")
PERCENTILES = (50, 90, 99)
LEFT_OUT = (  # of what a machine would do; said with every result
    "Locks and barriers are remote fetches and stores on the same machine, by algorithms that are "
    "assumed (queues, and dissemination); the papers print none.",
    "What others reach of a node's memory is pinned before time begins, where the design pins "
    "pages that are not on the NIC.",
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
        return sum_of_counts([node.counts for node in self.outcome.nodes])

    @property
    def interrupts(self) -> int:
        """Interrupts from NIC to host, on all nodes."""
        return sum(node.interrupts for node in self.outcome.nodes)

    @property
    def means_us(self) -> dict[str, float | None]:
        """The mean duration of each operation; None if there was none."""
        counts, took = (
            array.sum(axis=0).tolist() for array in (self.outcome.rows, self.outcome.took_ps)
        )
        return {
            name: took_ps / count / PS_PER_US if count else None
            for name, count, took_ps in zip(OPERATIONS, counts, took, strict=True)
        }

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
            "mean_us": self.means_us,
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
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> Simulation[TimedDesign]:
    """Time ``trace``, called ``name``, under each of ``subjects``.

    ``watch`` hears of rows that have ended.  Errors: ``SimulationError`` for a row that the machine
    cannot do, or naming who waits for what, if the program does not end; ``RoomError``.
    """
    program, metadata = program_of(trace), trace.metadata
    done = _Done(watch, len(program.operation) * len(subjects))
    found = []
    for place, subject in enumerate(subjects):
        done.before = place * len(program.operation)
        found.append(time_design(program, metadata.page_size, subject, watch=done))
    return Simulation(
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
