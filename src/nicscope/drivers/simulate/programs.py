"""Programs: coroutines on simulated nodes, resumed when what they wait for has ended.

A program is any coroutine that awaits the operations of its ``Process``.  There are no threads; the
compiled driver runs until an operation ends, and the processes whose operations ended at that time
go on in their order.  So a run depends on nothing but its inputs.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.running import RUNNING
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.bus.build import buffers_of
from nicscope.drivers.simulate.growth import go_on
from nicscope.drivers.simulate.machine import (
    ACCESS,
    AWAIT_QUEUE,
    AWAIT_SEND,
    COMPUTE,
    COPY,
    GIVE_UP,
    OPERATION,
    POST,
    PROVIDE,
    RECEIVE,
    REGISTER,
    REPORT,
    SEND,
    SLEEP,
    TRAP,
    UNPIN,
)
from nicscope.drivers.simulate.other_master import place_masters
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.store import new_store
from nicscope.errors import SimulationError
from nicscope.kernel.distant import link
from nicscope.kernel.entering import Switching, bound, portion

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.other_master import OtherMaster
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.fabric.topology import Topology

_ALL_LOOK = -1
_EVENTS_AT_ONCE = 1 << 22  # between two chances to be interrupted
_INTERPRETED_AT_ONCE = 1 << 12  # as compiled code is taken up between two calls only
_DOING = {
    SEND: "send",
    RECEIVE: "receive",
    COMPUTE: "compute",
    SLEEP: "sleep",
    COPY: "copy",
    POST: "post a descriptor",
    PROVIDE: "provide a buffer",
    REPORT: "hear of a port",
    AWAIT_QUEUE: "hear of a completion queue",
    REGISTER: "register memory",
    GIVE_UP: "deregister memory",
    UNPIN: "unpin memory",
    TRAP: "leave the kernel",
    AWAIT_SEND: "have the NIC done with a message",
    ACCESS: "access memory",
}


# Reads and writes single words several times faster than NumPy does.
_OPERATION = struct.Struct(f"{len(OPERATION.names or ())}q")
_HEAD = struct.Struct("q")  # the first of them, which says whose operation it is
_SIZE = _OPERATION.size
_FOLLOW = (OPERATION.names or ()).index("time") * _HEAD.size  # where a chain's length stands
_pack, _unpack_from = _OPERATION.pack, _OPERATION.unpack_from
Record = tuple[int, ...]  # the same fields as ``Ended``, in their order, and cheaper to make


class Ended(NamedTuple):
    """How an operation ended, as the compiled driver reports it: the fields of ``OPERATION``."""

    process: int
    operation: int
    time: int  # ps
    node: int
    peer: int  # sender of what was received
    packet: int  # number by its sender
    payload: int  # bytes
    tag: int
    address: int
    own: int
    duration: int


TIME, PEER, PACKET, ADDRESS, OWN = map(  # in a Record
    Ended._fields.index, ("time", "peer", "packet", "address", "own")
)
_ended = functools.partial(tuple.__new__, Ended)  # as Ended._make, at half its cost


class Process:
    """One coroutine on one node: what it can ask of its CPU and NIC, and the time of its clock."""

    def __init__(self, simulation: Simulation, number: int, node: int) -> None:
        self.node = node
        self.now = 0  # ps
        # The 128 bytes that the next send takes and the last receive left.
        self.control: NDArray[Any] = simulation.machine.store.control[number]
        self.control_bytes = memoryview(self.control)  # the same, read and written faster
        # The same of posts in a chain, from the second operation on.
        self.inlined: NDArray[Any] = simulation.machine.inlined[number]
        self._simulation = simulation
        self.number = number
        self.name = f"process {number} on node {node}"  # or as its interface calls it
        self.run: object = simulation
        self.head = _HEAD.pack(number)  # of every request of its own

    def request(
        self,
        operation: int,
        peer: int = 0,
        payload: int = 0,
        tag: int = 0,
        address: int = 0,
        duration: int = 0,
        packet: int = 0,
        own: int = 0,
        follow: int = 0,
    ) -> bytes:
        """What a coroutine yields to begin an operation; it is sent a ``Record`` of its end.

        It should then set ``now``.  The same request can be yielded again and again; ``follow``
        others of a chain are put behind it.
        Errors: ``SimulationError`` for what is no whole number of 64 bits.
        """
        try:
            return _pack(
                self.number, operation, follow, self.node, peer, packet, payload,
                tag, address, own, duration,
            )  # fmt: skip
        except struct.error:
            given = (peer, payload, tag, address, duration, packet, own)
            wrong = next((value for value in given if not _fits(value)), None)
            raise SimulationError(
                "an operation is of whole numbers of 64 bits; one of what was given is none: "
                f"{wrong!r:.60}"
            ) from None

    def chain(self, requests: Sequence[bytes]) -> bytes:
        """What a coroutine yields to begin operations one after the other; at most ``CHAIN``.

        It is sent a ``Record`` of the last one's end, or of that which was refused: then none
        behind it begins.  All but the last say no more than that they have ended.
        """
        first = requests[0]
        before, behind = first[:_FOLLOW], first[_FOLLOW + _HEAD.size :]
        return b"".join((before, _HEAD.pack(len(requests) - 1), behind, *requests[1:]))

    @coroutine
    def ask(
        self,
        operation: int,
        peer: int = 0,
        payload: int = 0,
        tag: int = 0,
        address: int = 0,
        duration: int = 0,
        packet: int = 0,
        own: int = 0,
    ) -> Generator[bytes, Record, Ended]:
        """Begin an operation now and wait for its end."""
        ended = _ended(
            (yield self.request(operation, peer, payload, tag, address, duration, packet, own))
        )
        self.now = ended.time
        return ended

    def attach(self, address: int) -> None:
        """Attach a payload buffer at ``address`` of the host's memory to the receive ring."""
        self._simulation.attach(self.node, address)

    def wake(self) -> None:
        """Have every node look what it can begin: what one waits for was changed by a program."""
        self._simulation.all_look = True


def _fits(value: object) -> bool:
    """Whether a number can cross to the driver."""
    try:
        _HEAD.pack(value)
    except struct.error:
        return False
    return True


class Simulation:
    """Programs on the nodes of one cluster."""

    def __init__(
        self,
        costs: Sequence[Mapping[str, int]],
        delivery: Delivery,
        topology: Topology,
        hosts: Sequence[int],
        host_bytes: int,
        tags: int = 0,
        keep_log: int = 0,
        ports: Ports | None = None,
        bus: Bus | None = None,
        masters: Sequence[OtherMaster] = (),
    ) -> None:
        """``hosts``: the node of each process, rising; ``host_bytes`` of memory per node.

        With ``ports``, whose paged memory is the hosts', their NICs serve those; with a ``bus``,
        before that memory or, without ports, its own, what they send and receive crosses it.
        """
        store = new_store(
            topology.nodes,
            len(hosts),
            host_bytes,
            (delivery.send_ring, delivery.receive_ring),
            (delivery.send_buffers, delivery.receive_buffers),
            delivery.max_payload,
            tags,
        )
        if ports is not None:
            store = store._replace(host=ports.memory.bytes)
        elif bus is not None:
            store = store._replace(host=bus.hosts.memory)
        if bus is not None:
            sent, received = buffers_of(bus, delivery)
            store = store._replace(send_buffers=sent, receive_buffers=received)
        self.delivery = delivery
        self.topology = topology
        self.machine = new_machine(
            costs,
            delivery,
            topology,
            store,
            keep_messages=0,
            keep_log=keep_log,
            hosts=hosts,
            ports=ports,
            bus=bus,
        )
        place_masters(self.machine.nodes, masters)
        self.machine.endpoints["attached"] = 0 if ports is None else 1
        if ports is not None or bus is not None:
            link(self.machine, FUNCTIONS)
        self._go_on = bound(advance, self.machine)
        # The same each time where compiled code is bound for good.
        self._most = 0 if isinstance(self._go_on, Switching) else _EVENTS_AT_ONCE
        self._outbox = self.machine.outbox.view(np.uint8).data
        self._inbox = self.machine.inbox.view(np.uint8).data
        self._ended = self.machine.tally["ended"].data
        self._wants = self.machine.tally["wants"].data
        self._attached = self.machine.endpoints["attached"].data
        self._ring = store.attached.data
        self._ring_tail = store.attached_tail.data
        self.processes = [Process(self, number, node) for number, node in enumerate(hosts)]
        self._running: dict[int, Coroutine[Any, Any, object]] = {}
        self.results: list[object] = [None] * len(hosts)
        self._deaths = [int(NEVER)] * topology.nodes
        if ports is not None:
            self._deaths = ports.deaths.nodes.tolist()
        self._first_death = min(self._deaths)
        self._is_mortal = self._first_death < int(NEVER)
        self.all_look = False  # before the next time

    @property
    def now(self) -> int:
        """Time (ps) of the last thing that happened."""
        return int(self.machine.tally[0]["now"])

    def attach(self, node: int, address: int) -> None:
        """Attach a payload buffer at ``address`` of the host's memory to the receive ring."""
        ring = self.delivery.receive_ring
        if self._attached[node] == ring:
            raise SimulationError(f"the receive ring of node {node} has all its {ring} buffers")
        tail = self._ring_tail[node]
        self._ring[node, tail % ring] = address
        self._ring_tail[node] = tail + 1
        self._attached[node] += 1

    def run(self, programs: Sequence[Coroutine[Any, Any, object]]) -> None:
        """Run one program per process to its end; what each returns is in ``results``.

        A program goes no further when its node has died, and returns None.
        Errors: ``SimulationError`` if all that are left wait for what cannot come.
        """
        begun: list[bytes] = []
        self._running = dict(enumerate(programs))
        at_rest = True
        before = RUNNING.program  # which runs this as a part of itself
        try:
            for number in range(len(programs)):
                self._resume(number, None, begun)
            while self._running:
                begun, at_rest = self._advance(begun, at_rest)
        finally:
            for number, program in enumerate(programs):
                RUNNING.program = self.processes[number]
                with contextlib.suppress(Exception):  # of what it does at its end
                    program.close()
            RUNNING.program = before
            self._running.clear()

    def _advance(self, begun: list[bytes], at_rest: bool) -> tuple[list[bytes], bool]:
        """Fire until something ends and let its processes go on; ``begun`` holds what they ask.

        With ``at_rest`` all nodes look first.  What they ask for now, and whether all should look
        before the next time: a program that has ended may have left something behind, and its node
        is not asked for anything.
        """
        asked = begun[0] if len(begun) == 1 else b"".join(begun)
        self._outbox[: len(asked)] = asked
        if at_rest or self.all_look:
            self.all_look = False
            self._go_on(_ALL_LOOK, 0)
            go_on(self._go_on, self.machine, self.topology, 0)
        most = self._most or portion(self._go_on, _EVENTS_AT_ONCE, _INTERPRETED_AT_ONCE)
        fired = self._go_on(len(begun), most)
        if self._wants[0]:
            fired += go_on(self._go_on, self.machine, self.topology, most - fired)
        begun = []
        ended = self._ended[0]
        if ended == 0 and fired < most:
            self._drop(int(NEVER) - 1)
            if not self._running:
                return begun, True
            raise SimulationError(self._stuck())
        if self._is_mortal:
            self._drop(self.now)
        if ended == 1:
            record = _unpack_from(self._inbox)
            if record[0] in self._running:
                self._resume(record[0], record, begun)
        else:
            for record in sorted(_OPERATION.iter_unpack(self._inbox[: ended * _SIZE])):
                if record[0] in self._running:
                    self._resume(record[0], record, begun)
        return begun, len(begun) < ended

    def _resume(self, number: int, ended: Record | None, begun: list[bytes]) -> None:
        RUNNING.program = process = self.processes[number]
        try:
            request = self._running[number].send(ended)
        except StopIteration as stop:
            self.results[number] = stop.value
            del self._running[number]
            return
        if type(request) is not bytes or not request.startswith(process.head):
            raise SimulationError(
                f"{process.name} awaits what is not its own: a program awaits the calls of what it "
                "was given, and nothing else"
            )
        begun.append(request)

    def _drop(self, now: int) -> None:
        """End the programs of nodes that are dead by ``now``."""
        if now < self._first_death:
            return
        for number in [*self._running]:
            if self._deaths[self.processes[number].node] <= now:
                RUNNING.program = self.processes[number]
                with contextlib.suppress(Exception):  # nobody hears of it
                    self._running.pop(number).close()

    def _stuck(self) -> str:
        waiting = [
            f"process {number} on node {self.processes[number].node} to "
            f"{_DOING[int(self.machine.processes[number]['operation'])]}"
            for number in self._running
        ]
        more = f" and {len(waiting) - 4} more" if len(waiting) > 4 else ""
        return (
            f"nothing more will happen after {self.now / 1e6:.3f} us, but programs wait: "
            f"{', '.join(waiting[:4])}{more}"
        )
