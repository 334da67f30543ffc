"""Trapeze endpoints: control messages of 128 bytes with an optional payload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.design import (
    CONTROL_BYTES,
    PAYLOAD_ALIGNMENT,
    Delivery,
    Policy,
    Way,
    policy_name,
)
from nicscope.config.platform import Platform, delivery_costs, load_platform, shadow_costs
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.bus.build import bus_of_endpoints
from nicscope.drivers.simulate.bus.state import Parameters, bytes_at_buses, machine_parameters
from nicscope.drivers.simulate.ports.reports import LATE
from nicscope.drivers.simulate.process import Process, Simulation
from nicscope.drivers.simulate.processor import OtherMaster
from nicscope.drivers.simulate.records import COMPUTE, COPY, RECEIVE, SEND, SLEEP
from nicscope.errors import SimulationError
from nicscope.fabric.topology import Topology, crossbar
from nicscope.interfaces.arguments import (
    LEAST,
    check_deaths,
    checked_faults,
    checked_topology,
    chosen_delivery,
    in_ps,
    node_count,
    one_of,
    shown,
    whole,
    with_named_options,
)
from nicscope.interfaces.buffers import Allocation, allocated, checked_range, settle_memory
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.programs import ProcessTasks, Programs, latest, timeout_error
from nicscope.interfaces.run_report import (
    Account,
    MachineRun,
    Names,
    NodeReport,
    Received,
    Sent,
    records_to_keep,
)
from nicscope.interfaces.trapeze_memory import (
    HostBuffer,
    HostMemories,
    Message,
    MessageNumber,
    Payloads,
    check_aligned,
    describe_rings,
    read_only,
    unclaimed_messages,
)
from nicscope.interfaces.ways import Combination, check_runs, way_named
from nicscope.memory_limit import check_memory, zeros
from nicscope.nic.coherent import NAMES as MECHANISMS
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.build import Faults

__all__ = ["NO_TAG", "Cluster", "Endpoint", "HostBuffer", "Message", "OtherMaster"]

NO_TAG = -1
_ZEROS = bytes(CONTROL_BYTES)
MOST_COPIED = 1 << 40  # bytes


class Counted:
    """Messages and bytes that one process has handed over and taken."""

    def __init__(self, node: int, process: int) -> None:
        self.node, self.process = node, process
        self.messages_out = self.bytes_out = 0
        self.messages_in = self.bytes_in = 0

    def sent(self, count: int) -> None:
        """A message with a payload of ``count`` bytes was handed over."""
        self.messages_out += 1
        self.bytes_out += count

    def received(self, count: int) -> None:
        """One was taken."""
        self.messages_in += 1
        self.bytes_in += count


class Endpoint(ProcessTasks):
    """One process's Trapeze endpoint; ``now_us`` is the time at which it last went on."""

    def __init__(self, cluster: Cluster, process: Process, number: int) -> None:
        assert cluster.simulation is not None
        self._cluster = cluster
        self._memories = cluster.memories
        self._process = self._sim_process = process
        self._control = process.control.data  # as sent and received last: the driver's
        self._outgoing = memoryview(bytearray(CONTROL_BYTES))  # the next one, as it is built
        self._memory = cluster.host_bytes(process.node)
        self._reserved = 0
        self.counted = Counted(process.node, number)
        name = f"process {number} of node {process.node}"
        self._owner = Owner(name, cluster.simulation, process)
        machine = cluster.simulation.machine
        process.knows = lambda: describe_rings(machine, process.node)
        finished = machine.endpoints["finished"].data
        self._payloads = Payloads(
            self._owner,
            process,
            machine,
            self._memory,
            finished,
            lambda address, count: self._memories.give_back(self.node, address, count),
        )

    def __repr__(self) -> str:
        return f"<Endpoint of {self._owner.place}, Trapeze>"

    def allocate(self, byte_count: int, align: int = PAYLOAD_ALIGNMENT) -> HostBuffer:
        """Fresh host memory at a multiple of ``align``, by default as DMA needs it.

        Errors: ``SimulationError`` when there is no more, or for an ``align`` no power of two.
        """
        self._owner.check_caller()
        begin, count = self._memories.allocate(self.node, byte_count, align)
        return allocated(HostBuffer, self._owner, self._payloads, begin, count)

    def map_payload(self, tag: int, buffer: HostBuffer) -> None:
        """Have payloads with ``tag`` go to ``buffer``: an entry of the incoming payload table.

        The entry is this process's from then on.  Errors: if it is another's.
        """
        self._owner.check_caller()
        address, count = checked_range(self._owner, self._payloads, buffer)
        self._memories.map_payload(self._owner, self.node, tag, address, count)

    def unmap_payload(self, tag: int) -> None:
        """Give the entry of ``tag`` back.  A message that has come in by then still goes there."""
        self._owner.check_caller()
        self._memories.unmap_payload(self._owner, self.node, tag)

    def reserve(self, byte_count: int) -> memoryview:
        """The next ``byte_count`` bytes of the outgoing control message (``tpz_reserve``).

        Each call goes on where the one before stopped; ``send`` takes what was reserved, whatever
        has come in between.
        """
        self._owner.check_caller()
        begin, end = self._reserved, self._reserved + whole(byte_count, "a number of bytes")
        if end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are reserved, "
                f"{byte_count} more do not fit"
            )
        self._reserved = end
        return self._outgoing[begin:end]

    async def send(
        self,
        destination: int,
        payload: HostBuffer | None = None,
        tag: int = NO_TAG,
        *,
        timeout_us: float | None = None,
    ) -> MessageNumber:
        """Hand the message over; its number.  Waits while the send ring is full.

        The NIC reads the payload later.  ``read()`` of the number waits until it has, as does
        ``sent``, and a ``write`` to the payload.  Errors: a payload that does not begin where DMA
        can.
        """
        self._owner.check_caller()
        if type(destination) is not int:
            whole(destination, "a destination, which comes first,", LEAST)
        address, count = 0, 0
        if payload is not None:
            address, count = checked_range(self._owner, self._payloads, payload)
            check_aligned(address, "a payload")
        to = self._cluster.check_send(self.node, destination, count)
        marked = tag if type(tag) is int else whole(tag, "a tag", NO_TAG)
        until = latest(self._process, timeout_us)
        self._control[: self._reserved] = self._outgoing[: self._reserved]
        self._control[self._reserved :] = _ZEROS[self._reserved :]
        ended = await self._process.ask(SEND, to, count, marked, address, until)
        if ended.own == LATE:
            raise timeout_error(self._process)  # what is reserved stays so
        self._reserved = 0
        self._payloads.note_sent(ended.packet, address, count)
        self.counted.sent(count)
        return self._payloads.sent(ended.packet)

    async def sent(self, number: int | None = None, *, timeout_us: float | None = None) -> None:
        """Wait until the NIC has done with message ``number``, by default the last one sent.

        Its payload may be overwritten then.  To see that takes no time of its own.
        """
        self._owner.check_caller()
        await self._payloads.wait_for(number, timeout_us)

    def is_sent(self, number: int) -> bool:
        """Whether the NIC has done with message ``number``."""
        return self._payloads.is_sent(number)

    async def receive(self, *, timeout_us: float | None = None) -> Message:
        """The next message, when it has come and been read.

        Errors: ``WaitTimeoutError`` if none has come for ``timeout_us``.
        """
        self._owner.check_caller()
        until = latest(self._process, timeout_us)
        ended = await self._process.ask(RECEIVE, address=until)
        if ended.own == LATE:
            raise timeout_error(self._process)
        self.counted.received(ended.payload)
        message = Message(ended, self._control.tobytes(), self._payloads)
        if message.own:
            return self._owner.give(message, ended.address)
        message._owner = self._owner  # it has no buffer of the ring to give back: no table keeps it
        if message.byte_count:
            self._payloads.note_mapped(message)
        return message

    def release(self, message: Message) -> None:
        """Attach the payload's buffer to the receive ring again; its bytes may then change."""
        self._owner.check_caller()
        if self._owner.has(message):
            address = self._owner.record_of(message, Message)
            self._owner.take_back(message, "released")
            message.own = False
            self._process.simulation.attach(self.node, address)
        elif self._lent(message):
            message._gone = "released"
        else:
            self._owner.refuse(message, Message)

    def keep(self, message: Message, instead: HostBuffer) -> HostBuffer:
        """Keep the payload's buffer, and attach ``instead`` to the receive ring in its place.

        ``instead`` is as it came from ``allocate`` and is the ring's from then on.  Errors: if it
        is too small, mapped under a tag, or still to be sent; or the payload lies where a tag says.
        """
        self._owner.check_caller()
        address, count = checked_range(self._owner, self._payloads, instead)
        held = self._owner.record_of(message, Message) if self._owner.has(message) else None
        if held is None and self._lent(message):
            raise SimulationError(
                "the payload of this message is in a buffer of the program's own: there is none "
                "off the receive ring to keep"
            )
        if held is None:
            self._owner.refuse(message, Message)
        _, begin, end = self._owner.record_of(instead.room, Allocation)
        if (address, count) != (begin, end - begin):
            raise SimulationError("a buffer for the ring is whole, as allocate() gave it")
        self._memories.check_free(self.node, address, count)
        self._payloads.check_read(address, count)
        self._owner.take_back(instead.room, "attached to the receive ring")
        self._owner.take_back(message, "kept")
        message.own = False
        self._process.simulation.attach(self.node, address)
        size = self._cluster.delivery.max_payload
        return allocated(HostBuffer, self._owner, self._payloads, held, size)

    def _lent(self, message: object) -> bool:
        """Whether it is a message of this process that need not be released."""
        if not isinstance(message, Message) or message._owner is not self._owner:
            return False
        return not message._gone and not message.own

    @property
    def overwritten(self) -> int:
        """Messages under tags whose payloads others overwrote before they were released."""
        self._owner.check_caller()
        return self._payloads.overwritten

    async def compute(self, microseconds: float) -> None:
        """Keep the CPU busy."""
        self._owner.check_caller()
        await self._process.ask(COMPUTE, duration=in_ps(microseconds, self._process.now))

    async def sleep(self, microseconds: float) -> None:
        """Leave the CPU to others for a while."""
        self._owner.check_caller()
        await self._process.ask(SLEEP, duration=in_ps(microseconds, self._process.now))

    async def copy(self, byte_count: int) -> None:
        """Copy memory with the CPU, which competes with DMA for it."""
        self._owner.check_caller()
        count = whole(byte_count, "a copy's number of bytes", 1, MOST_COPIED)
        await self._process.ask(COPY, payload=count)


class PagePool:
    """A host's free page frames, each of which holds the largest payload."""

    def __init__(self, endpoint: Endpoint, frames: int, page_bytes: int) -> None:
        """Allocate ``frames`` of ``page_bytes``, a power of two, at multiples of it."""
        count = whole(frames, "a number of frames", 1)
        self.page_bytes = page_bytes
        self.endpoint = endpoint
        self._free = [endpoint.allocate(page_bytes, align=page_bytes) for _ in range(count)]

    def __len__(self) -> int:
        """Frames that are free."""
        return len(self._free)

    def take(self) -> HostBuffer:
        """A free frame.  Errors: ``SimulationError`` when there is none."""
        if not self._free:
            raise SimulationError("the page pool has no free frame; give one back, or make more")
        return self._free.pop()

    def give_back(self, frame: HostBuffer) -> None:
        """``frame`` is free again."""
        if len(frame) != self.page_bytes or any(frame is each for each in self._free):
            raise SimulationError("what is given back is a whole frame, and not free already")
        self._free.append(frame)

    def keep(self, message: Message) -> HostBuffer:
        """The frame in which the payload lies; a free one takes its place in the receive ring."""
        instead = self.take()
        try:
            return self.endpoint.keep(message, instead)
        except SimulationError:
            self._free.append(instead)
            raise


class PageMap:
    """A process's buffer of whole pages, into which what has come is mapped or copied.

    Mapping takes no time of its own: the paper prints none.
    """

    def __init__(self, pool: PagePool, pages: int) -> None:
        self._pool = pool
        self._frames = [pool.take() for _ in range(whole(pages, "a number of pages", 1))]
        self.mapped = 0  # payloads
        self.copied = 0

    def content(self) -> bytes:
        """What the process reads, page after page."""
        return b"".join(frame.bytes.tobytes() for frame in self._frames)

    def close(self) -> None:
        """Give all frames to the pool: there are no pages any more."""
        while self._frames:
            self._pool.give_back(self._frames.pop())

    async def put(self, message: Message, offset: int) -> bool:
        """Have the payload at byte ``offset``; whether it could be mapped.

        It can if it is a whole page and goes to a whole page: the frame in which it lies takes the
        place of the one that was there, which goes to the pool.  Else the CPU copies it, and its
        frame goes back to the ring.  Errors: what is not within the pages.
        """
        page_bytes = self._pool.page_bytes
        count, begin = message.byte_count, whole(offset, "an offset")
        if begin + count > page_bytes * len(self._frames):
            raise SimulationError(
                f"bytes {begin} to {begin + count} are not in {len(self._frames)} pages of "
                f"{page_bytes}"
            )
        if message.own and count == page_bytes and begin % page_bytes == 0:
            page = begin // page_bytes
            before, self._frames[page] = self._frames[page], self._pool.keep(message)
            self._pool.give_back(before)
            self.mapped += 1
            return True
        await self._copy(message, begin)
        self.copied += 1
        return False

    async def _copy(self, message: Message, begin: int) -> None:
        content = message.payload.tobytes()
        if content:
            await self._pool.endpoint.copy(len(content))
        page_bytes = self._pool.page_bytes
        done = 0
        while done < len(content):
            page, at = divmod(begin + done, page_bytes)
            count = min(len(content) - done, page_bytes - at)
            await self._frames[page].write(content[done : done + count], at)
            done += count
        self._pool.endpoint.release(message)


class TrapezeRun(MachineRun):
    """A run on NICs whose only client is the endpoint library."""

    def __init__(self, machine: Machine, names: Names, counted: Sequence[Counted]) -> None:
        """``counted``: by process, what it has handed over and taken."""
        super().__init__(machine, names)
        self._counted = counted

    def endpoints(self) -> list[Account]:
        """What was done for each process, which has one endpoint."""
        return [
            Account(
                node=one.node,
                process=one.process,
                messages_out=one.messages_out,
                messages_in=one.messages_in,
                bytes_out=one.bytes_out,
                bytes_in=one.bytes_in,
                requests={},
                sent=Sent(total=one.messages_out, first=one.messages_out),
            )
            for one in self._counted
        ]

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""
        return [self._node(n) for n in range(len(self._machine.arrivals))]

    def _node(self, n: int) -> NodeReport:
        endpoint, node = self._machine.endpoints[n], self._machine.nodes[n]
        written, finished, shown, came = (
            int(endpoint[name]) for name in ("written", "finished", "shown", "accepted")
        )
        lost, corrupted, cut_off = (int(node[why]) for why in ("lost", "corrupted", "cut_off"))
        inbox, first = self._machine.inboxes[n], int(endpoint["read"])
        # Payload that is in the host's memory and of which no program has heard.
        unread = sum(int(inbox[i % len(inbox)]["payload"]) for i in range(first, shown))
        return NodeReport(
            **self._engines(n),
            messages_out=written,
            messages_in=shown,
            bytes_out=int(node["written_bytes"]),
            bytes_in=int(node["received_bytes"]) + unread,
            requests={"done": finished} if finished else {},
            open_requests=written - finished,
            sent=Sent(total=written, first=written, **self._made(n)),
            received=Received(
                total=came,
                delivered=shown,
                lost=lost,
                corrupted=corrupted,
                cut_off=cut_off,
                broken_off=int(endpoint["dropped"]) - lost - corrupted - cut_off,
                unfinished=came - int(endpoint["completed"]),
            ),
        )


_LARGEST = 1 << 30  # bytes of a payload


class Cluster(Programs[Endpoint]):
    """Hosts on one switch, each with a Trapeze NIC, and programs on them."""

    interface = "Trapeze"
    given = "endpoint"

    @with_named_options()
    def __init__(
        self,
        platform: str | Path | Platform | Sequence[str | Path | Platform],
        *,
        nodes: int = 2,
        policy: str | Delivery = "adaptive",
        delivery: str | Delivery | None = None,
        max_payload: int | None = None,
        topology: Topology | None = None,
        delay: str | None = None,
        shadow: bool = False,
        host_bytes: int = 1 << 22,
        tags: int = 64,
        keep_log: int = 0,
        way: str = "pci",
        masters: Sequence[OtherMaster] = (),
        faults: Faults | None = None,
    ) -> None:
        """``platform`` is one of the catalog that states what delivery costs, or one per node.

        ``delivery``, or ``policy``: when bytes go on, by a name of ``docs/virtual-time.md``.

        ``max_payload``: bytes, usually a page of 4 or 8 KB; by default what ``policy`` says.

        ``delay``: how long a packet propagates between two nodes, such as ``"40ms"``.

        ``way``: how payloads cross between hosts and NICs, one of docs/ways.md.

        ``masters``: of the hosts' I/O buses, which each hold for a part of every period.

        ``faults``: losses, damage and deaths on the network; Trapeze sends nothing again, so what
        is lost is not received, and its sender does not hear of it (docs/virtual-time.md).

        With ``shadow``, control messages are built and read in host memory and cross the bus in
        bursts, where the platform has them; else the program's own loads and stores cross it.
        Errors: ``PlatformError``, ``SimulationError`` naming what is not there.
        """
        super().__init__()
        self.delivery = chosen_delivery(delivery, policy, "adaptive")
        if max_payload is not None:  # minpulse stays within it
            largest = whole(max_payload, "max_payload", 1, _LARGEST)
            self.delivery = msgspec.structs.replace(
                self.delivery,
                max_payload=largest,
                minpulse_send=min(largest, self.delivery.minpulse_send),
                minpulse_receive=min(largest, self.delivery.minpulse_receive),
            )
        self._host_bytes = whole(host_bytes, "host_bytes", 0)
        self._tags = whole(tags, "tags", 0)
        self._keep_log = records_to_keep(keep_log)
        self._parameters: Parameters | None = None
        if topology is None:
            node_count(nodes)
        given = None if topology is None else checked_topology(topology)
        self._check_room(nodes if given is None else given.nodes, nodes)
        self.topology = checked_topology(crossbar(nodes) if given is None else given, delay)
        priced = _platforms(platform, self.topology.nodes)
        self.way = way_named(way)
        cuts_through = self.delivery.policy == Policy.CUT_THROUGH
        for each in {one.name: one for one in priced}.values():
            check_runs(Combination(self.interface, each, self.way, cuts_through=cuts_through))
        cost_of = shadow_costs if shadow else delivery_costs
        self._costs = [cost_of(each) for each in priced]
        self._platform = " and ".join(dict.fromkeys(each.name for each in priced))
        self._masters = _checked_masters(masters, self.topology.nodes, self.way)
        self._faults = _checked_faults(checked_faults(faults), self.topology.nodes)
        if self.way != Way.PCI:
            if len({each.name for each in priced}) > 1:
                raise SimulationError(
                    "nodes at a memory bus are all of one platform; name one, or take way 'pci'"
                )
            self._parameters = machine_parameters(priced[0])
        self.memories = self._new_memories()
        self._counted: list[Counted] = []  # by process

    def _names(self) -> Names:
        return Names(
            interface=self.interface,
            way=self.way.value,
            delivery=policy_name(self.delivery),
            platform=self._platform,
        )

    def _check_room(self, nodes: int, programs: int) -> None:
        """Refuse a cluster that has no room, before anything of it is made."""
        need = machine_bytes(
            self.delivery,
            nodes,
            programs,
            host_bytes=self._host_bytes,
            tags=self._tags,
            keep_log=self._keep_log,
        )
        if self._parameters is not None:
            need += bytes_at_buses(nodes, self._parameters.host, self._parameters.nic, 64)
        advice = "ask for fewer nodes, less host_bytes, or fewer tags or records of the log"
        check_memory(need, f"a cluster of {nodes:,} nodes", advice)

    def _made(self, hosts: Sequence[int]) -> tuple[Simulation, list[Endpoint]]:
        self.memories = self._new_memories()
        rows = len(hosts) + sum(self._rooms)
        self._check_room(self.topology.nodes, rows)
        bus = None
        if self._parameters is not None:
            memory = zeros((self.topology.nodes, self._host_bytes), np.dtype(np.uint8))
            mechanism = MECHANISMS[self.way]
            bus = bus_of_endpoints(self._parameters, mechanism, self.delivery, memory, rows)
        simulation = Simulation(
            self._costs,
            self.delivery,
            self.topology,
            hosts,
            self._host_bytes if bus is None else 0,
            self._tags,
            self._keep_log,
            bus=bus,
            masters=self._masters,
            faults=self._faults,
            tasks=self._rooms,
        )
        simulation.unclaimed = lambda: unclaimed_messages(
            simulation.machine, simulation.has_running_program
        )
        self.simulation = simulation
        self.memories.store = simulation.machine.store
        for node in range(self.topology.nodes):
            for _ in range(self.delivery.receive_ring):
                address, _ = self.memories.allocate(node, self.delivery.max_payload)
                simulation.attach(node, address)
        endpoints = [
            Endpoint(self, process, place - hosts.index(process.node))
            for place, process in enumerate(simulation.processes)
        ]
        self._counted = [endpoint.counted for endpoint in endpoints]
        return simulation, endpoints

    def _source(self) -> TrapezeRun:
        return TrapezeRun(self._ran().machine, self._names(), self._counted)

    @TrimmedTraceback()
    def memory(self, node: int) -> NDArray[Any]:
        """All bytes of a host's memory, uint8, to be read."""
        memory = self.host_bytes(self._node(node))
        settle_memory(self._ran().machine, node, 0, len(memory))
        return read_only(memory[:])

    def host_bytes(self, node: int) -> NDArray[Any]:
        """The same, as endpoints and the NIC change them."""
        bytes_of_host: NDArray[Any] = self._ran().machine.store.host[node]
        return bytes_of_host

    def _new_memories(self) -> HostMemories:
        return HostMemories(
            self.topology.nodes, self._host_bytes, self._tags, self.delivery.max_payload
        )

    def check_send(self, node: int, destination: object, count: int) -> int:
        """The destination.  Errors: ``SimulationError`` for what no endpoint could send."""
        to = destination if type(destination) is int else whole(destination, "a destination", LEAST)
        if (node, to) not in self.topology.paths:
            self._node(to)
            raise SimulationError(f"no path from node {node} to node {to}: name another node")
        if count > self.delivery.max_payload:
            raise SimulationError(
                f"payload must be at most {self.delivery.max_payload} bytes, got {count}; the "
                "cluster's max_payload sets that"
            )
        return to


def _checked_masters(
    masters: Sequence[OtherMaster], nodes: int, way: Way
) -> tuple[OtherMaster, ...]:
    """``masters`` as a cluster can have them.  Errors: ``SimulationError``."""
    if not isinstance(masters, list | tuple):
        raise SimulationError(f"masters is a list of OtherMaster, not {shown(masters)}")
    if masters and way != Way.PCI:
        raise SimulationError(
            f"other masters hold an I/O bus, and way {way.value!r} has the NIC at the memory bus, "
            "whose masters take turns block by block; leave masters out, or way"
        )
    for each in masters:
        one_of(OtherMaster, each, "each of masters", "(node=0, ...)").check(nodes)
    return tuple(masters)


def _checked_faults(faults: Faults, nodes: int) -> Faults:
    """``faults`` that can befall a packet which holds its whole path.  Errors: others."""
    if faults.duplication or faults.reordering:
        raise SimulationError(
            "a packet of Trapeze holds its path to its last byte: none is doubled or overtaken; "
            "leave duplication and reordering out of faults"
        )
    check_deaths(faults, nodes)
    return faults


def _platforms(
    given: str | Path | Platform | Sequence[str | Path | Platform], nodes: int
) -> list[Platform]:
    """The platform of each node.  Errors: ``PlatformError``, ``SimulationError``."""
    if isinstance(given, str | Path):
        given = load_platform(given)
    if isinstance(given, Platform):
        return [given] * nodes
    if len(given) != nodes:
        raise SimulationError(
            f"{len(given)} platforms for {nodes} nodes; name one for all, or one per node"
        )
    return [each if isinstance(each, Platform) else load_platform(each) for each in given]
