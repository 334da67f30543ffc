"""VI-KA, the kernel agent of a node: protection tags, registered memory, VIs, host names."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.ports.posting import POLL
from nicscope.drivers.simulate.records import GIVE_UP, REGISTER, REPORT
from nicscope.errors import SimulationError
from nicscope.host.calls import deregister_pages
from nicscope.interfaces.buffers import allocated, checked_range
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.via.connections import Asked, Connections, PeerRequests, WakeupList
from nicscope.interfaces.via.descriptor import PendingDescriptors, Region, whole
from nicscope.interfaces.via.names import Return, State, VipError
from nicscope.interfaces.via.vi import RECEIVE_QUEUE, SEND_QUEUE, Endpoint, Ring
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import (
    DONE,
    IDLE,
    MAY_FETCH,
    MAY_WRITE,
    NOBODY,
    STATUS_NAMES,
    WORK_QUEUE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.buffers import MemoryRange
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.program import Process
    from nicscope.interfaces.via.vi import Attributes


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


class Space:
    """The address space of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._page = process._memory.page_size
        self._pinned: dict[int, int] = {}  # how often each page is registered
        self._given_back: dict[int, list[int]] = {}  # addresses, by pages

    def allocate(self, owner: Owner, count: int) -> Buffer:
        """Allocate whole pages.  Errors: ``VIP_ERROR_RESOURCE``."""
        pages = max(-(-count // self._page), 1)
        again = self._given_back.get(pages)
        if again:
            address = again.pop()
        else:
            try:
                address = self._process.allocate(max(count, 1)).address
            except SimulationError as error:
                raise VipError(Return.VIP_ERROR_RESOURCE, str(error)) from None
        return allocated(Buffer, owner, self._process, address, count)

    def free_buffer(self, owner: Owner, buffer: Buffer) -> None:
        """Free a buffer that nothing uses any more."""
        owner.take_back(buffer.room, "given back")
        pages = max(-(-buffer.length // self._page), 1)
        self._given_back.setdefault(pages, []).append(buffer.address)

    def note_pins(self, address: int, length: int, change: int) -> None:
        """Count a registration of the pages of a range, or take one back."""
        size = self._page
        for page in range(address // size, (address + length - 1) // size + 1):
            left = self._pinned.get(page, 0) + change
            if left:
                self._pinned[page] = left
            else:
                del self._pinned[page]

    def unregistered(self, address: int, length: int) -> int:
        """How many pages of the range are not registered."""
        size = self._page
        pages = range(address // size, (address + length - 1) // size + 1)
        return sum(page not in self._pinned for page in pages)

    def holds(self, address: int, count: int) -> bool:
        """Whether all of the range is allocated to the process."""
        return 0 <= address <= self._process._next_page * self._page - count

    def is_pinned(self, address: int, count: int) -> bool:
        """Whether the range lies in one registered page: an access cannot fault."""
        if type(address) is not int or type(count) is not int or count < 0:
            return False
        size = self._page
        return address % size + count <= size and address // size in self._pinned


def rights_of(*, rdma_write: bool, rdma_read: bool) -> int:
    """The remote access rights of memory attributes, as the NIC encodes them."""
    return MAY_WRITE * rdma_write | MAY_FETCH * rdma_read


@kernel
def _deregister(machine: Any, n: int, p: int, address: int, length: int) -> None:
    deregister_pages(machine, n, p, address, length)


class Agent(Connections):
    """The kernel agent of a node, as one of its processes calls it."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.space = Space(process)
        self.words = PendingDescriptors()
        self.opened = 0  # NICs that the process has open
        self.kernel = self.cluster.kernels[self.node]
        assert self.cluster.simulation is not None
        self._deregister = bound(_deregister, self.cluster.simulation.machine)

    # --- protection and memory -----------------------------------------------------------

    def create_tag(self, owner: Owner) -> int:
        """Create a protection tag for a process."""
        return self.kernel.tags.make(owner, self.kernel.number())

    def destroy_tag(self, owner: Owner, tag: object) -> None:
        """Destroy a tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        self.kernel.tags.forget(owner, tag, self._is_in_use)

    def close_nic(self, owner: Owner) -> None:
        """Close one of the process's open NICs.  Errors: ``VIP_ERROR_RESOURCE``."""
        if self.opened == 1:
            left = {
                "VIs": sum(vi.owner is owner for vi in self.vis),
                "protection tags": len(self.kernel.tags.of(owner)),
            }
            found = [f"{count} {what}" for what, count in left.items() if count]
            if found:  # queues and registered memory have a tag
                raise VipError(
                    Return.VIP_ERROR_RESOURCE,
                    f"{owner.name} has {' and '.join(found)} there; destroy them first",
                )
        self.opened -= 1

    def change_region(self, region: Region, tag: int, *, rdma_write: bool, rdma_read: bool) -> None:
        """Change the attributes of registered memory in the NIC's table."""
        for name, value in (("tag", tag), ("rdma_write", rdma_write), ("rdma_read", rdma_read)):
            object.__setattr__(region, name, value)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        self.kernel.enter(region, self.process.number, rights)

    def _is_in_use(self, tag: int) -> bool:
        regions = self.kernel.regions.values()
        return any(one.tag == tag for one in regions) or any(
            vi.attributes.tag == tag for vi in self.vis
        )

    def checked_tag(self, owner: Owner, tag: object, code: Return) -> int:
        """Return the tag if it is the process's; else raise ``code``."""
        return self.kernel.tags.known(owner, tag, code)

    async def register(
        self, owner: Owner, buffer: MemoryRange, tag: object, *, rdma_write: bool, rdma_read: bool
    ) -> Region:
        """Pin a buffer and let the tag's VIs access it."""
        known = self.checked_tag(owner, tag, Return.VIP_INVALID_PTAG)
        address, length = checked_range(owner, self.process, buffer)
        if length < 1:
            raise VipError(
                Return.VIP_INVALID_PARAMETER, "0 bytes are not registered; give it a buffer of 1"
            )
        await self._await_room(address, length)
        key = self.kernel.allocate_key()
        ended = await self.process.ask(
            REGISTER, peer=self.process.port, address=address, payload=length
        )
        if ended.address != DONE:
            self.kernel.free_key(key)
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"{length} bytes cannot be pinned: {STATUS_NAMES[ended.address]}",
            )
        region = Region(key, self.node, address, length, known, rdma_write, rdma_read)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        self.kernel.enter(region, self.process.number, rights)
        self.space.note_pins(address, length, 1)
        return region

    async def deregister(self, handle: int) -> None:
        """Deregister memory.  Errors: ``VIP_INVALID_PARAMETER``."""
        await self.process.settle()
        region = self.kernel.remove_region(handle)
        if region is None:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"no registered memory {handle}")
        address, length = region.address, region.length
        self.space.note_pins(address, length, -1)
        await self.process.ask(GIVE_UP, peer=self.process.port, address=address, payload=length)
        self._deregister(self.node, self.process.port, address, length)
        self.kernel.given_back.ring()

    async def _await_room(self, address: int, length: int) -> None:
        """Wait until the NIC has free entries for the pages, if registration is to be postponed."""
        room = self.kernel.room
        if room is None:
            return
        if self.space.unregistered(address, length) > room.most:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"the NIC has room for {room.most} registered pages, never for {length} bytes",
            )
        while self.space.unregistered(address, length) > room.left:
            await self.kernel.given_back.hear(self.process, None)

    # --- virtual interfaces --------------------------------------------------------------

    @property
    def vis(self) -> Sequence[Endpoint]:
        """The VIs of the node."""
        return self.kernel.vis

    def create_vi(
        self,
        owner: Owner,
        attributes: Attributes,
        send_queue: Ring | None,
        receive_queue: Ring | None,
    ) -> Endpoint:
        """Create an idle VI with such attributes, which are checked."""
        self.checked_tag(owner, attributes.tag, Return.VIP_INVALID_PTAG)
        port = self.kernel.allocate_port()
        where = self.node, self.kernel.number(), port
        vi = Endpoint(owner, where, attributes, (send_queue, receive_queue), self._ports)
        self._open(port, attributes, (send_queue, receive_queue))
        self.process._note_port(port, f"VI {where[1]}")
        vi.questions = self._question(port, SEND_QUEUE), self._question(port, RECEIVE_QUEUE)
        self.kernel.vis.append(vi)
        for queue in (send_queue, receive_queue):
            if queue is not None:
                queue.users += 1
                queue.known[port] = vi
        return vi

    def _question(self, port: int, queue: int) -> bytes:
        own = self.process._mapped[port] | queue | POLL << 1
        return self._sim_process.request(REPORT, port, own=own)

    def _open(
        self, port: int, attributes: Attributes, queues: tuple[Ring | None, Ring | None]
    ) -> None:
        """Bind ``port`` of the NIC to a VI of this process."""
        record = self._ports.table[self.node, port]
        record["given"] += record["takes"] == WORK_QUEUE  # else it is new
        record["reaped"] = record["reported"]
        record["read"] = record["reserved"] = record["received"]
        self.process._map_port(port)
        send, receive = (NOBODY if queue is None else queue.place for queue in queues)
        for name, value in (
            ("takes", WORK_QUEUE),
            ("state", IDLE),
            ("channel", NOBODY),
            ("send_queue", send),
            ("receive_queue", receive),
            ("async_errors", 0),
            ("notices", 0),
        ):
            record[name] = value
        self._tell_attributes(port, attributes)

    def _tell_attributes(self, port: int, attributes: Attributes) -> None:
        """Write a VI's attributes into the NIC's port."""
        record = self._ports.table[self.node, port]
        rights = rights_of(rdma_write=attributes.rdma_write, rdma_read=attributes.rdma_read)
        for name, value in (
            ("level", int(attributes.reliability)),
            ("domain", attributes.tag),
            ("rights", rights),
            ("longest", attributes.max_transfer),
        ):
            record[name] = value

    def change_vi(self, vi: Endpoint, attributes: Attributes) -> None:
        """Change the attributes, which are checked, of an idle VI."""
        self._check_state(vi, State.VIP_STATE_IDLE)
        vi.attributes = attributes
        self._tell_attributes(vi.place, attributes)

    def destroy_vi(self, vi: Endpoint) -> None:
        """Errors: ``VIP_INVALID_STATE`` unless idle, ``VIP_ERROR_RESOURCE`` with descriptors."""
        if vi.state is not State.VIP_STATE_IDLE:
            raise VipError(
                Return.VIP_INVALID_STATE, f"VI {vi.number} is in {vi.state.name}; disconnect it"
            )
        if any(vi.posted):
            raise VipError(
                Return.VIP_ERROR_RESOURCE, f"VI {vi.number} has descriptors posted or not taken"
            )
        self.kernel.vis.remove(vi)
        port = vi.place
        for queue in vi.completion_queues:
            if queue is not None:
                queue.hear()
                queue.users -= 1
        vi.close()
        self._ports.table[self.node, port]["open"] = 0
        self.process._on_port_reassigned(port)
        self.kernel.free_port(port)

    def create_completion_queue(self, memory: Buffer, handle: int, entries: int) -> Ring:
        """Create a completion queue in registered memory."""
        self.check_entries(entries)
        place, number = self.kernel.allocate_queue(), self.kernel.number()
        record: Any = self._ports.work.queues[self.node, place]
        record["open"], record["entries"] = 1, entries
        record["written"] = record["shown"] = record["read"] = record["notices"] = 0
        where = self.node, number, place
        return Ring(where, memory, handle, entries, self._ports)

    def check_entries(self, entries: int) -> None:
        """Errors: ``VIP_ERROR_RESOURCE`` if no completion queue of the NIC has so many."""
        most = self._ports.work.entries.shape[2]
        if entries > most:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"a completion queue has up to {most} entries, got {entries}; give the cluster "
                "more (PortSize(entries=...))",
            )

    def resize_completion_queue(self, queue: Ring, entries: int) -> bool:
        """Resize a completion queue; False if it holds more entries than that."""
        queue.hear()
        record: Any = self._ports.work.queues[self.node, queue.place]
        if int(record["written"]) - queue.read > entries:
            return False
        record["entries"] = queue.entries = entries
        return True

    def destroy_completion_queue(self, queue: Ring) -> None:
        """Destroy a completion queue, which nobody waits for any more."""
        self._ports.work.queues[self.node, queue.place]["open"] = 0
        self.kernel.free_queue(queue.place)


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
        self._notices = range(processes, own)  # by process
        self.peers = PeerRequests()
        page = int(machine.ports.memory.config[0]["page_size"])
        self.room = RegistrationLimit(machine, node, page) if postpones else None
        self.given_back = WakeupList()  # some memory is not registered any more
        self._ports = deque(range(processes + 1, ports.table.shape[1]))
        self._queues = deque(range(own, ports.work.queues.shape[1]))
        rows = len(self._regions)
        self._rows = deque(range(rows, 2 * rows))  # keys: the next of each row, never given again

    def number(self) -> int:
        """The next number for a tag, a VI or a completion queue."""
        self._made += 1
        return self._made

    def allocate_port(self) -> int:
        """Allocate a port for a VI.  Errors: ``VIP_ERROR_RESOURCE``."""
        return self._taken(self._ports, "VIs", "vis")

    def free_port(self, port: int) -> None:
        """Free a port, which is reused as late as possible."""
        self._ports.append(port)

    def allocate_queue(self) -> int:
        """Allocate a completion queue of the NIC.  Errors: ``VIP_ERROR_RESOURCE``."""
        return self._taken(self._queues, "completion queues", "queues")

    def free_queue(self, queue: int) -> None:
        """Free a completion queue of the NIC."""
        self._queues.append(queue)

    def completion_queue_of(self, process: int) -> int:
        """The NIC's completion queue that wakes a process for its handlers."""
        return self._notices[process]

    def allocate_key(self) -> int:
        """Allocate the key of a new region.  Errors: ``VIP_ERROR_RESOURCE``."""
        return self._taken(self._rows, "regions", "regions")

    def enter(self, region: Region, space: int, rights: int) -> None:
        """Add ``region`` to the NIC's table for the VIs of its tag."""
        record = self._regions[region.handle % len(self._regions)]
        for name, value in (
            ("key", region.handle),
            ("space", space),
            ("domain", region.tag),
            ("address", region.address),
            ("length", region.length),
            ("rights", rights),
        ):
            record[name] = value
        self.regions[region.handle] = region

    def remove_region(self, key: int) -> Region | None:
        """Remove the region of that key from the NIC's table."""
        region = self.regions.pop(key, None)
        if region is not None:
            self._regions[key % len(self._regions)]["key"] = 0
            self.free_key(key)
        return region

    def free_key(self, key: int) -> None:
        """Free a key's row for another region, of another key."""
        self._rows.append(key + len(self._regions))

    def _taken(self, free: deque[int], what: str, setting: str) -> int:
        if not free:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"node {self.node} has all its {what} in use; give the cluster more "
                f"({setting}=...)",
            )
        return free.popleft()


def names_of(
    given: Mapping[str, int | Sequence[int]] | None, nodes: int
) -> dict[str, tuple[int, ...]]:
    """Nodes of each host name, in order.  Errors: ``SimulationError`` for what is no node."""
    if given is None:
        return {f"node{node}": (node,) for node in range(nodes)}
    if not isinstance(given, Mapping):
        raise SimulationError(f"names: {{'server': 0, ...}} is needed, not {given!r:.60}")
    names = {}
    for name, meant in given.items():
        each = (meant,) if isinstance(meant, int) else tuple(meant)
        for node in each:
            if type(node) is not int or not 0 <= node < nodes:
                raise SimulationError(
                    f"names: {name!r} is node {node!r}, but nodes are 0 to {nodes - 1}"
                )
        if not name or not each:
            raise SimulationError(f"names: {name!r} needs letters, and at least one node")
        names[name] = each
    return names
