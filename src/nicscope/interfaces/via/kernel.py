"""What the kernel of one node keeps for all its processes: tags, regions, ports, VIs, requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.via.bells import Bell
from nicscope.interfaces.via.connections import Asked
from nicscope.interfaces.via.names import Return, VipError
from nicscope.interfaces.via.nic_room import NicRoom
from nicscope.interfaces.via.peers import Peerings
from nicscope.interfaces.via.tags import Tags

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.via.addresses import Region
    from nicscope.interfaces.via.endpoint import Endpoint


QUEUES_OF_PROCESS = 2  # one for bells (``bells``), one for notices (``notices``)
NEVER_FULL = 1 << 62


class Kernel:
    """Of node ``node``."""

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
        self.peers = Peerings()
        page = int(machine.ports.memory.config[0]["page_size"])
        self.room = NicRoom(machine, node, page) if postpones else None
        self.given_back = Bell()  # some memory is not registered any more
        self._ports = deque(range(processes + 1, ports.table.shape[1]))
        self._queues = deque(range(own, ports.work.queues.shape[1]))
        rows = len(self._regions)
        self._rows = deque(range(rows, 2 * rows))  # keys: the next of each row, never given again

    def number(self) -> int:
        """The next for a tag, a VI or a completion queue."""
        self._made += 1
        return self._made

    def take_port(self) -> int:
        """One for a VI.  Errors: ``VIP_ERROR_RESOURCE``."""
        return self._taken(self._ports, "VIs", "vis")

    def give_port(self, port: int) -> None:
        """It is nobody's; it comes again as late as possible."""
        self._ports.append(port)

    def take_queue(self) -> int:
        """A completion queue of the NIC's.  Errors: ``VIP_ERROR_RESOURCE``."""
        return self._taken(self._queues, "completion queues", "queues")

    def give_queue(self, queue: int) -> None:
        """It is nobody's."""
        self._queues.append(queue)

    def notices_of(self, process: int) -> int:
        """Which completion queue of the NIC's wakes that process for its handlers."""
        return self._notices[process]

    def take_key(self) -> int:
        """The key of a new region.  Errors: ``VIP_ERROR_RESOURCE``."""
        return self._taken(self._rows, "regions", "regions")

    def enter(self, region: Region, space: int, rights: int) -> None:
        """Have the NIC permit ``region`` to VIs of its tag."""
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

    def withdraw(self, key: int) -> Region | None:
        """The region of that key, which the NIC permits to nobody any more."""
        region = self.regions.pop(key, None)
        if region is not None:
            self._regions[key % len(self._regions)]["key"] = 0
            self.give_key(key)
        return region

    def give_key(self, key: int) -> None:
        """Its row may hold another region, of another key."""
        self._rows.append(key + len(self._regions))

    def _taken(self, free: deque[int], what: str, setting: str) -> int:
        if not free:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"node {self.node} has all its {what} in use; give the cluster more "
                f"({setting}=...)",
            )
        return free.popleft()
