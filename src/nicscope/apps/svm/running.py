"""Running a program on shared memory, in logical time: its result, and what it asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nicscope.apps.svm.coherence import Caller, Coherence, Costs, LogicalWire, Notices
from nicscope.apps.svm.domain import Domain
from nicscope.apps.svm.process import Process
from nicscope.apps.svm.records import ProgramRecord, Records
from nicscope.apps.svm.synchronization import LogicalSynchronization
from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import Layout, SharedArray

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
    memory: NDArray[np.uint8]  # each page as it stands at its home

    def array(self, array: SharedArray) -> NDArray[Any]:
        """A shared array as it stands at the homes of its pages."""
        return array.in_bytes(self.memory)


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
    domains = domains_of(layout, placement)
    coherence = Coherence(
        domains, Notices(len(domains)), LogicalWire(costs, records), costs, record
    )
    cluster = Cluster(PLATFORM, nodes=max(2, placement.nodes), host_bytes=1 << 20)
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
        coherence.is_initial[:] = domains[0].memory.any(axis=1)
    many = placement.nodes * placement.processes
    synchronization = LogicalSynchronization(many, coherence, costs, record)

    def started(number: int, domain: Domain) -> Callable[[Any], Coroutine[Any, Any, object]]:
        async def process(endpoint: Any) -> object:
            caller = Caller(endpoint, domain, number % placement.processes)
            shared = Process(number, many, caller, coherence, costs, record, synchronization)
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
    memory = memory_at_homes([(domain, coherence.homes) for domain in domains])
    assert cluster.simulation is not None
    return Run(list(results), records, cluster.simulation.now / PS_PER_US, memory)


def memory_at_homes(of: Sequence[tuple[Domain, NDArray[np.int32]]]) -> NDArray[np.uint8]:
    """Shared memory, each page as its home has it; of domains and the homes that each knows.

    What nobody has touched is as the first of them has it.
    """
    memory = of[0][0].memory.copy()
    for domain, homes in of:
        own = homes == domain.number
        memory[own] = domain.memory[own]
    return memory


def domains_of(layout: Layout, placement: Placement) -> list[Domain]:
    """The copies of shared memory that there are, none of which holds anything."""
    nodes, each = placement.nodes, placement.processes
    shape = (layout.pages, layout.page_bytes)
    size = 1 if placement.are_copies_private else each
    return [
        Domain(number, first // each, range(first, first + size), each, shape)
        for number, first in enumerate(range(0, nodes * each, size))
    ]
