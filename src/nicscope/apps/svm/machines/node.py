"""A node of a shared-memory program on simulated machines: its locks and barriers; a run."""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.collectives.running import VIA_SETTINGS
from nicscope.apps.svm.coherence import (
    BARRIER_MANAGER,
    Caller,
    Coherence,
    Costs,
    ProgramRecord,
    Records,
)
from nicscope.apps.svm.machines import messages
from nicscope.apps.svm.machines.trapeze import TrapezeMail
from nicscope.apps.svm.machines.via import ViaMemory
from nicscope.apps.svm.memory import PAGE, Domain, Layout, Notices, RemoteDomain
from nicscope.apps.svm.process import (
    Placement,
    Process,
    Program,
    Run,
    SetUp,
    already_held_error,
    domains_of,
    memory_at_homes,
    not_held_error,
)
from nicscope.errors import SimulationError, StuckError, WaitTimeoutError, did_you_mean
from nicscope.interfaces import Faults, HostSize
from nicscope.interfaces.options import Cluster
from nicscope.interfaces.programs import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.run_report import RunReport

ITEM = struct.Struct("<HII")  # whose interval, which of its, and how many pages follow


class ReceivedNotices(Notices):
    """One domain's write notices: its own intervals, and those received in messages."""

    def __init__(self, domains: int, own: int) -> None:
        super().__init__(domains)
        self._own = own

    @property
    def clock(self) -> NDArray[np.int64]:
        """The domain's vector clock."""
        own: NDArray[np.int64] = self.clocks[self._own]
        return own

    def told(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> bytes:
        """Encode ``until`` and the intervals that a domain at clock ``since`` lacks."""
        pieces = [clock_bytes(until)]
        for writer, intervals in enumerate(self._intervals):
            gone = int(self._forgotten[writer])
            for number in range(max(int(since[writer]), gone), int(until[writer])):
                pages = intervals[number - gone]
                pieces += [ITEM.pack(writer, number, len(pages)), pages.astype("<u4").tobytes()]
        return b"".join(pieces)

    def hear(self, raw: bytes) -> NDArray[np.int64]:
        """Decode received intervals and keep them; the clock that they lead to."""
        clock = clock_of(raw, len(self._intervals))
        at = 4 * len(self._intervals)
        while at < len(raw):
            writer, number, many = ITEM.unpack_from(raw, at)
            at += ITEM.size
            held = self._intervals[writer]
            behind = int(self._forgotten[writer]) + len(held)
            assert number <= behind, "a notice is missing between those that were heard"
            if number == behind:
                held.append(np.frombuffer(raw, "<u4", many, at).astype(np.int64))
            at += 4 * many
        return clock

    def forget(self) -> None:
        """Discard all intervals: after a barrier every domain knows them."""
        for writer, intervals in enumerate(self._intervals):
            del intervals[: int(self.clock[writer] - self._forgotten[writer])]
        self._forgotten = self.clock.copy()


def clock_bytes(clock: NDArray[np.int64]) -> bytes:
    """Encode a clock, 32 bits for each domain."""
    return clock.astype("<u4").tobytes()


def clock_of(raw: bytes, domains: int) -> NDArray[np.int64]:
    """Decode the clock at the beginning of ``raw``."""
    return np.frombuffer(raw, "<u4", domains).astype(np.int64)


SEPARATOR = b"\0"  # behind a lock's name


class Held:
    """One domain's state of a lock."""

    def __init__(self) -> None:
        self.is_here = False
        self.is_asked_for = False
        self.holder: int | None = None
        self.waiting: deque[tuple[int, Gate]] = deque()  # processes of this domain
        # Who gets it from here, what it knows, and how many of ``waiting`` asked before it.
        self.next: tuple[int, NDArray[np.int64], int] | None = None
        self.clock: NDArray[np.int64] | None = None  # to be learned by who holds it first here


class MessageSynchronization:
    """One domain's locks and barrier by messages."""

    def __init__(
        self,
        coherence: Coherence,
        notices: ReceivedNotices,
        questions: messages.Questions,
        costs: Costs,
        waits: messages.Waits,
    ) -> None:
        self._coherence = coherence
        self._notices = notices
        self._questions = questions
        self._costs = costs
        self._waits = waits
        self._own = questions.own
        self._domains = questions.domains
        self._locks: dict[bytes, Held] = {}
        self._last: dict[bytes, int] = {}  # who asked last, for locks that this domain manages
        self._here = 0  # processes of this domain that have come to the barrier
        self._leave = Gate()
        self._arrived: dict[int, NDArray[np.int64]] = {}  # domains at the barrier, if its manager
        self._met = np.zeros(self._domains, np.int64)  # what all knew when they met last

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Wait for the lock, granted in order, and apply its last holder's notices."""
        called = repr(name).encode()
        lock = self._locks.setdefault(called, Held())
        if lock.holder == process:
            raise already_held_error(process, name)
        if lock.is_here and lock.holder is None:
            lock.holder = process
            await caller.endpoint.sleep(self._costs.local_lock)
            return
        gate = Gate()
        lock.waiting.append((process, gate))
        self._ask(called, lock)
        with self._waits.waiting(caller, f"lock {name!r}"):
            await gate.wait(caller.endpoint)
            if lock.clock is not None:
                clock, lock.clock = lock.clock, None
                await self._coherence.learn(caller, clock)

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Send diffs home, and grant the lock to the first waiter."""
        called = repr(name).encode()
        lock = self._locks.get(called)
        if lock is None or lock.holder != process:
            raise not_held_error(process, name)
        await self._coherence.flush(caller)
        lock.holder = None
        self._grant_next(called, lock)

    async def meet(self, caller: Caller) -> None:
        """Tell the manager when the domain's processes have arrived; wait for its release."""
        self._here += 1
        gate = self._leave
        if self._here == len(caller.domain.processes):
            clock = self._notices.clock
            self._tell(BARRIER_MANAGER, messages.Kind.ARRIVE, self._notices.told(self._met, clock))
        with self._waits.waiting(caller, "all others at a barrier"):
            await gate.wait(caller.endpoint)
        self._coherence.accept(caller)

    # -- letters ---------------------------------------------------------------------------------

    def asked(self, letter: messages.Letter) -> None:
        """Handle a request for a lock that this domain manages."""
        called, _ = _named(letter.body)
        before = self._last.get(called)
        self._last[called] = letter.sender
        if before is None:  # it is nobody's: what has been written before is no concern of it
            nothing = clock_bytes(np.zeros(self._domains, np.int64))
            self._tell(letter.sender, messages.Kind.GRANT, called + SEPARATOR + nothing, called)
        else:
            body = letter.sender.to_bytes(2, "little") + letter.body
            self._tell(before, messages.Kind.PASS, body, called)

    def passed(self, letter: messages.Letter) -> None:
        """Handle a request, forwarded by the manager, for a lock that this domain holds."""
        asker = int.from_bytes(letter.body[:2], "little")
        called, rest = _named(letter.body[2:])
        lock = self._locks[called]
        lock.next = asker, clock_of(rest, self._domains), len(lock.waiting)
        if lock.is_here and lock.holder is None:
            self._grant_next(called, lock)

    def granted(self, letter: messages.Letter) -> None:
        """Handle the grant of a lock to this domain."""
        called, rest = _named(letter.body)
        lock = self._locks[called]
        lock.is_here, lock.is_asked_for = True, False
        lock.clock = self._notices.hear(rest)
        self._grant_next(called, lock)

    def arrived(self, letter: messages.Letter) -> None:
        """Handle a domain's arrival at the barrier that this one manages."""
        self._arrived[letter.sender] = self._notices.hear(letter.body)
        if len(self._arrived) < self._domains:
            return
        everything = np.max([*self._arrived.values()], axis=0)
        for domain, clock in self._arrived.items():
            self._tell(domain, messages.Kind.LEAVE, self._notices.told(clock, everything))
        self._arrived.clear()

    def left(self, letter: messages.Letter) -> None:
        """Release the barrier here: apply the notices, and wake the domain's processes."""
        everything = self._notices.hear(letter.body)
        self._coherence.meet(everything)
        self._met = everything
        told, self._leave = self._leave, Gate()
        self._here = 0
        told.open()

    # -- within ----------------------------------------------------------------------------------

    def _grant_next(self, called: bytes, lock: Held) -> None:
        """Grant a free lock that is here to the first waiter."""
        if lock.next is not None and not lock.next[2]:
            asker, clock, _ = lock.next
            lock.next, lock.is_here, lock.clock = None, False, None
            told = self._notices.told(clock, self._notices.clock)
            self._tell(asker, messages.Kind.GRANT, called + SEPARATOR + told, called)
            if lock.waiting:
                self._ask(called, lock)
        elif lock.waiting:
            lock.holder, gate = lock.waiting.popleft()
            if lock.next is not None:
                asker, clock, before = lock.next
                lock.next = asker, clock, before - 1
            gate.open()

    def _ask(self, called: bytes, lock: Held) -> None:
        if lock.is_here or lock.is_asked_for:
            return
        lock.is_asked_for = True
        number = int(called) if called.isdigit() else zlib.crc32(called)  # all compute it alike
        manager = number % self._domains
        known = clock_bytes(self._notices.clock)
        self._tell(manager, messages.Kind.LOCK, called + SEPARATOR + known, called)

    def _tell(self, to: int, kind: messages.Kind, body: bytes, lock: bytes | None = None) -> None:
        what = "a barrier" if lock is None else f"lock {lock.decode()}"
        self._questions.tell(to, kind, body, what)


def _named(body: bytes) -> tuple[bytes, bytes]:
    """Split a message body into the lock's name and the rest."""
    called, _, rest = body.partition(SEPARATOR)
    return called, rest


class DomainState(NamedTuple):
    """All protocol state of one domain."""

    domain: Domain
    region: messages.Region
    mail: messages.Mail
    questions: messages.Questions
    homes: messages.HomeDirectory
    coherence: Coherence
    synchronization: MessageSynchronization

    def take(self, letter: messages.Letter) -> None:
        """Handle a message that has arrived."""
        match letter.kind:
            case messages.Kind.ANSWER:
                self.questions.answered(letter)
            case messages.Kind.CLAIM:
                self.homes.claim(letter, _page(letter))
            case messages.Kind.SETTLED:
                self.homes.settled(_page(letter))
            case messages.Kind.FETCH:
                page = _page(letter)
                self.mail.post(messages.answer_to(letter), f"page {page}", page, self.region)
            case messages.Kind.DIFF:
                diff = messages.diff_of_bytes(letter.body)
                self.region.put_words(diff.page, diff.words, diff.values)
                self.mail.post(messages.answer_to(letter), f"a diff of page {diff.page}")
            case messages.Kind.LOCK:
                self.synchronization.asked(letter)
            case messages.Kind.PASS:
                self.synchronization.passed(letter)
            case messages.Kind.GRANT:
                self.synchronization.granted(letter)
            case messages.Kind.ARRIVE:
                self.synchronization.arrived(letter)
            case messages.Kind.LEAVE:
                self.synchronization.left(letter)

    def place_of(self, letter: messages.Letter) -> Buffer:
        """The destination of the page that a reply carries."""
        return self.region.part(self.questions.page_asked(letter.number))


def _page(letter: messages.Letter) -> int:
    page, _ = messages.PAGE.unpack(letter.body)
    return int(page)


SPARE_TASKS = 6  # beside a node's processes: of its mail, and those that a wait for several takes


class Job(NamedTuple):
    """Immutable parameters that all nodes of a run share."""

    body: Callable[[Process], Coroutine[Any, Any, object]]
    places: Sequence[RemoteDomain]  # of all domains
    is_initial: Any  # pages that were written before the processes were made
    costs: Costs
    records: Records
    waits: messages.Waits
    processes: int
    each: int  # of a node
    is_lossy: bool  # what is sent may have to go again, and not all interfaces see to it


class NodeRun(ABC):
    """One node of a run."""

    def __init__(self, job: Job, domains: Sequence[Domain], mail: messages.Mail) -> None:
        self.job = job
        self.mail = mail
        self.node = domains[0].node
        self.seats: dict[int, DomainState] = {}
        self.ended_us = 0.0  # when its last process had
        self._domains = domains
        mail.on_letter = lambda letter: self.seats[letter.to].take(letter)
        mail.on_page = lambda letter: self.seats[letter.to].place_of(letter)

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
            near[domain.number] = messages.Region(domain, self.mail.allocate(domain.memory.size))
        await self._connect(endpoint, near)
        for domain in self._domains:
            self.seats[domain.number] = self._seat(domain, near)

    @abstractmethod
    async def _connect(self, endpoint: Any, near: dict[int, messages.Region]) -> None:
        """Export this node's regions, and import other nodes'."""

    @abstractmethod
    def _wire(
        self, questions: messages.Questions, near: dict[int, messages.Region]
    ) -> messages.MachineWire:
        """The wire of a domain."""

    def _seat(self, domain: Domain, near: dict[int, messages.Region]) -> DomainState:
        job, many = self.job, len(self.job.places)
        questions = messages.Questions(domain.number, many, self.mail)
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
        homes = messages.HomeDirectory(self.mail)
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


class RemoteNodeRun(NodeRun):
    """A node with remote memory: VMMC, or by ``memory_type`` another interface."""

    mail: messages.RemoteMail
    memory_type: Callable[[Any], messages.RemoteMemory] = messages.VmmcMemory

    def __init__(self, job: Job, domains: Sequence[Domain], node_of: Sequence[int]) -> None:
        super().__init__(job, domains, messages.RemoteMail(domains[0].node, node_of))
        self._far: dict[int, Any] = {}

    async def run(self, endpoint: Any) -> list[object]:
        """The same, with remote memory."""
        memory = self.mail.memory = self.memory_type(endpoint)
        await memory.open(self.mail.nodes)
        return await super().run(memory.endpoint)

    async def _connect(self, endpoint: Any, near: dict[int, messages.Region]) -> None:
        del endpoint
        memory = self.mail.memory
        for number, region in near.items():
            await memory.export(region.buffer, _name(number))
        for place in self.job.places:
            if place.number not in near:
                self._far[place.number] = await memory.find(place.node, _name(place.number))

    def _wire(
        self, questions: messages.Questions, near: dict[int, messages.Region]
    ) -> messages.MachineWire:
        job, memory = self.job, self.mail.memory
        return messages.RemoteWire(questions, job.records, job.waits, near, memory, self._far)


class MiniNodeRun(RemoteNodeRun):
    """A node with miNI."""

    memory_type = messages.MiniMemory


class ViaNodeRun(RemoteNodeRun):
    """A node with VIA."""

    memory_type = ViaMemory


class MessageNodeRun(NodeRun):
    """A node whose interface has messages alone."""

    async def _connect(self, endpoint: Any, near: dict[int, messages.Region]) -> None:
        """Does nothing: the layer that carries the messages needs no regions."""

    def _wire(
        self, questions: messages.Questions, near: dict[int, messages.Region]
    ) -> messages.MachineWire:
        return messages.MessageWire(questions, self.job.records, self.job.waits, near)


class UNetNodeRun(MessageNodeRun):
    """A node with U-Net."""

    def __init__(self, job: Job, domains: Sequence[Domain], node_of: Sequence[int]) -> None:
        super().__init__(job, domains, messages.UNetMail(domains[0].node, node_of))


class TrapezeNodeRun(MessageNodeRun):
    """A node with Trapeze."""

    def __init__(self, job: Job, domains: Sequence[Domain], node_of: Sequence[int]) -> None:
        mail = TrapezeMail(domains[0].node, node_of, is_lossy=job.is_lossy)
        super().__init__(job, domains, mail)


class Station(NamedTuple):
    """How programs run over an interface."""

    run: Callable[[Job, Sequence[Domain], Sequence[int]], NodeRun]
    design: str  # if none is named; "" where the interface has none
    settings: dict[str, Any]  # of its cluster


STATIONS: dict[str, Station] = {
    "vmmc": Station(RemoteNodeRun, "utlb", {}),
    "mini": Station(MiniNodeRun, "mini", {}),
    "unet": Station(UNetNodeRun, "unet-mm-pca200", {}),
    "via": Station(ViaNodeRun, "via-static", {"settings": VIA_SETTINGS}),
    "trapeze": Station(TrapezeNodeRun, "", {}),
}


def _name(domain: int) -> str:
    return f"shared memory of {domain}"


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
    """Run ``program`` on simulated machines whose NICs serve ``on``, one of ``STATIONS``.

    Pages, diffs, locks and barriers cross the NICs, byte by byte.  ``design``, ``options``: as of
    ``Cluster``.  Errors: ``SimulationError`` for what cannot run, and for what does not get
    through: then it says who waited for what, and since when.
    """
    check_machines(on, layout, placement)
    pages = LINE * -(-(_pages_of_node(layout, placement) + OTHER_PAGES) // LINE)
    station = STATIONS[on]
    options = {"nodes": max(2, placement.nodes), **station.settings, **options}
    cluster: Any
    if station.design:
        options.setdefault("host", HostSize(frames=pages, pages_per_space=pages))
        cluster = Cluster(design or station.design, interface=on, **options)
    elif design is None:
        cluster = Cluster("trapeze", **options, host_bytes=pages * PAGE)
    else:
        raise SimulationError(
            "Trapeze has no designs: it translates nothing on its NIC; leave the design out"
        )
    domains = domains_of(layout, placement)
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
    job = Job(
        body=program,
        places=[RemoteDomain(domain.number, domain.node) for domain in domains],
        is_initial=domains[0].memory.any(axis=1),
        costs=Costs(),
        records=Records(ProgramRecord(placement.processes), layout.pages, layout.page_bytes),
        waits=messages.Waits(),
        processes=placement.nodes * placement.processes,
        each=placement.processes,
        is_lossy=bool(options.get("faults") and options["faults"].any),
    )
    node_of = [place.node for place in job.places]
    stations: list[NodeRun] = [
        station.run(job, [each for each in domains if each.node == node], node_of)
        for node in sorted(set(node_of))
    ]
    for each in stations:
        cluster.start(each.node, each.run, tasks=placement.processes + SPARE_TASKS)
    results = _results_of(cluster, job.waits, options.get("faults"))
    memory = memory_at_homes(
        [(seat.domain, seat.coherence.homes) for each in stations for seat in each.seats.values()]
    )
    ended = max(each.ended_us for each in stations)
    run = MachineRun(results, job.records, ended, memory)
    run.report = cluster.report()
    return run


def _results_of(cluster: Any, waits: messages.Waits, faults: Faults | None) -> list[object]:
    """The results of all processes.  Errors: ``SimulationError`` saying who waited for what."""
    try:
        of_nodes = cluster.run()
    except StuckError:
        said = "nothing more can come"
    except WaitTimeoutError as error:
        said = error.said
    except messages.UnreachableError as error:
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
