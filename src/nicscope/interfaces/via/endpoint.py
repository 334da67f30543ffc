"""What kernel agent and NIC keep of VIs and completion queues; programs hold ``vi``'s handles."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.announced import Announced
from nicscope.interfaces.via.names import Error, Reliability, State
from nicscope.interfaces.via.turns import Bell
from nicscope.interfaces.via.vi import CompletionQueue, Vi
from nicscope.nic.vimsg.layout import NOWHERE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.addresses import Buffer
    from nicscope.interfaces.via.descriptor import DataSegment, Descriptor
    from nicscope.interfaces.via.engine import Piece
    from nicscope.interfaces.via.firmware import Firmware
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.network import Frame
    from nicscope.interfaces.via.places import Descriptors
    from nicscope.interfaces.via.tables import Run
    from nicscope.interfaces.via.turns import Turns
    from nicscope.interfaces.via.vi import Attributes

CONNECTED = int(State.VIP_STATE_CONNECTED)
SEND_QUEUE = 0
RECEIVE_QUEUE = 1


class Work(msgspec.Struct, eq=False):
    """One posted descriptor on its way through the NIC."""

    vi: Endpoint
    queue: int
    descriptor: Descriptor  # the program's: it gets the outcome, and is not asked again
    token: int
    among: Descriptors  # where it lies
    data: tuple[DataSegment, ...]
    operation: int
    immediate: int
    places: tuple[int, ...] = ()  # rooms for descriptor and message, if the CPU took them
    published: list[tuple[int, int]] | None = None  # (virtual address, bytes) that the CPU moved
    raw: NDArray[np.uint8] | None = None  # the message, once the NIC has taken what the CPU moved
    request: int | None = None  # its place on the NIC, from when it is read
    bad: bool = False  # the NIC cannot make sense of it
    journal: Journal | None = None
    read: bool = False  # by the NIC
    flushed: bool = False  # the NIC is to do nothing more than to say so
    told: bool = False  # the completion is on its way, or there
    done: bool = False  # the host can see it
    noted: bool = False  # in a completion queue
    delivery: Delivery | None = None  # received bytes that the host has yet to take


class Delivery(msgspec.Struct, eq=False):
    """A received message that the processor itself must bring to its place."""

    place: int
    runs: list[tuple[int, int, int]]  # place in NIC memory, host address, bytes
    bells: tuple[Bell, ...] = ()  # that its completion will ring
    collected: bool = False


class Endpoint:
    """A VI: one end of a connection, a send queue and a receive queue."""

    def __init__(
        self,
        owner: Owner,
        node: int,
        number: int,
        attributes: Attributes,
        queues: tuple[Ring | None, Ring | None],
        turns: Turns,
        firmware: Firmware,
    ) -> None:
        self.owner = owner
        self.handle = Vi(self)  # as the program has it
        self.node = node
        self.number = number
        self.attributes = attributes
        # Whether an error breaks the connection.
        self.reliable = attributes.reliability != Reliability.VIP_SERVICE_UNRELIABLE
        self.peer: Endpoint | None = None  # while there is a connection
        self.epoch = 0  # of the connection, or of the last one
        self.completion_queues = queues
        self.posted: tuple[deque[Work], deque[Work]] = (deque(), deque())  # as the host knows
        self.addresses: set[int] = set()  # of their descriptors
        self.bells = (Bell(turns), Bell(turns))
        self.held: deque[Work] = deque()  # sends behind an RDMA read
        self.unsettled: deque[Frame] = deque()  # sent, or to be sent, and not acknowledged
        self.resend_at = 0  # ps: all of them, if there are any
        self.errors: list[Error] = []
        self.stream: list[Piece] | None = None  # of the message that goes to the host as it comes
        self.stream_runs: list[Run] = []
        self._firmware = firmware
        self.place = firmware.open_vi(attributes)  # on the NIC
        # By work queue: entries of its completion queue that were taken before their descriptors.
        self.announced = [0, 0]

    @property
    def state(self) -> State:
        """As the NIC has it."""
        if self.place == NOWHERE:
            return State.VIP_STATE_IDLE
        return State(int(self._firmware.states[self.place]))

    def _enter(self, state: State) -> None:
        """Be in that state from now on; for the kernel agent."""
        self._firmware.states[self.place] = state

    @property
    def connected(self) -> bool:
        """Whether there is another end."""
        return self.place != NOWHERE and int(self._firmware.states[self.place]) == CONNECTED

    def has(self, epoch: int) -> bool:
        """Whether the connection that began that epoch is still there."""
        return self.epoch == epoch and self.connected

    def close(self) -> None:
        """It is no more; its place on the NIC is another's from now on."""
        self._firmware.close_vi(self.place)
        self.place = NOWHERE


class Ring(Announced):
    """A completion queue: in registered memory the NIC notes which work queue has a completion."""

    def __init__(
        self, number: int, memory: Buffer, handle: int, entries: int, turns: Turns
    ) -> None:
        super().__init__(entries)
        self.handle = CompletionQueue(self)  # as the program has it
        self.number = number
        self.memory = memory
        self.address = memory.address
        self.region = handle  # of its registration
        self.users = 0  # work queues
        self.bell = Bell(turns)
