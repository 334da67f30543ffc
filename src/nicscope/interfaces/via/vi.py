"""What a node's kernel holds: VIs, completion queues, regions, tags, requests for connections."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.interfaces.arguments import shown
from nicscope.interfaces.ownership import Owned, Owner
from nicscope.interfaces.via.descriptor import (
    Error,
    Region,
    Reliability,
    Return,
    State,
    Status,
    VipError,
    VipTimeoutError,
    Work,
    whole,
)
from nicscope.interfaces.work_queues import errors_since, store
from nicscope.nic.ports.layout import BROKEN, CONNECTED, FETCH, IDLE, PENDING_CONNECTION, WRITE
from nicscope.nic.ports.work_queues import (
    CONNECTION_LOST,
    FETCH_REFUSED,
    POSTED_BADLY,
    QUEUE_FULL,
    RECEIVE_FAILED,
    RECEIVES_EMPTY,
    WRITE_REFUSED,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.ports.process import Process


class Attributes(msgspec.Struct, frozen=True):
    """Attributes of a VI (``VIP_VI_ATTRIBUTES``)."""

    tag: int
    reliability: Reliability
    max_transfer: int
    rdma_write: bool
    rdma_read: bool
    qos: int = 0  # a class of service, which both ends of a connection agree upon


MOST_QOS = 255


def check_attributes(attributes: Attributes, most: int) -> None:
    """Errors: the ``VIP_INVALID_...`` of the one that is wrong; ``most``: bytes of a message."""
    level, longest = attributes.reliability, attributes.max_transfer
    if isinstance(level, bool) or level not in list(Reliability):
        raise VipError(Return.VIP_INVALID_RELIABILITY_LEVEL, f"no level {shown(level)}")
    if type(longest) is not int or not 1 <= longest <= most:
        raise VipError(
            Return.VIP_INVALID_MTU, f"max_transfer must be from 1 to {most}, got {shown(longest)}"
        )
    if type(attributes.qos) is not int or not 0 <= attributes.qos <= MOST_QOS:
        raise VipError(
            Return.VIP_INVALID_QOS, f"qos must be from 0 to {MOST_QOS}, got {shown(attributes.qos)}"
        )
    if attributes.rdma_read and level == Reliability.VIP_SERVICE_UNRELIABLE:
        raise VipError(Return.VIP_INVALID_RDMAREAD, "an unreliable VI has no RDMA read")


def check_match(one: Attributes, other: Attributes) -> None:
    """Errors: the ``VIP_INVALID_...`` of the first attribute in which two VIs do not match."""
    if one.reliability != other.reliability:
        raise VipError(
            Return.VIP_INVALID_RELIABILITY_LEVEL,
            f"one side has {one.reliability.name}, the other {other.reliability.name}",
        )
    if one.max_transfer != other.max_transfer:
        raise VipError(
            Return.VIP_INVALID_MTU,
            f"one side transfers {one.max_transfer} bytes, the other {other.max_transfer}",
        )
    if one.qos != other.qos:
        raise VipError(Return.VIP_INVALID_QOS, f"one side has qos {one.qos}, the other {other.qos}")


class Vi(Owned):
    """One end of a connection: a send queue and a receive queue."""

    what = "a VI"
    origin = "create_vi()"

    def __init__(self, shown: Endpoint) -> None:
        """``shown``: what is read here."""
        self._shown = shown

    def __repr__(self) -> str:
        return f"<Vi {self.number} of {self._of}, {self.state}>"

    @property
    def node(self) -> int:
        """The VI's node number."""
        return self._shown.node

    @property
    def number(self) -> int:
        """Its own among the node's VIs and completion queues."""
        return self._shown.number

    @property
    def place(self) -> int:
        """The VI's port on the NIC; below 0 once it is destroyed."""
        return self._shown.place

    @property
    def attributes(self) -> Attributes:
        """The VI's current attributes."""
        return self._shown.attributes

    @property
    def state(self) -> State:
        """The VI's state on the NIC."""
        return self._shown.state

    @property
    def connected(self) -> bool:
        """Whether the VI is connected."""
        return self._shown.connected

    @property
    def peer(self) -> Vi | None:
        """The connected VI, if any."""
        other = self._shown.peer
        return None if other is None else other.handle


class CompletionQueue(Owned):
    """A ring in registered memory where the NIC notes which work queue has a completion."""

    what = "a completion queue"
    origin = "create_cq()"

    def __init__(self, shown: Ring) -> None:
        """``shown``: what is read here."""
        self._shown = shown

    def __repr__(self) -> str:
        return f"<CompletionQueue {self.number} of {self._of}, {self.entries} entries>"

    @property
    def number(self) -> int:
        """Its own among the node's VIs and completion queues."""
        return self._shown.number

    @property
    def entries(self) -> int:
        """The queue's capacity."""
        return self._shown.entries


NOWHERE = -1  # in place of a port: the VI is no more
SEND_QUEUE = 0  # as ports number their reports
RECEIVE_QUEUE = 1
IN_RECORD = ("reported", "reaped"), ("received", "read")  # of a port, by work queue
STATES = {
    IDLE: State.VIP_STATE_IDLE,
    CONNECTED: State.VIP_STATE_CONNECTED,
    PENDING_CONNECTION: State.VIP_STATE_CONNECT_PENDING,
    BROKEN: State.VIP_STATE_ERROR,
}
AS_OF_PORTS = {state: code for code, state in STATES.items()}
ERRORS = {
    POSTED_BADLY: Error.VIP_ERROR_POST_DESC,
    CONNECTION_LOST: Error.VIP_ERROR_CONN_LOST,
    RECEIVES_EMPTY: Error.VIP_ERROR_RECVQ_EMPTY,
    WRITE_REFUSED: Error.VIP_ERROR_RDMAW_PROT,
    FETCH_REFUSED: Error.VIP_ERROR_RDMAR_PROT,
    RECEIVE_FAILED: Error.VIP_ERROR_COMP_PROT,
    QUEUE_FULL: Error.VIP_ERROR_CATASTROPHIC,
}


class Endpoint:
    """The kernel agent's VI: a send queue and a receive queue at one port."""

    def __init__(
        self,
        owner: Owner,
        where: tuple[int, int, int],
        attributes: Attributes,
        queues: tuple[Ring | None, Ring | None],
        ports: Ports,
    ) -> None:
        """``where``: node, number and port."""
        self.node, self.number, self.place = where
        self.owner = owner
        self.attributes = attributes
        self.handle = Vi(self)  # as the program has it
        self.completion_queues = queues
        self.posted: tuple[deque[Work], deque[Work]] = (deque(), deque())  # not yet taken
        self.addresses: set[int] = set()  # of their descriptors
        self.announced = [0, 0]  # entries taken before their descriptors, by work queue
        # What the driver is asked for the next report of each, to wait for ever.
        self.questions: tuple[bytes, bytes] = b"", b""
        self.peering: PeerRequest | None = None  # what it has asked for as an equal
        self.joined: Endpoint | None = None  # the other end, of this connection or the last
        self._record: Any = ports.table[self.node, self.place]
        self._ports = ports
        self._errors: list[Error] = []
        self._heard = 0  # of the port's troubles

    @property
    def state(self) -> State:
        """The VI's state on the NIC."""
        if self.place == NOWHERE:
            return State.VIP_STATE_IDLE
        return STATES[int(self._record["state"])]

    @property
    def connected(self) -> bool:
        """Whether the VI is connected."""
        return self.state is State.VIP_STATE_CONNECTED

    @property
    def peer(self) -> Endpoint | None:
        """The connected VI, if any."""
        return self.joined if self.connected else None

    @property
    def errors(self) -> list[Error]:
        """Asynchronous errors of the port, oldest first."""
        self._hear()
        return self._errors

    def _hear(self) -> None:
        if self.place == NOWHERE:
            return
        codes, self._heard = errors_since(self._ports, self.node, self.place, self._heard)
        self._errors += [ERRORS[code] for code in codes]

    def enter(self, state: State) -> None:
        """Set the VI's state; for the kernel agent."""
        self._record["state"] = AS_OF_PORTS[state]

    def reported(self, queue: int) -> int:
        """How many unread reports a work queue has."""
        made, taken = IN_RECORD[queue]
        return int(self._record[made]) - int(self._record[taken])

    def notify_by(self, queue: int, notices: int) -> None:
        """Have the NIC announce completions of a work queue in completion queue ``notices``."""
        if self.place != NOWHERE:
            self._record[("send_queue", "receive_queue")[queue]] = notices

    def wake_for_errors(self, notices: int) -> None:
        """Have the NIC announce errors in queue ``notices``; ``NOBODY``: nowhere."""
        self._record["notices"] = notices + 1

    def close(self) -> None:
        """Release the port, which another VI may use from now on."""
        self._hear()
        self.place = NOWHERE


class Ring:
    """The kernel agent's completion queue."""

    def __init__(
        self, where: tuple[int, int, int], memory: Buffer, handle: int, entries: int, ports: Ports
    ) -> None:
        """``where``: node, number, and which of the NIC's; ``handle``: of its memory's region."""
        node, self.number, self.place = where
        self.handle = CompletionQueue(self)  # as the program has it
        self.memory = memory
        self.region = handle
        self.entries = entries
        self.users = 0  # work queues
        self.known: dict[int, Endpoint] = {}  # VIs whose ends it announces, by port
        self.written = 0
        self.read = 0
        self._noted: deque[_Entry] = deque()  # written and not read
        self._record: Any = ports.work.queues[node, self.place]
        self._in_memory: NDArray[Any] = ports.work.entries[node, self.place]

    def hear(self) -> None:
        """Read all entries that the NIC has written by now."""
        for number in range(self.written, int(self._record["written"])):
            entry = self._in_memory[number % len(self._in_memory)]
            self._noted.append(_Entry(self.known[int(entry["port"])], int(entry["side"])))
        self.written = int(self._record["written"])

    def say(self) -> None:
        """Tell the NIC how many entries are consumed."""
        self._record["read"] = self.read

    def notify_by(self, notices: int) -> None:
        """Have the NIC announce entries in queue ``notices`` too; ``NOBODY``: nowhere."""
        self._record["notices"] = notices + 1

    def is_visible(self) -> bool:
        """Whether an unread entry is visible in the host's memory."""
        return bool(self._record["shown"] > self._record["read"])

    def take(self) -> tuple[Endpoint, int]:
        """Remove the oldest entry, which exists, and return its work queue."""
        entry = self._noted.popleft()
        self.read += 1
        entry.vi.announced[entry.queue] += 1
        self._skip_spent()
        return entry.vi, entry.queue

    def spend(self, vi: Endpoint, queue: int) -> None:
        """Consume the entry of a completion that was taken from its work queue."""
        if vi.announced[queue]:
            vi.announced[queue] -= 1
            return
        for entry in self._noted:
            if entry.vi is vi and entry.queue == queue and not entry.spent:
                entry.spent = True
                break
        self._skip_spent()

    def _skip_spent(self) -> None:
        while self._noted and self._noted[0].spent:
            self._noted.popleft()
            self.read += 1


class _Entry(msgspec.Struct, eq=False):
    """An entry of a completion queue."""

    vi: Endpoint
    queue: int
    spent: bool = False  # the completion was taken off the work queue itself


OWN_WRONG = Status.VIP_STATUS_PROTECTION_ERROR
REMOTE_WRONG = Status.VIP_STATUS_RDMA_PROT_ERROR
TOO_LONG = Status.VIP_STATUS_LENGTH_ERROR


def error_reason(
    work: Work, vi: Endpoint, wrong: Status, operation: int, kernels: list[Kernel]
) -> str:
    """The reason for an error status, as text after its name; empty if the tables show none."""
    found: list[str] = []
    if wrong & OWN_WRONG:
        found.extend(_of_segments(work, vi, kernels[vi.node].regions))
    if wrong & TOO_LONG:
        found.append(_of_length(work, vi, operation))
    if wrong & Status.VIP_STATUS_DESC_FLUSHED_ERROR:
        found.append(f"the VI is in {vi.state.name}")
    if wrong & REMOTE_WRONG and vi.joined is not None:
        found.extend(_of_remote(work, vi.joined, operation, kernels[vi.joined.node].regions))
    return "".join(f"; {each}" for each in found)


def _of_segments(work: Work, vi: Endpoint, regions: Mapping[int, Region]) -> Iterator[str]:
    for number, one in enumerate(work.said[0], 1):
        which = f"segment {number}, {_stretch(one.address, one.length)},"
        region = regions.get(one.handle)
        if region is None:
            yield f"{which} is of no registered memory: nothing has handle {one.handle}"
        elif not _is_in(one.address, one.length, region):
            yield f"{which} is not in its region, {_stretch(region.address, region.length)}"
        elif region.tag != vi.attributes.tag:
            yield (
                f"{which} is of a region with protection tag {region.tag}, and the VI has "
                f"{vi.attributes.tag}"
            )


def _of_length(work: Work, vi: Endpoint, operation: int) -> str:
    total, most = sum(one.length for one in work.said[0]), vi.attributes.max_transfer
    if total > most:
        return f"its segments have {total} bytes, and the VI transfers {most} at most"
    if operation in (WRITE, FETCH):
        return f"its segments have {total} bytes"
    return f"the message is longer than its receive's segments, which have {total} bytes"


def _of_remote(
    work: Work, other: Endpoint, operation: int, regions: Mapping[int, Region]
) -> Iterator[str]:
    remote = work.said[2]
    if remote is None:
        return
    total = sum(one.length for one in work.said[0])
    which = f"remote memory {_stretch(remote.address, total)}"
    region = regions.get(remote.handle)
    right = "rdma_read" if operation == FETCH else "rdma_write"
    if region is None:
        yield f"{which} is not registered on node {other.node}: nothing has handle {remote.handle}"
    elif not _is_in(remote.address, total, region):
        there = _stretch(region.address, region.length)
        yield f"{which} is not in its region on node {other.node}, {there}"
    elif not getattr(region, right):
        yield f"{which} was registered on node {other.node} without enable_{right}"
    elif not getattr(other.attributes, right):
        yield f"the VI on node {other.node} was created without enable_{right}"
    elif region.tag != other.attributes.tag:
        yield f"{which} has another protection tag than the VI on node {other.node}"


def _is_in(address: int, length: int, region: Region) -> bool:
    return region.address <= address and address + length <= region.address + region.length


def _stretch(address: int, length: int) -> str:
    """Where so many bytes lie."""
    return f"{address:#x} to {address + length:#x}"


class WakeupList:
    """A list of processes that wait for an event."""

    def __init__(self) -> None:
        self.waiting: list[Process] = []

    def ring(self) -> None:
        """Wake all waiting processes now."""
        waiting, self.waiting = self.waiting, []
        for process in waiting:
            record = process._ports.work.queues[process.node, process.number]
            record["written"] += 1
            record["shown"] += 1
            process._sim_process.wake()


Wanted = tuple[str, int, str]  # as one side says it: its own discriminator, node, discriminator


class PeerRequest:
    """A peer connection request and its outcome."""

    def __init__(self, vi: Endpoint, wanted: Wanted, latest: int | None) -> None:
        self.vi = vi
        self.wanted = wanted
        self.latest = latest  # ps
        self.answered = WakeupList()
        self.failure: VipError | None = None

    def is_late(self, now: int) -> bool:
        """Whether the request has timed out."""
        pending = self.vi.state is State.VIP_STATE_CONNECT_PENDING
        return pending and self.latest is not None and now >= self.latest


class PeerRequests:
    """The pending peer requests of one node."""

    def __init__(self) -> None:
        self._waiting: dict[Wanted, deque[PeerRequest]] = {}

    def add(self, peering: PeerRequest) -> None:
        """Add a pending request."""
        self._waiting.setdefault(peering.wanted, deque()).append(peering)

    def take(self, wanted: Wanted, now: int) -> PeerRequest | None:
        """Remove and return the oldest matching request that has not timed out."""
        for peering in self._waiting.get(wanted, ()):
            if not peering.is_late(now):
                self.remove(peering)
                return peering
        return None

    def remove(self, peering: PeerRequest) -> None:
        """Remove a request, if it is pending."""
        waiting = self._waiting.get(peering.wanted)
        if waiting is not None and peering in waiting:
            waiting.remove(peering)
            if not waiting:
                del self._waiting[peering.wanted]


def peer_timeout(peering: PeerRequest) -> VipError:
    """The timeout error of a peer request."""
    _, node, name = peering.wanted
    return VipTimeoutError(Return.VIP_TIMEOUT, f"{name!r} of node {node} has not asked in time")


class Request(Owned):
    """A request for a connection, as the program that waited for it has it."""

    what = "a request for a connection"
    origin = "connect_wait()"

    def __init__(self, shown: ConnectionRequest) -> None:
        """``shown``: what is read here."""
        self._shown = shown

    @property
    def node(self) -> int:
        """The node that requests."""
        return self._shown.vi.node

    @property
    def attributes(self) -> Attributes:
        """The attributes of the requesting VI."""
        return self._shown.vi.attributes


class ConnectionRequest:
    """A client's connection request and its answer."""

    def __init__(self, vi: Endpoint) -> None:
        self.vi = vi  # of the side that asks
        self.answered = WakeupList()
        self.taken = False  # somebody has it from ``connect_wait``
        self.answer: Return | None = None


class Asked:
    """The connection requests that have arrived at one node."""

    def __init__(self) -> None:
        self.waiting: dict[str, deque[ConnectionRequest]] = {}  # by discriminator
        self.arrived = WakeupList()


class Tags:
    """The protection tags of one node."""

    def __init__(self) -> None:
        self._owners: dict[int, Owner] = {}

    def make(self, owner: Owner, number: int) -> int:
        """Assign protection tag ``number`` to a process."""
        self._owners[number] = owner
        return number

    def forget(self, owner: Owner, tag: object, is_in_use: Callable[[int], bool]) -> None:
        """Destroy a tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        known = self.known(owner, tag, Return.VIP_INVALID_PARAMETER)
        if is_in_use(known):
            raise VipError(Return.VIP_ERROR_RESOURCE, f"protection tag {known} is in use")
        del self._owners[known]

    def of(self, owner: Owner) -> list[int]:
        """The tags of a process."""
        return [number for number, holder in self._owners.items() if holder is owner]

    def known(self, owner: Owner, tag: object, code: Return) -> int:
        """Return the tag if it is the process's; else raise ``code``."""
        try:
            number = whole(tag, "a protection tag", 1)
        except VipError as error:
            raise VipError(code, str(error).partition(": ")[2]) from None
        holder = self._owners.get(number)
        if holder is None:
            raise VipError(code, f"no protection tag {number}; create_ptag makes one")
        if holder is not owner:
            raise VipError(
                code,
                f"protection tag {number} is {holder.name}'s, not {owner.name}'s; create_ptag "
                "makes one",
            )
        return number


class RegistrationLimit:
    """The registration limit of one node's NIC, in pages."""

    def __init__(self, machine: Machine, node: int, page: int) -> None:
        nics = machine.bus.ways.nics
        config: Any = nics.config[node, 0]
        self._registers: Any = nics.registers[node, 0]
        self._page = page
        buffers = (int(config["memory_bytes"]) - int(config["buffer_start"])) // page
        # Pages that are ever registered at once.
        self.most: int = min(
            buffers, int(nics.tags.shape[1]), int(config["pinned_bytes_max"]) // page
        )

    @property
    def left(self) -> int:
        """How many more pages could be registered now."""
        registered = int(self._registers["pinned"]) // self._page
        return self.most - registered


QUEUES_OF_PROCESS = 2  # one for bells (``bells``), one for notices (``notices``)
NEVER_FULL = 1 << 62


KINDS = {  # what a kernel gives out: how all are called, and which setting makes more of them
    "port": ("VIs", "vis"),
    "queue": ("completion queues", "queues"),
    "key": ("regions", "regions"),
}


class Kernel:
    """The kernel's state of node ``node``."""

    def __init__(self, machine: Machine, node: int, processes: int, postpones: bool) -> None:
        """``processes``: of that node; each has a port and two completion queues of its own.

        ``postpones``: memory for which the NIC has no room is registered when it has.
        """
        ports = machine.ports
        self.node = node
        self.tags = Tags()
        self.asked = Asked()
        self.vis: list[Endpoint] = []
        self.regions: dict[int, Region] = {}  # by key
        self._regions: Any = ports.work.regions[node]
        self._made = 0
        own = QUEUES_OF_PROCESS * processes
        ports.work.queues["open"][node, :own] = 1
        # Of notices what counts is that there are some: they never fill their queue.
        ports.work.queues["entries"][node, processes:own] = NEVER_FULL
        self.notices = range(processes, own)  # the queue that wakes each process for its handlers
        self.peers = PeerRequests()
        page = int(machine.ports.memory.config[0]["page_size"])
        self.room = RegistrationLimit(machine, node, page) if postpones else None
        self.given_back = WakeupList()  # some memory is not registered any more
        rows = len(self._regions)
        self._free = {
            "port": deque(range(processes + 1, ports.table.shape[1])),
            "queue": deque(range(own, ports.work.queues.shape[1])),
            "key": deque(range(rows, 2 * rows)),  # the next of each row, never given again
        }

    def number(self) -> int:
        """The next number for a tag, a VI or a completion queue."""
        self._made += 1
        return self._made

    def take(self, kind: str) -> int:
        """Take a port, a completion queue of the NIC, or a key.  Errors: ``VIP_ERROR_RESOURCE``."""
        free, (what, setting) = self._free[kind], KINDS[kind]
        if not free:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"node {self.node} has all its {what} in use; give the cluster more "
                f"({setting}=...)",
            )
        return free.popleft()

    def give(self, kind: str, number: int) -> None:
        """Give one back, which is taken again as late as possible; a key's row under another."""
        self._free[kind].append(number + len(self._regions) * (kind == "key"))

    def enter(self, region: Region, space: int, rights: int) -> None:
        """Add ``region`` to the NIC's table for the VIs of its tag."""
        record = self._regions[region.handle % len(self._regions)]
        store(
            record,
            key=region.handle,
            space=space,
            domain=region.tag,
            address=region.address,
            length=region.length,
            rights=rights,
        )
        self.regions[region.handle] = region

    def remove_region(self, key: int) -> Region | None:
        """Remove the region of that key from the NIC's table."""
        region = self.regions.pop(key, None)
        if region is not None:
            self._regions[key % len(self._regions)]["key"] = 0
            self.give("key", key)
        return region
