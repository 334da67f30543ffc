"""A node of a shared-memory program on simulated machines, and running all nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.apps.svm.coherence import Caller, Coherence, Costs
from nicscope.apps.svm.domain import PAGE, Domain, Layout, RemoteDomain
from nicscope.apps.svm.machines.messages import (
    DomainState,
    Letter,
    MachineWire,
    Mail,
    MessageWire,
    RemoteWire,
    UNetMail,
    UnreachableError,
    Waits,
)
from nicscope.apps.svm.machines.remote_memory import (
    HomeDirectory,
    MiniMemory,
    Region,
    RemoteMail,
    RemoteMemory,
    VmmcMemory,
)
from nicscope.apps.svm.machines.synchronization import (
    MessageSynchronization,
    Questions,
    ReceivedNotices,
)
from nicscope.apps.svm.process import (
    Placement,
    Process,
    Program,
    Run,
    SetUp,
    domains_of,
    memory_at_homes,
)
from nicscope.apps.svm.records import ProgramRecord, Records
from nicscope.errors import SimulationError, StuckError, WaitTimeoutError, did_you_mean
from nicscope.interfaces import HostSize
from nicscope.interfaces.options import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from nicscope.interfaces import Faults
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.run_report import RunReport


SPARE_TASKS = 6  # beside a node's processes: of its mail, and those that a wait for several takes


class Job(NamedTuple):
    """Immutable parameters that all nodes of a run share."""

    body: Callable[[Process], Coroutine[Any, Any, object]]
    places: Sequence[RemoteDomain]  # of all domains
    is_initial: Any  # pages that were written before the processes were made
    costs: Costs
    records: Records
    waits: Waits
    processes: int
    each: int  # of a node


class NodeRun(ABC):
    """One node of a run."""

    def __init__(self, job: Job, domains: Sequence[Domain], mail: Mail) -> None:
        self.job = job
        self.mail = mail
        self.node = domains[0].node
        self.seats: dict[int, DomainState] = {}
        self.ended_us = 0.0  # when its last process had
        self._domains = domains
        mail.on_letter = self._take
        mail.on_page = self._place_of

    async def run(self, endpoint: Any) -> list[object]:
        """Run the node's processes; their results."""
        self.mail.endpoint = endpoint
        await self._open(endpoint)
        beside = [endpoint.spawn(task) for task in self.mail.tasks()]
        carrying = endpoint.spawn(self.mail.carry())
        running = [
            endpoint.spawn(self._process(number, seat, endpoint))
            for seat in self.seats.values()
            for number in seat.domain.processes
        ]
        results = [await each.join() for each in running]
        self.ended_us = endpoint.now_us
        self.mail.end()
        await carrying.join()
        del beside  # they end with the program
        return results

    async def _open(self, endpoint: Any) -> None:
        """Allocate the domains' regions, and build their protocol state."""
        await self.mail.open()
        near = {}
        for domain in self._domains:
            near[domain.number] = Region(domain, self.mail.allocate(domain.memory.size))
        await self._connect(endpoint, near)
        for domain in self._domains:
            self.seats[domain.number] = self._seat(domain, near)

    @abstractmethod
    async def _connect(self, endpoint: Any, near: dict[int, Region]) -> None:
        """Export this node's regions, and import other nodes'."""

    @abstractmethod
    def _wire(self, questions: Questions, near: dict[int, Region]) -> MachineWire:
        """The wire of a domain."""

    def _seat(self, domain: Domain, near: dict[int, Region]) -> DomainState:
        job, many = self.job, len(self.job.places)
        questions = Questions(domain.number, many, self.mail)
        notices = ReceivedNotices(many, domain.number)
        known: list[Domain | RemoteDomain] = [
            *job.places[: domain.number],
            domain,
            *job.places[domain.number + 1 :],
        ]
        wire = self._wire(questions, near)
        record = job.records.program
        coherence = Coherence(known, notices, wire, job.costs, record, is_eager=True)
        coherence.is_initial[:] = job.is_initial
        meeting = MessageSynchronization(coherence, notices, questions, job.costs, job.waits)
        homes = HomeDirectory(self.mail)
        region = near[domain.number]
        return DomainState(domain, region, self.mail, questions, homes, coherence, meeting)

    async def _process(self, number: int, seat: DomainState, endpoint: Any) -> object:
        job = self.job
        caller = Caller(endpoint, seat.domain, number % job.each)
        shared = Process(
            number,
            job.processes,
            caller,
            seat.coherence,
            job.costs,
            job.records.program,
            seat.synchronization,
        )
        await shared.barrier()
        result = await job.body(shared)
        await shared.barrier()  # what it wrote is home
        return result

    def _take(self, letter: Letter) -> None:
        self.seats[letter.to].take(letter)

    def _place_of(self, letter: Letter) -> Buffer:
        return self.seats[letter.to].place_of(letter)


class RemoteNodeRun(NodeRun):
    """A node with VMMC or miNI."""

    mail: RemoteMail
    memory_type: type[RemoteMemory] = VmmcMemory

    def __init__(self, job: Job, domains: Sequence[Domain], node_of: Sequence[int]) -> None:
        super().__init__(job, domains, RemoteMail(domains[0].node, node_of))
        self._far: dict[int, Any] = {}

    async def run(self, endpoint: Any) -> list[object]:
        """The same, with remote memory."""
        self.mail.memory = self.memory_type(endpoint)
        return await super().run(endpoint)

    async def _connect(self, endpoint: Any, near: dict[int, Region]) -> None:
        del endpoint
        memory = self.mail.memory
        for number, region in near.items():
            await memory.export(region.buffer, _name(number))
        for place in self.job.places:
            if place.number not in near:
                self._far[place.number] = await memory.find(place.node, _name(place.number))

    def _wire(self, questions: Questions, near: dict[int, Region]) -> MachineWire:
        job, memory = self.job, self.mail.memory
        return RemoteWire(questions, job.records, job.waits, near, memory, self._far)


class MiniNodeRun(RemoteNodeRun):
    """A node with miNI."""

    memory_type = MiniMemory


class UNetNodeRun(NodeRun):
    """A node with U-Net."""

    def __init__(self, job: Job, domains: Sequence[Domain], node_of: Sequence[int]) -> None:
        super().__init__(job, domains, UNetMail(domains[0].node, node_of))

    async def _connect(self, endpoint: Any, near: dict[int, Region]) -> None:
        """Does nothing: messages need only the Active Message layer."""

    def _wire(self, questions: Questions, near: dict[int, Region]) -> MachineWire:
        return MessageWire(questions, self.job.records, self.job.waits, near)


STATIONS: dict[str, Any] = {"vmmc": RemoteNodeRun, "mini": MiniNodeRun, "unet": UNetNodeRun}


def _name(domain: int) -> str:
    return f"shared memory of {domain}"


FIRST_CHOICE = {"vmmc": "utlb", "mini": "mini", "unet": "unet-mm-pca200"}  # designs
OTHER_PAGES = 256  # of a node's memory, beside its copies of what is shared
MOST_PAGES = 4096  # of all copies of a node, chosen: more would take hours
LINE = 64  # pages that a cache's line may have, which fill an address space
PS_PER_US = 1_000_000


class MachineRun(Run):
    """The result of a run on simulated machines."""

    report: RunReport  # what the NICs did, node by node


def check_machines(on: str, layout: Layout, placement: Placement) -> None:
    """Errors: ``SimulationError`` for an unknown interface, or for too much memory."""
    if on not in STATIONS:
        raise SimulationError(
            f"a program on shared memory does not run on {on!r}{did_you_mean(on, STATIONS)}"
        )
    if placement.nodes < 1 or placement.processes < 1:
        raise SimulationError("a program has at least one process on at least one node")
    pages = _pages_of_node(layout, placement)
    if pages > MOST_PAGES:
        raise SimulationError(
            f"{pages:,} pages of shared memory on each node are too many for simulated machines, "
            f"which have {MOST_PAGES:,} at most; ask for a smaller size, or run it in logical time"
        )


def run_on_machines(
    program: Program,
    layout: Layout,
    placement: Placement,
    set_up: SetUp | None = None,
    on: str = "vmmc",
    design: Any = None,
    **options: Any,
) -> MachineRun:
    """Run ``program`` on simulated machines whose NICs serve ``on``: vmmc, mini or unet.

    Pages, diffs, locks and barriers cross the NICs, byte by byte.  ``design``, ``options``: as of
    ``Cluster``.  Errors: ``SimulationError`` for what cannot run, and for what does not get
    through: then it says who waited for what, and since when.
    """
    check_machines(on, layout, placement)
    pages = LINE * -(-(_pages_of_node(layout, placement) + OTHER_PAGES) // LINE)
    options.setdefault("host", HostSize(frames=pages, pages_per_space=pages))
    cluster = Cluster(
        design or FIRST_CHOICE[on], interface=on, nodes=max(2, placement.nodes), **options
    )
    domains = domains_of(layout, placement)
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
    job = Job(
        body=program,
        places=[RemoteDomain(domain.number, domain.node) for domain in domains],
        is_initial=domains[0].memory.any(axis=1),
        costs=Costs(),
        records=Records(ProgramRecord(placement.processes), layout.page_bytes),
        waits=Waits(),
        processes=placement.nodes * placement.processes,
        each=placement.processes,
    )
    stations = _stations(STATIONS[on], job, domains)
    for station in stations:
        cluster.start(station.node, station.run, tasks=placement.processes + SPARE_TASKS)
    results = _results_of(cluster, job.waits, options.get("faults"))
    memory = memory_at_homes(
        [(seat.domain, seat.coherence.homes) for each in stations for seat in each.seats.values()]
    )
    ended = max(station.ended_us for station in stations)
    run = MachineRun(results, job.records, ended, memory)
    run.report = cluster.report()
    return run


def _stations(kind: type[Any], job: Job, domains: list[Domain]) -> list[NodeRun]:
    """One station for each node."""
    node_of = [place.node for place in job.places]
    nodes = sorted(set(node_of))
    return [kind(job, [each for each in domains if each.node == node], node_of) for node in nodes]


def _results_of(cluster: Any, waits: Waits, faults: Faults | None) -> list[object]:
    """The results of all processes.  Errors: ``SimulationError`` saying who waited for what."""
    try:
        of_nodes = cluster.run()
    except StuckError:
        said = "nothing more can come"
    except WaitTimeoutError as error:
        said = error.said
    except UnreachableError as error:
        said = str(error)
    else:
        if None not in of_nodes:
            return [result for of_node in of_nodes for result in of_node]
        said = f"node {of_nodes.index(None)} has not ended its processes"
    now = cluster.simulation.now
    links = _dead({} if faults is None else faults.link_deaths, now)
    nodes = _dead({} if faults is None else faults.node_deaths, now)
    told = [f"{said}, at {now / PS_PER_US:,.1f} us of virtual time", waits.text(nodes)]
    told += [f"link {number} died at {when}" for number, when in links.items()]
    told += [f"node {number} died at {when}" for number, when in nodes.items()]
    raise SimulationError("; ".join(filter(None, told)))


def _dead(deaths: dict[int, int], now: int) -> dict[int, str]:
    """What has died by then, and when."""
    return {each: f"{when / PS_PER_US:,.1f} us" for each, when in deaths.items() if when <= now}


def _pages_of_node(layout: Layout, placement: Placement) -> int:
    copies = placement.processes if placement.are_copies_private else 1
    return copies * -(-layout.pages * layout.page_bytes // PAGE)
