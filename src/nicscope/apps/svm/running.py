"""Running a program on shared memory, in logical time: its result, and what it asked for."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nicscope.apps.svm.coherence import Coherence
from nicscope.apps.svm.domain import Domain
from nicscope.apps.svm.locks import Barrier, Lock
from nicscope.apps.svm.notices import Notices
from nicscope.apps.svm.process import Process
from nicscope.apps.svm.program_record import ProgramRecord
from nicscope.apps.svm.records import Records
from nicscope.apps.svm.vmmc_wire import VmmcWire
from nicscope.apps.svm.wire import Caller, Costs, LogicalWire
from nicscope.errors import SimulationError
from nicscope.interfaces.setting_up import Cluster as MachineCluster
from nicscope.interfaces.trapeze import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import Layout, SharedArray

PLATFORM = "p6-natoma"  # whose costs nothing here pays: programs only let time pass
PS_PER_US = 1_000_000

Program: TypeAlias = "Callable[[Process], Coroutine[Any, Any, object]]"
SetUp: TypeAlias = "Callable[[Callable[[SharedArray], NDArray[Any]]], None]"


class Placement(NamedTuple):
    """Where processes run: neighbours by number share a node."""

    nodes: int = 4
    processes: int = 4  # of each node
    are_copies_private: bool = False  # every process has its own, as if it were a node


class Run(NamedTuple):
    """What has come of one."""

    results: list[object]  # what each process returned
    records: Records
    microseconds: float  # of logical time
    coherence: Coherence

    def array(self, array: SharedArray) -> NDArray[Any]:
        """A shared array as it stands at the homes of its pages."""
        memory = np.zeros_like(self.coherence.domains[0].memory)
        for domain in self.coherence.domains:
            own = self.coherence.homes == domain.number
            memory[own] = domain.memory[own]
        untouched = self.coherence.homes < 0
        memory[untouched] = self.coherence.domains[0].memory[untouched]
        return array.in_bytes(memory)


def run_on_shared_memory(
    program: Program,
    layout: Layout,
    placement: Placement,
    set_up: SetUp | None = None,
    costs: Costs | None = None,
    *,
    with_initial: bool = False,
) -> Run:
    """Run ``program`` once in every process, with the arrays of ``layout`` in shared memory.

    ``set_up`` writes what stands in them before the processes are made; it is called with what
    gives it an array to write.  ``with_initial``: its program is recorded with the first
    distribution of that.  Errors: ``SimulationError`` for a placement without processes.
    """
    if placement.nodes < 1 or placement.processes < 1:
        raise SimulationError("a program has at least one process on at least one node")
    costs = costs or Costs()
    record = ProgramRecord(placement.processes, layout.page_bytes, with_initial=with_initial)
    records = Records(record, layout.page_bytes)
    domains = _domains(layout, placement)
    coherence = Coherence(
        domains, Notices(len(domains)), LogicalWire(costs, records), costs, record
    )
    cluster = Cluster(PLATFORM, nodes=max(2, placement.nodes), host_bytes=1 << 20)
    return _run(program, placement, set_up, cluster, coherence, costs, records)


def run_on_machines(
    program: Program,
    layout: Layout,
    placement: Placement,
    set_up: SetUp | None = None,
    design: str = "utlb",
    **options: Any,
) -> Run:
    """Run ``program`` on simulated machines: pages and diffs cross their NICs, byte by byte.

    One process a node, as VMMC reaches other nodes alone.  Locks and barriers are no messages; they
    take the time that they are assumed to.  ``design``, ``options``: as of ``Cluster``, for VMMC.
    Errors: ``SimulationError`` for another placement, or a transfer that does not get through.
    """
    if placement.nodes < 1 or placement.processes != 1:
        raise SimulationError("on simulated machines a program has one process on each node")
    costs = Costs()
    record = ProgramRecord(placement.processes, layout.page_bytes)
    records = Records(record, layout.page_bytes)
    domains = _domains(layout, placement)
    wire = VmmcWire(records, domains)
    coherence = Coherence(domains, Notices(len(domains)), wire, costs, record, is_eager=True)
    cluster = MachineCluster(design, interface="vmmc", nodes=max(2, placement.nodes), **options)
    return _run(program, placement, set_up, cluster, coherence, costs, records)


def _run(
    program: Program,
    placement: Placement,
    set_up: SetUp | None,
    cluster: Any,
    coherence: Coherence,
    costs: Costs,
    records: Records,
) -> Run:
    """Run it in the processes of ``coherence``'s domains, on any cluster that has their nodes."""
    domains = coherence.domains
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
        coherence.is_initial[:] = domains[0].memory.any(axis=1)
    many = placement.nodes * placement.processes
    locks: defaultdict[object, Lock] = defaultdict(Lock)
    barrier = Barrier(many)

    def started(number: int, domain: Domain) -> Callable[[Any], Coroutine[Any, Any, object]]:
        async def process(endpoint: Any) -> object:
            caller = Caller(endpoint, domain, number % placement.processes)
            shared = Process(
                number, many, caller, coherence, costs, records.program, locks, barrier
            )
            await coherence.open(caller)
            await shared.barrier()
            result = await program(shared)
            await shared.barrier()  # what it wrote is home
            return result

        return process

    for domain in domains:
        for number in domain.processes:
            cluster.start(domain.node, started(number, domain))
    results = cluster.run()
    return Run(list(results), records, cluster.simulation.now / PS_PER_US, coherence)


def _domains(layout: Layout, placement: Placement) -> list[Domain]:
    nodes, each = placement.nodes, placement.processes
    shape = (layout.pages, layout.page_bytes)
    size = 1 if placement.are_copies_private else each
    return [
        Domain(number, first // each, range(first, first + size), each, shape)
        for number, first in enumerate(range(0, nodes * each, size))
    ]
