"""What a node of the delivery oracle is made of: transfers, halves, messages, counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CONTROL_BYTES = 128
HOST_WRITE, HOST_TX, NET_TX, NET_RCV, HOST_RCV, HOST_READ, FIRMWARE, CPU_WORK, TABLE = range(9)
POST_CONTROL, POST_PAYLOAD, TO_HOST, COMPLETE, TO_NET, FINISH, FROM_HOST = range(7)  # tasks
COPYING = 4  # what a CPU works at, as records say
STORE_AND_FORWARD, CUT_THROUGH = range(2)
BYTES_AT_SENDER, BYTES_AT_RECEIVER, CPU, PCI, LINK, PROCESSOR, WATCHDOG = range(7)  # kinds
LOG_FIELDS = ("packet", "sender", "node", "engine", "task", "control", "start", "end", "bytes")


@dataclass
class Delivery:
    """The same for every NIC of a run."""

    policy: int = CUT_THROUGH
    eager: bool = True
    minpulse_send: int = 128
    minpulse_receive: int = 128
    send_buffers: int = 4
    receive_buffers: int = 4
    send_ring: int = 64
    receive_ring: int = 64
    max_payload: int = 8192
    logging: bool = False
    by_message: bool = False  # with ports: a message goes on when its last packet is on the NIC


class Transfer:
    """Bytes in pieces of one rate each: [begins, byte_count, rate]."""

    def __init__(self, begins, byte_count, rate):
        self.pieces = [[begins, byte_count, rate]]

    @property
    def begins(self):
        return self.pieces[0][0]

    @property
    def ends(self):
        begins, count, rate = self.pieces[-1]
        return begins + count * rate

    @property
    def byte_count(self):
        return sum(count for _, count, _ in self.pieces)

    def moved(self, now):
        return sum(whole_bytes(piece, now) for piece in self.pieces)

    def set_rate(self, now, rate):
        last = self.pieces[-1]
        if rate != last[2]:
            rest = last[1] - whole_bytes(last, now)
            last[1] -= rest
            self.pieces.append([max(now, last[0]), rest, rate])

    def spans(self):
        """Of each piece its bytes, and when which of them is whole."""
        for begins, count, rate in self.pieces:
            yield count, lambda n, b=begins, r=rate: b + n * r

    def stop(self, now):
        self.pieces[-1][1] = whole_bytes(self.pieces[-1], now)


class Framed(Transfer):
    """One with so many bytes behind its own, that nobody counts."""

    def __init__(self, begins, byte_count, framing, rate):
        super().__init__(begins, byte_count + framing, rate)
        self.own = byte_count

    @property
    def byte_count(self):
        return min(super().byte_count, self.own)

    def moved(self, now):
        return min(super().moved(now), self.own)


class Master:
    """Another master, which has a bus for the first ``held`` ps of every ``every``."""

    def __init__(self, held, every):
        self.held, self.every = held, every

    def later(self, begins, count):
        """The time at which the bus has been free for ``count`` ps since ``begins``."""
        now = begins
        while count:
            into = now % self.every
            if into < self.held:
                now += self.held - into
            else:
                step = min(count, self.every - into)
                now, count = now + step, count - step
        return now

    def free(self, begins, ends):
        """For how long the bus is free from ``begins`` to ``ends``."""
        now, found = begins, 0
        while now < ends:
            into = now % self.every
            step = min(ends - now, (self.held if into < self.held else self.every) - into)
            found += step if into >= self.held else 0
            now += step
        return found


class HeldUp:
    """A transfer over a bus that another master may hold: [since, start left, byte_count, rate]."""

    def __init__(self, master, since, start, byte_count, rate):
        self.master = master
        self.pieces = [[since, start, byte_count, rate]]

    @property
    def ends(self):
        since, start, count, rate = self.pieces[-1]
        return self.master.later(since, start + count * rate)

    @property
    def byte_count(self):
        return sum(piece[2] for piece in self.pieces)

    def whole(self, piece, now):
        since, start, count, rate = piece
        return max(0, min(count, (self.master.free(since, now) - start) // rate))

    def moved(self, now):
        return sum(self.whole(piece, now) for piece in self.pieces)

    def set_rate(self, now, rate):
        last = self.pieces[-1]
        if rate != last[3]:
            since, start, count, _ = last
            last[2] = self.whole(last, now)
            left = max(0, start - self.master.free(since, now))
            self.pieces.append([now, left, count - last[2], rate])

    def spans(self):
        """Of each piece its bytes, and when which of them is whole."""
        for since, start, count, rate in self.pieces:
            yield count, lambda n, s=since, a=start, r=rate: self.master.later(s, a + n * r)


def whole_bytes(piece, now):
    begins, count, rate = piece
    return max(0, min(count, (now - begins) // rate))


def moment_of(transfers, target):
    """When the ``target``-th byte is whole, None if these transfers do not bring it."""
    before = 0
    for transfer in transfers:
        for count, when in transfer.spans():
            if before < target <= before + count:
                return when(target - before)
            before += count
    return None


@dataclass(eq=False)
class Message:
    sender: int
    packet: int
    destination: int
    payload: int
    posted: int
    read: int | None = None  # -1: aborted


@dataclass(eq=False)
class Half:
    """A packet as one of its two NICs sees it."""

    message: Message
    source: list[Transfer] = field(default_factory=list)  # into NIC memory
    sunk: int = 0  # bytes that transfers to the sink have taken
    out: int = 0  # bytes that these have moved, counted when they end
    control_taken: bool = False  # sender: netTx of the control message has begun
    done: bool = False  # sender: sent or aborted; receiver: broken
    receive_posted: bool = False
    path: list[int] = field(default_factory=list)  # links still to get
    held: list[int] = field(default_factory=list)
    held_since: int | None = None
    has_path: bool = False
    fate: Any = None  # without ports: "lost" or "corrupted", from when its header is in
    told: Any = None  # with ports: why it was rejected
    corrupted: bool = False  # with ports: a bit of it is flipped on its way
    holds: Any = None  # with ports: the page that the payload goes to

    def deposited(self, now):
        return sum(transfer.moved(now) for transfer in self.source)

    def ended(self, now):
        return self.deposited(now) == self.message.payload


@dataclass(eq=False)
class Action:
    """What a processor or a CPU is at."""

    what: Any  # task, or name of the CPU's operation
    start: int
    ends: int
    half: Half | None = None
    message: Message | None = None


@dataclass(eq=False)
class Pci:
    to_host: bool
    half: Half
    start: int
    transfer: Transfer


@dataclass(eq=False)
class Tx:
    """A transfer of link transmit."""

    half: Half
    control: bool
    byte_count: int
    start: int
    until: int  # end of the phases "start" and "head"
    framing: int = 0  # bytes behind those
    phase: str = "start"  # then "path", "head", "stall", "flow"
    transfer: Transfer | None = None  # the flow


@dataclass(eq=False)
class Posted:
    """A receive; ``half`` is None for that of a control message."""

    half: Half | None
    since: int


@dataclass
class Counters:
    posted: int = 0
    sent: int = 0
    aborted: int = 0
    broken: int = 0
    received: int = 0
    bytes_received: int = 0  # payload in host memory of messages that were read
    peak_send_buffers: int = 0
    peak_receive_buffers: int = 0
    peak_send_ring: int = 0
    peak_receive_ring: int = 0
    copy_end: int = 0


@dataclass(eq=False)
class Node:
    number: int
    costs: dict[str, int]
    runs: list[list[int]]  # destination, payload, count, gap
    copies: list[int]
    cpu: Action | None = None
    copy: Transfer | None = None
    started: int | None = None  # start of the message before in this run
    woken: int = -1
    next_packet: int = 0
    ring: list[Message] = field(default_factory=list)  # handed over, not taken
    outgoing: list[Half] = field(default_factory=list)  # taken, not finished
    incoming: list[Half] = field(default_factory=list)  # control message in, not completed
    seen: list[Message] = field(default_factory=list)
    accepted: int = 0  # and not read
    processor: Action | None = None
    last_task: int = FROM_HOST
    pci: Pci | None = None
    tx: Tx | None = None
    rx: Posted | None = None
    fired: dict[int, Any] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    master: Master | None = None  # another one at its bus

    def over_bus(self, now, cost):
        """When an access that costs so much ends, if it begins now."""
        return now + cost if self.master is None else self.master.later(now, cost)

    def pio(self):
        return self.copy is not None or (self.cpu is not None and self.cpu.what != "call")

    def send_buffers(self):
        return sum(half.message.payload > 0 for half in self.outgoing)

    def receive_buffers(self):
        return sum(half.receive_posted for half in self.incoming)

    def send_ring(self):
        writing = self.cpu is not None and self.cpu.what in ("call", "write")
        return len(self.ring) + len(self.outgoing) + writing
