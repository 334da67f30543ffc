"""Virtual interfaces, their work queues, and completion queues, as host and NIC know them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.names import Error, Reliability, State
from nicscope.interfaces.via.turns import Bell

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.interfaces.via.addresses import Region
    from nicscope.interfaces.via.descriptor import Descriptor
    from nicscope.interfaces.via.engine import Piece
    from nicscope.interfaces.via.firmware import Firmware
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.network import Frame
    from nicscope.interfaces.via.tables import Run
    from nicscope.interfaces.via.turns import Turns

CONNECTED = int(State.VIP_STATE_CONNECTED)
SEND_QUEUE = 0
RECEIVE_QUEUE = 1


class Work(msgspec.Struct, eq=False):
    """One posted descriptor on its way through the NIC."""

    vi: Vi
    queue: int
    descriptor: Descriptor
    token: int
    places: tuple[int, ...] = ()  # rooms for descriptor and message, if the CPU took them
    published: list[tuple[int, int]] | None = None  # (virtual address, bytes) that the CPU moved
    raw: NDArray[np.uint8] | None = None  # the message, once the NIC has taken what the CPU moved
    request: int | None = None  # its place on the NIC, from when it is read
    bad: bool = False  # the NIC cannot make sense of it
    journal: Journal | None = None
    read: bool = False  # by the NIC
    told: bool = False  # the completion is on its way, or there
    done: bool = False  # the host can see it
    delivery: Delivery | None = None  # received bytes that the host has yet to take


class Delivery(msgspec.Struct, eq=False):
    """A received message that the processor itself must bring to its place."""

    place: int
    runs: list[tuple[int, int, int]]  # place in NIC memory, host address, bytes
    bells: tuple[Bell, ...] = ()  # that its completion will ring
    collected: bool = False


class Attributes(msgspec.Struct, frozen=True):
    """Of a VI (``VIP_VI_ATTRIBUTES``)."""

    tag: int
    reliability: Reliability
    max_transfer: int
    rdma_write: bool
    rdma_read: bool


class Vi:
    """One end of a connection: a send queue and a receive queue."""

    def __init__(
        self,
        node: int,
        number: int,
        attributes: Attributes,
        queues: tuple[CompletionQueue | None, CompletionQueue | None],
        turns: Turns,
        firmware: Firmware,
    ) -> None:
        self.node = node
        self.number = number
        self.attributes = attributes
        # Whether an error breaks the connection.
        self.reliable = attributes.reliability != Reliability.VIP_SERVICE_UNRELIABLE
        self.peer: Vi | None = None
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

    @property
    def state(self) -> State:
        """As the NIC has it."""
        return State(int(self._firmware.states[self.place]))

    @state.setter
    def state(self, state: State) -> None:
        self._firmware.states[self.place] = state

    @property
    def connected(self) -> bool:
        """Whether there is another end."""
        return int(self._firmware.states[self.place]) == CONNECTED


class CompletionQueue:
    """A ring in registered memory where the NIC notes which work queue has a completion."""

    def __init__(self, number: int, region: Region, entries: int, turns: Turns) -> None:
        self.number = number
        self.region = region
        self.entries = entries
        self.written = 0
        self.read = 0
        self.users = 0  # work queues
        self.bell = Bell(turns)
