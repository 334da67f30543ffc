"""A program's side of its driver: what it asks of its node, and the time of its clock."""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.machine import OPERATION
from nicscope.drivers.simulate.yielding import coroutine
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from types import CodeType

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.programs import Simulation
    from nicscope.drivers.simulate.standings import Standings
    from nicscope.drivers.simulate.tasks import Task, Tasks


# Reads and writes single words several times faster than NumPy does.
OPERATION_STRUCT = struct.Struct(f"{len(OPERATION.names or ())}q")
HEAD = struct.Struct("q")  # the first of them, which says whose operation it is
_FOLLOW = (OPERATION.names or ()).index("time") * HEAD.size  # where a chain's length stands
_pack = OPERATION_STRUCT.pack
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
        self.program = "its program"  # its function's name, once there is one
        self.code: CodeType | None = None  # of that
        self.knows: Callable[[], list[str]] = list  # what the NIC knows of what it waits for
        self.lost: Callable[[], list[str]] = list  # and of what it has sent in vain
        self.unread: Callable[[], list[str]] = list  # and of what has come and was not received
        self.run: object = simulation
        self.head = HEAD.pack(number)  # of every request of its own

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
        before, behind = first[:_FOLLOW], first[_FOLLOW + HEAD.size :]
        return b"".join((before, HEAD.pack(len(requests) - 1), behind, *requests[1:]))

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

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> Task:
        """Have ``coroutine`` run as a task of this process from now on."""
        return self._simulation.spawn(self, coroutine)

    def drop(self, task: Task) -> bool:
        """Have ``task`` go no further; False if what it waits for is there by now."""
        return self._simulation.drop(task)

    def row_now(self) -> int:
        """Of whoever goes on now in the name of this process: its program, or a task."""
        task = self._simulation.tasks.now
        return self.number if task is None else task.row

    def catch_up(self) -> None:
        """The clock is the simulation's: another than the driver has had this go on."""
        self.now = self._simulation.now

    @property
    def standings(self) -> Standings:
        """Where all programs of the run stand."""
        return self._simulation

    @property
    def tasks(self) -> Tasks:
        """All of the run."""
        return self._simulation.tasks

    def wake(self) -> None:
        """Have every node look what it can begin: what one waits for was changed by a program."""
        self._simulation.all_look = True


def _fits(value: object) -> bool:
    """Whether a number can cross to the driver."""
    try:
        HEAD.pack(value)
    except struct.error:
        return False
    return True
