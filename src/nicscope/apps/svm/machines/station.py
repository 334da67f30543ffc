"""A node's station: its program of the cluster holds its domains and runs their processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.apps.svm.coherence import Coherence
from nicscope.apps.svm.machines.heard import HeardNotices
from nicscope.apps.svm.machines.page_homes import PageHomes
from nicscope.apps.svm.machines.questions import Questions
from nicscope.apps.svm.machines.region import Region
from nicscope.apps.svm.machines.remote_mail import RemoteMail
from nicscope.apps.svm.machines.remote_memory import MiniMemory, RemoteMemory, VmmcMemory
from nicscope.apps.svm.machines.seats import Seat
from nicscope.apps.svm.machines.synchronization import LetterSynchronization
from nicscope.apps.svm.machines.unet_mail import UNetMail
from nicscope.apps.svm.machines.wires import LetterWire, MachineWire, RemoteWire
from nicscope.apps.svm.process import Process
from nicscope.apps.svm.wire import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from nicscope.apps.svm.domain import Domain, Elsewhere
    from nicscope.apps.svm.machines.letters import Letter
    from nicscope.apps.svm.machines.mail import Mail
    from nicscope.apps.svm.machines.waits import Waits
    from nicscope.apps.svm.records import Records
    from nicscope.apps.svm.wire import Costs
    from nicscope.interfaces.ports.buffers import Buffer

SPARE_TASKS = 6  # beside a node's processes: of its mail, and those that a wait for several takes


class Job(NamedTuple):
    """What all stations of a run have in common: nothing that one of them changes."""

    body: Callable[[Process], Coroutine[Any, Any, object]]
    places: Sequence[Elsewhere]  # of all domains
    is_initial: Any  # pages that were written before the processes were made
    costs: Costs
    records: Records
    waits: Waits
    processes: int
    each: int  # of a node


class Station(ABC):
    """One node's."""

    def __init__(self, job: Job, domains: Sequence[Domain], mail: Mail) -> None:
        self.job = job
        self.mail = mail
        self.node = domains[0].node
        self.seats: dict[int, Seat] = {}
        self.ended_us = 0.0  # when its last process had
        self._domains = domains
        mail.on_letter = self._take
        mail.on_page = self._place_of

    async def run(self, endpoint: Any) -> list[object]:
        """Run the node's processes; what they return."""
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
        """Have the domains' memory, and their seats."""
        await self.mail.open()
        near = {}
        for domain in self._domains:
            near[domain.number] = Region(domain, self.mail.allocate(domain.memory.size))
        await self._connect(endpoint, near)
        for domain in self._domains:
            self.seats[domain.number] = self._seat(domain, near)

    @abstractmethod
    async def _connect(self, endpoint: Any, near: dict[int, Region]) -> None:
        """Have others reach this node's regions, and find theirs."""

    @abstractmethod
    def _wire(self, questions: Questions, near: dict[int, Region]) -> MachineWire:
        """What carries a domain's pages and diffs."""

    def _seat(self, domain: Domain, near: dict[int, Region]) -> Seat:
        job, many = self.job, len(self.job.places)
        questions = Questions(domain.number, many, self.mail)
        notices = HeardNotices(many, domain.number)
        known: list[Domain | Elsewhere] = [
            *job.places[: domain.number],
            domain,
            *job.places[domain.number + 1 :],
        ]
        wire = self._wire(questions, near)
        record = job.records.program
        coherence = Coherence(known, notices, wire, job.costs, record, is_eager=True)
        coherence.is_initial[:] = job.is_initial
        meeting = LetterSynchronization(coherence, notices, questions, job.costs, job.waits)
        homes = PageHomes(self.mail)
        region = near[domain.number]
        return Seat(domain, region, self.mail, questions, homes, coherence, meeting)

    async def _process(self, number: int, seat: Seat, endpoint: Any) -> object:
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


class RemoteStation(Station):
    """Of VMMC and miNI."""

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


class MiniStation(RemoteStation):
    """Of miNI."""

    memory_type = MiniMemory


class UNetStation(Station):
    """Of U-Net."""

    def __init__(self, job: Job, domains: Sequence[Domain], node_of: Sequence[int]) -> None:
        super().__init__(job, domains, UNetMail(domains[0].node, node_of))

    async def _connect(self, endpoint: Any, near: dict[int, Region]) -> None:
        """Messages need no more than the layer."""

    def _wire(self, questions: Questions, near: dict[int, Region]) -> MachineWire:
        return LetterWire(questions, self.job.records, self.job.waits, near)


STATIONS: dict[str, Any] = {"vmmc": RemoteStation, "mini": MiniStation, "unet": UNetStation}


def _name(domain: int) -> str:
    return f"shared memory of {domain}"
