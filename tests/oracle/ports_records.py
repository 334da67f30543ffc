"""What the twin of ports keeps: descriptors, packets, ports, processes, hosts, and their words."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from oracle.delivery_records import Message, Node

TIMER = 7  # kind, after those of ``delivery``
SEND, WRITE, FETCH, REPLY, ACK, PROBE, BACK, CUT = 1, 2, 3, 4, 5, 6, 7, 8  # operations
NO_NAME = -1
INLINE_BYTES = 64
DONE, CLOSED, NO_TAG, NO_BUFFER = "done", "closed", "tag not registered", "no such buffer"
OUT_OF_BOUNDS, NO_RIGHTS, BAD, REJECTED = (
    "out of bounds",
    "no rights",
    "bad descriptor",
    "rejected",
)
NO_ENTRY, NO_TRANSLATION = "no entry that no transfer uses", "no translation"  # of a lookup
NO_ANSWER = "no place for the answer"
NO_FRAME = "no frame"  # of what a program does to its own memory
AGAIN = "again"  # of a lookup, that is to be tried at once
READS, WRITES = "send", "receive"  # paths of a page
# What a CPU works at, as records say, by the operation of the process.
COMPUTING, POSTING, POLLING, INTERRUPTED = 5, 6, 7, 8
WORKS = {"compute": COMPUTING, "done": POLLING, "arrival": POLLING}
WORKS |= dict.fromkeys(("post", "provide", "register"), POSTING)
PEER_DEAD, NO_ROOM, PAGE_OUT = "peer dead", "no room", "page out"
PROCESS, IMPORT, EXPORT = "process", "import", "export"  # records that a NIC may cache
REFUSED = "refused"  # of what a closed port is asked for
FIRST_PAUSE, LONGEST_PAUSE = 10**6, 32 * 10**6  # ps between two looks at whether a port has closed


@dataclass(eq=False)
class Descriptor:
    """What a process asks of its NIC."""

    number: int
    operation: int
    name: int
    segments: list[tuple[int, int]] = field(default_factory=list)
    offset: int = 0
    notify: bool = False
    content: bytes | None = None  # INLINE
    made: int = 0  # bytes of it that are in packets
    sought: int = 0  # of a FETCH: bytes whose place here has been looked up
    space: int = 0
    source: int | None = None  # the memory that the held page is of, None for the garbage page
    in_memory: int = 0  # bytes that have come
    refused: bool = False  # the other side has rejected a packet of it
    fetch: Any = None  # of a REPLY: the descriptor that asked
    void: str | None = None  # of a REPLY: it says that the bytes may not be read
    awaits: int | None = None  # of one that was put aside: the page that is to be brought
    missed: int | None = None  # likewise: the page that it will ask for again
    lost: str | None = None  # likewise: why that cannot be had
    failure: str | None = None  # of a FETCH: why a piece of its answer did not come in
    status: str | None = None
    peer: int = -1
    page: int | None = None  # that the port holds to send from
    holds: tuple[int, int] | None = None  # that page, and of which memory it is
    refused_here: str | None = None  # by the library
    kept: list[range] = field(default_factory=list)  # pages, until it ends

    @property
    def length(self):
        if self.content is not None:
            return len(self.content)
        return sum(length for _, length in self.segments)

    def place(self):
        """Address of the next byte, and how many are left in its segment."""
        before = 0
        for address, length in self.segments:
            if self.made < before + length:
                return address + self.made - before, before + length - self.made
            before += length
        raise AssertionError


@dataclass
class Sent:
    """How a descriptor ended."""

    request: int
    status: str


@dataclass
class Received:
    """What has come."""

    operation: int
    name: int
    node: int
    length: int
    content: bytes | None
    buffers: tuple[int, ...]
    offset: int
    status: str


@dataclass(eq=False)
class Packet(Message):
    """With what its control message says."""

    operation: int = SEND
    name: int = 0  # at the receiver
    sender_name: int = 0
    at: int = 0  # offset in the message or export
    whole: int = 0  # bytes of the message or store
    begins: int = 0  # where in the export the whole begins
    last: bool = True
    notify: bool = False
    content: bytes = b""
    number: int = 0  # sequence
    to: int = 0  # what its sender knows the stream by
    by: int = 0  # and what its receiver does
    descriptor: Descriptor | None = None
    port: int = 0
    source: int | None = None  # address
    space: int = 0
    holds: Held | None = None
    ack: int = 0
    asks: bool = True  # for an acknowledgement
    rejects: frozenset[int] = frozenset()
    copied: bool = False  # by the network
    void: bool = False  # its sender has given up its receiver before it left
    tells: bool = False  # of a copy: with it the descriptor ends


@dataclass(eq=False)
class Waiting:
    """What a lookup of a port waits for."""

    for_reader: bool = False  # the buffer is to come back, and there is no place for its report
    for_entry: bool = False  # transfers use all that it could have
    for_thread: bool = False  # the kernel thread is to bring it
    for_queue: bool = False  # that one's queue is full
    missed: int | None = None  # the page that it has asked for before
    until: int | None = None  # of a descriptor


@dataclass(eq=False)
class Ready:
    """A buffer that is translated ahead, or is to be."""

    address: int
    source: int | None  # the memory that its page is of
    holds: tuple[int, int] | None = None  # space and page
    there: bool = True  # its page is
    refused: str | None = None  # its page cannot be had


@dataclass(eq=False)
class Held:
    """The page of a packet that is not acknowledged."""

    space: int
    page: int
    alone: bool = False  # it is pinned for this packet, and has no entry for it


@dataclass(eq=False)
class Port:
    """The queues of one process's port, and what the firmware knows of it."""

    node: int
    number: int
    space: int
    places: dict[int, Any]  # of descriptors, by turn
    open: bool = True
    posted: int = 0
    reaped: int = 0
    refused: int = 0  # descriptors that the library kept from the NIC
    registered: str = DONE  # how the last registration ended
    requests: deque[Descriptor] = field(default_factory=deque)  # that the NIC has not taken
    current: Descriptor | None = None
    free: deque[int] = field(default_factory=deque)
    ready: deque[Ready] = field(default_factory=deque)
    sent: deque[Sent] = field(default_factory=deque)
    received: deque[Received] = field(default_factory=deque)
    looked_up: int = 0  # handles of the descriptor to be taken that have missed
    reserved: int = 0  # places of the queue of received reports
    filling: int = 0
    waiting: Waiting = field(default_factory=Waiting)  # of the descriptor under way
    ahead: Waiting = field(default_factory=Waiting)  # of the buffer to be translated


@dataclass(eq=False)
class Process:
    """A program: what it still does, and what came of what it did."""

    number: int  # of its node
    node: int
    port: int
    plan: deque[tuple[Any, ...]]
    asked: tuple[Any, ...] | None = None
    since: int = 0
    slept: bool = False  # when it asked, there was nothing
    wakes: int | None = None
    resume: bool = True
    results: list[tuple[Any, ...]] = field(default_factory=list)
    pinned: list[tuple[int, int]] = field(default_factory=list)  # when it asked, how many pages


@dataclass(eq=False)
class Host(Node):
    """A node whose NIC serves ports."""

    service: dict[str, Any] = field(default_factory=dict)
    ports: list[Port] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    channels: dict[int, Any] = field(default_factory=dict)
    exports: dict[int, Any] = field(default_factory=dict)
    imports: dict[int, Any] = field(default_factory=dict)
    gone: dict[tuple[str, int], Any] = field(default_factory=dict)  # exports and imports
    memory: Any = None
    serving: Any = None
    asking: Any = None  # the port of which SERVE looked a page up last
    asks_ahead: bool = False  # for a buffer
    last_served: int = 0
    busy: Process | None = None  # whose operation the CPU does
    stolen: int = 0  # from it by interrupts

    def pio(self):
        """Whether the CPU's accesses slow down the bus: what programs do here is no PIO of it."""
        return False
