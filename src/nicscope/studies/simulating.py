"""``nicscope simulate`` for a request trace: virtual time under several designs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.design import POLICIES, Policy, Way
from nicscope.config.platform import WORD as NIC_MEMORY
from nicscope.config.platform import excess_of, program_costs, transfer_costs
from nicscope.errors import DesignError, NicscopeError, PlatformError, SimulationError
from nicscope.interfaces.ways import TRACE, Combination, check_runs
from nicscope.studies.replaying import choose_subjects
from nicscope.studies.sources import extent_of, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.ports.costs import ServiceCosts
    from nicscope.drivers.simulate.tracing import NodeOutcome
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

PS_PER_US = 1_000_000
PS_PER_S = 10**12


class Runnable(NamedTuple):
    """A design on a platform that prices all its steps."""

    design: Design
    platform: Platform
    transfers: Mapping[str, int]
    service: ServiceCosts


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
        rows = [node.counts for node in self.nodes]
        return {name: _sum([row[name] for row in rows]) for name in rows[0]}

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


class TraceSimulation(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, the results of each design, and the command that repeats them."""

    trace: dict[str, Any]
    found: list[Simulated]
    skipped: list[str]  # why designs of the catalog were left out
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json`` and results.json."""
        return {
            "trace": self.trace,
            "results": [each.to_json() for each in self.found],
            "skipped": self.skipped,
            "repeat": self.repeat,
        }


def _sum(values: list[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


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
    kinds: bool = True,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> TraceSimulation:
    """Simulate ``trace`` under each of ``subjects``; ``watch`` counts requests.

    ``most``: only that many requests, from the beginning.  ``timed``: a request does not begin
    before its time.  ``window``: packets that may be outstanding; with 1 the counts are a
    replay's.  Errors: ``TraceError`` at the first row that the schema does not allow.
    """
    from nicscope.drivers.simulate.tracing import partition_trace

    parted = partition_trace(_first(trace, most), timed)
    rows = sum(len(requests.length) for requests in parted)
    done = _Done(watch, rows * len(subjects))
    found = [_simulated(subject, parted, trace, window, kinds, done) for subject in subjects]
    return TraceSimulation(
        trace=extent_of(trace, rows, len(parted)),
        found=found,
        skipped=list(skipped),
        repeat=repeat(command),
    )


class _Done:
    """Progress over all designs and nodes."""

    def __init__(self, watch: Callable[[int, int], None] | None, total: int) -> None:
        self._watch = watch
        self._total = total
        self._before = 0

    def __call__(self, done: int, of: int) -> None:
        if self._watch is not None:
            self._watch(self._before + done, self._total)
        if done == of:
            self._before += of


def _simulated(
    subject: Runnable,
    parted: Sequence[Any],
    trace: Trace,
    window: int,
    kinds: bool,
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
            kinds=kinds,
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
