"""Delivery of packets in virtual time as one would first write it: lists, and a scan for the next.

Written from ``docs/virtual-time.md`` alone. Comments that begin with "Reading:" mark places where
the page can be read in more than one way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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

    def stop(self, now):
        self.pieces[-1][1] = whole_bytes(self.pieces[-1], now)


def whole_bytes(piece, now):
    begins, count, rate = piece
    return max(0, min(count, (now - begins) // rate))


def moment_of(transfers, target):
    """When the ``target``-th byte is whole, None if these transfers do not bring it."""
    before = 0
    for transfer in transfers:
        for begins, count, rate in transfer.pieces:
            if before < target <= before + count:
                return begins + (target - before) * rate
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

    def pio(self):
        return self.copy is not None or (self.cpu is not None and self.cpu.what != "call")

    def send_buffers(self):
        return sum(half.message.payload > 0 for half in self.outgoing)

    def receive_buffers(self):
        return sum(half.receive_posted for half in self.incoming)

    def send_ring(self):
        writing = self.cpu is not None and self.cpu.what in ("call", "write")
        return len(self.ring) + len(self.outgoing) + writing


class Simulation:
    """Runs of (sender, destination, payload, count, gap); ``copies`` are (node, byte_count)."""

    def __init__(self, costs, delivery, paths, hops, links, runs, copies=()):
        self.delivery, self.paths, self.hops = delivery, paths, hops
        self.nodes = [
            Node(
                number,
                dict(cost),
                [list(run[1:]) for run in runs if run[0] == number and run[3]],
                [count for node, count in copies if node == number],
            )
            for number, cost in enumerate(costs)
        ]
        for node in self.nodes:
            for way in ("read", "write"):
                for rate in (f"pci_{way}_per_byte", f"pci_{way}_contended_per_byte"):
                    assert node.costs[rate] > node.costs["nic_memory_per_byte"]
        self.holder: list[Half | None] = [None] * links
        self.queue: list[list[Half]] = [[] for _ in range(links)]
        self.released: list[int] = []
        self.messages: list[Message] = []
        self.log: list[dict[str, int]] = []
        self.concerned: set[int] = set()
        self.now = 0
        self.events = 0

    def run(self):
        self.concerned = set(range(len(self.nodes)))
        self.look()
        while (event := self.next_event()) is not None:
            self.now, number, kind = event
            self.events += 1
            self.concerned = {number}
            self.happen(self.nodes[number], kind)
            self.go_on()
            self.look()
        return self

    # --- what is next ---------------------------------------------------------------------------

    def next_event(self):
        pending = []
        for node in self.nodes:
            for kind, time in self.pending_of(node):
                assert time >= self.now
                pending.append((time, node.number, kind))
        return min(pending, default=None)

    def pending_of(self, node):
        for kind in (BYTES_AT_SENDER, BYTES_AT_RECEIVER):
            want = self.awaited(node, kind)
            if want is not None and node.fired.get(kind) != want:
                time = moment_of(want[0].source, want[1])
                if time is not None and time >= self.now:
                    yield kind, time
        if node.copy is not None:
            yield CPU, node.copy.ends
        elif node.cpu is not None:
            yield CPU, node.cpu.ends
        elif node.runs and node.started is not None and node.woken < node.next_packet:
            time = node.started + node.runs[0][3]
            if time >= self.now:
                yield CPU, time
        if node.pci is not None:
            yield PCI, node.pci.transfer.ends
        if node.tx is not None and node.tx.phase in ("start", "head"):
            yield LINK, node.tx.until
        if node.tx is not None and node.tx.phase == "flow":
            yield LINK, node.tx.transfer.ends
        if node.processor is not None:
            yield PROCESSOR, node.processor.ends
        for half in node.outgoing:
            # Reading: a watchdog of 0 is none, as with costs that do not apply.
            if half.held and not half.done and node.costs["link_watchdog"]:
                yield WATCHDOG, half.held_since + node.costs["link_watchdog"]

    def awaited(self, node, kind):
        """The packet and the number of its bytes that NET_TX or HOST_RCV waits for."""
        if kind == BYTES_AT_SENDER:
            half, minpulse = self.to_send(node), self.delivery.minpulse_send
            if node.tx is not None or half is None:
                return None
            if not half.control_taken and self.delivery.policy == CUT_THROUGH:
                return None
        else:
            half, minpulse = self.to_drain(node), self.delivery.minpulse_receive
            if node.pci is not None or half is None:
                return None
        whole = half.message.payload
        if self.delivery.policy == STORE_AND_FORWARD:
            return half, whole
        # Reading: that the last byte is deposited is "bytes suffice" too, and so comes before
        # the end of the transfer that brought it (kinds 0 and 1 before 3 and 4).
        return half, min(whole, half.sunk + minpulse + 1)

    # --- what happens ---------------------------------------------------------------------------

    def happen(self, node, kind):
        if kind in (BYTES_AT_SENDER, BYTES_AT_RECEIVER):
            node.fired[kind] = self.awaited(node, kind)
        elif kind == CPU:
            self.cpu_event(node)
        elif kind == PCI:
            self.pci_ends(node)
        elif kind == LINK:
            self.link_event(node)
        elif kind == PROCESSOR:
            self.action_ends(node)
        else:
            self.watchdog(node)

    def cpu_event(self, node):
        if node.copy is not None:
            begun, node.copy = node.copy.begins, None
            node.counters.copy_end = self.now
            self.work(node, COPYING, begun)
            return
        if node.cpu is None:  # the gap is over
            node.woken = node.next_packet
            return
        action, message = node.cpu, node.cpu.message
        if action.what == "call":
            node.cpu = Action(
                "write", action.start, self.now + node.costs["pio_write"], message=message
            )
            return
        node.cpu = None
        if action.what == "write":
            node.ring.append(message)
            self.record(message, node, HOST_WRITE, action.start, CONTROL_BYTES, control=1)
        else:
            message.read = self.now
            self.messages.append(message)
            node.accepted -= 1
            node.counters.received += 1
            node.counters.bytes_received += message.payload
            self.record(message, node, HOST_READ, action.start, CONTROL_BYTES, control=1)

    def pci_ends(self, node):
        pci, node.pci = node.pci, None
        count = pci.transfer.byte_count
        if pci.to_host:
            pci.half.out += count
        engine = HOST_RCV if pci.to_host else HOST_TX
        self.record(pci.half.message, node, engine, pci.start, count)

    def link_event(self, node):
        tx = node.tx
        if tx.phase == "start":
            if tx.half.has_path:
                tx.phase = "stall"
            else:
                tx.phase = "path"
                self.get_links(node, tx.half)
        elif tx.phase == "head":
            tx.phase = "stall"
        else:
            self.flow_ends(node)

    def flow_ends(self, node):
        tx, node.tx = node.tx, None
        half, message = tx.half, tx.half.message
        self.record(message, node, NET_TX, tx.start, tx.byte_count, control=tx.control)
        if not tx.control:
            half.out += tx.byte_count
        if half.out == message.payload:
            half.done = True
            node.counters.sent += 1
            self.release(half)
        receiver = self.nodes[message.destination]
        self.concerned.add(receiver.number)
        if tx.control:
            since = receiver.rx.since
            receiver.rx = None
            receiver.incoming.append(Half(message))
            receiver.accepted += 1
            peak = max(receiver.counters.peak_receive_ring, receiver.accepted)
            receiver.counters.peak_receive_ring = peak
            self.record(message, receiver, NET_RCV, since, CONTROL_BYTES, control=1)
        elif half.done:
            since = receiver.rx.since
            receiver.rx = None
            self.record(message, receiver, NET_RCV, since, message.payload)

    def watchdog(self, node):
        half = next(half for half in node.outgoing if half.held and not half.done)
        message, tx = half.message, node.tx
        assert tx is None or tx.half is half
        # Reading: a transfer that stops is logged with the bytes it had moved, be it none.
        if tx is not None:
            moved = 0
            if tx.transfer is not None:
                tx.transfer.stop(self.now)
                moved = tx.transfer.byte_count
            self.record(message, node, NET_TX, tx.start, moved, control=tx.control)
            node.tx = None
        for queue in self.queue:
            if half in queue:
                queue.remove(half)
        self.release(half)
        half.done = True
        node.counters.aborted += 1
        message.read = -1
        self.messages.append(message)
        receiver = self.nodes[message.destination]
        # Reading: the watchdog concerns both ends, whether or not there was a flow.
        self.concerned.add(receiver.number)
        for arrived in receiver.incoming:
            if arrived.message is message:
                arrived.done = True
                receiver.counters.broken += 1
                if receiver.rx is not None and receiver.rx.half is arrived:
                    count = arrived.deposited(self.now)
                    self.record(message, receiver, NET_RCV, receiver.rx.since, count)
                    receiver.rx = None

    # --- rates ----------------------------------------------------------------------------------

    def set_rates(self):
        """Once per event, when all that it changes has changed."""
        for node in self.nodes:
            if node.pci is not None:
                node.pci.transfer.set_rate(self.now, self.pci_rate(node))
        for node in self.nodes:
            if node.copy is not None:
                node.copy.set_rate(self.now, self.copy_rate(node))
            if node.tx is not None and node.tx.phase == "flow":
                node.tx.transfer.set_rate(self.now, self.flow_rate(node))

    def pci_rate(self, node):
        way = "write" if node.pci.to_host else "read"
        return node.costs[f"pci_{way}_contended_per_byte" if node.pio() else f"pci_{way}_per_byte"]

    def copy_rate(self, node):
        # Reading: the start of a PCI transfer counts: the engine is not idle.
        return node.costs[
            "block_copy_per_byte" if node.pci is None else "block_copy_contended_per_byte"
        ]

    def flow_rate(self, node):
        receiver = self.nodes[node.tx.half.message.destination]
        return max(node.costs["link_per_byte"], self.share(node), self.share(receiver))

    def share(self, node):
        flows = sum(
            other.tx is not None
            and other.tx.phase == "flow"
            and node.number in (other.number, other.tx.half.message.destination)
            for other in self.nodes
        )
        memory = node.costs["nic_memory_per_byte"]
        if node.pci is not None:
            rate = self.pci_rate(node)
            return flows * (memory * rate // (rate - memory))
        return flows * memory

    # --- paths and flows ------------------------------------------------------------------------

    def get_links(self, node, half):
        """Take links in order until one is taken; then the head goes through the switches."""
        while half.path:
            link = half.path[0]
            if self.holder[link] is not None or self.queue[link]:
                self.queue[link].append(half)
                return
            self.hold(link, half)
        self.path_is_whole(node, half)

    def hold(self, link, half):
        assert half.path.pop(0) == link
        self.holder[link] = half
        if not half.held:
            half.held_since = self.now
        half.held.append(link)

    def path_is_whole(self, node, half):
        half.has_path = True
        delay = self.hops[node.number, half.message.destination] * node.costs["switch_hop"]
        node.tx.phase = "head" if delay else "stall"
        node.tx.until = self.now + delay

    def release(self, half):
        for link in half.held:
            self.holder[link] = None
        self.released += half.held
        half.held = []

    def go_on(self):
        while self.released:
            link = self.released.pop(0)
            if self.queue[link] and self.holder[link] is None:
                half = self.queue[link].pop(0)
                self.hold(link, half)
                self.get_links(self.nodes[half.message.sender], half)
        for node in self.nodes:
            if node.tx is not None and node.tx.phase == "stall":
                self.begin_flow(node)

    def begin_flow(self, node):
        tx = node.tx
        receiver = self.nodes[tx.half.message.destination]
        if receiver.rx is None or tx.control != (receiver.rx.half is None):
            return
        tx.phase = "flow"
        tx.transfer = Transfer(self.now, tx.byte_count, self.flow_rate(node))
        if not tx.control:
            assert receiver.rx.half.message is tx.half.message
            receiver.rx.half.source.append(tx.transfer)
        # Reading: both ends of a flow that begins look, as at its end.
        self.concerned |= {node.number, receiver.number}

    # --- firmware -------------------------------------------------------------------------------

    def look(self):
        for number in sorted(self.concerned):
            self.cpu_looks(self.nodes[number])
        self.set_rates()
        for number in sorted(self.concerned):
            node = self.nodes[number]
            if node.processor is None:
                for step in range(1, 8):
                    task = (node.last_task + step) % 7
                    if self.ready(node, task):
                        self.begin(node, task)
                        break

    def to_send(self, node):
        return next((half for half in node.outgoing if not half.done), None)

    def to_drain(self, node):
        for half in node.incoming:
            if not half.done and half.out < half.message.payload:
                return half
        return None

    def to_post(self, node):
        for half in node.incoming:
            if half.message.payload and not half.receive_posted and not half.done:
                return half
        return None

    def enough(self, half, minpulse):
        there = half.deposited(self.now) - half.sunk
        if half.ended(self.now) and there > 0:
            return True
        return self.delivery.policy == CUT_THROUGH and there > minpulse

    def what_is_there(self, half, minpulse):
        there = half.deposited(self.now) - half.sunk
        if self.delivery.policy == CUT_THROUGH and not self.delivery.eager:
            return min(there, minpulse)
        return there

    def subject(self, node, task):
        """The packet that the task is for, if any."""
        if task == POST_PAYLOAD:
            return self.to_post(node)
        if task == TO_HOST:
            return self.to_drain(node)
        if task == COMPLETE:
            return node.incoming[0] if node.incoming else None
        if task == TO_NET:
            return self.to_send(node)
        if task == FINISH:
            return node.outgoing[0] if node.outgoing else None
        if task == FROM_HOST:
            return Half(node.ring[0]) if node.ring else None
        return None

    def ready(self, node, task):
        delivery, half = self.delivery, self.subject(node, task)
        if task == POST_CONTROL:
            nothing_on_its_way = node.rx is None and self.to_post(node) is None
            return nothing_on_its_way and node.accepted < delivery.receive_ring
        if half is None:
            return False
        if task == POST_PAYLOAD:
            return node.rx is None and node.receive_buffers() < delivery.receive_buffers
        if task == TO_HOST:
            return node.pci is None and self.enough(half, delivery.minpulse_receive)
        if task == COMPLETE:
            if half.done:
                return node.pci is None or node.pci.half is not half
            return half.out == half.message.payload
        if task == TO_NET:
            if node.tx is not None:
                return False
            if not half.control_taken:
                return delivery.policy == CUT_THROUGH or half.ended(self.now)
            return self.enough(half, delivery.minpulse_send)
        if task == FINISH:
            return half.done and (node.pci is None or node.pci.half is not half)
        has_place = node.pci is None and node.send_buffers() < delivery.send_buffers
        return half.message.payload == 0 or has_place

    def begin(self, node, task):
        half = self.subject(node, task)
        cost = node.costs["firmware_finish" if task in (FINISH, COMPLETE) else "firmware_start"]
        logged = task in (POST_CONTROL, POST_PAYLOAD, TO_HOST, TO_NET)
        if self.delivery.logging and (logged or (task == FROM_HOST and half.message.payload)):
            cost += node.costs["firmware_log"]
        node.processor = Action(task, self.now, self.now + cost, half)
        node.last_task = task

    def action_ends(self, node):
        action, node.processor = node.processor, None
        half, task = action.half, action.what
        message = None if half is None else half.message
        control, count = False, 0
        # Reading: an action whose packet was aborted or broken meanwhile has no effect.
        stale = half is not None and half.done and task not in (FINISH, COMPLETE)
        if task == POST_CONTROL:
            node.rx = Posted(None, self.now)
            control, count = True, CONTROL_BYTES
        elif task == POST_PAYLOAD and not stale:
            half.receive_posted = True
            node.rx = Posted(half, self.now)
            count = message.payload
            peak = max(node.counters.peak_receive_buffers, node.receive_buffers())
            node.counters.peak_receive_buffers = peak
        elif task == TO_HOST and not stale:
            count = self.what_is_there(half, self.delivery.minpulse_receive)
            half.sunk += count
            self.begin_pci(node, half, True, count)
        elif task == COMPLETE:
            node.incoming.remove(half)
            if half.done:
                node.accepted -= 1
            else:
                node.seen.append(message)
        elif task == TO_NET and not stale:
            control = not half.control_taken
            if control:
                half.control_taken, count = True, CONTROL_BYTES
                half.path = list(self.paths[node.number, message.destination])
            else:
                count = self.what_is_there(half, self.delivery.minpulse_send)
                half.sunk += count
            node.tx = Tx(half, control, count, self.now, self.now + node.costs["link_start"])
        elif task == FINISH:
            node.outgoing.remove(half)
        elif task == FROM_HOST:
            assert node.ring.pop(0) is message
            node.outgoing.append(half)
            count = message.payload
            if count:
                self.begin_pci(node, half, False, count)
                half.source.append(node.pci.transfer)
            peak = max(node.counters.peak_send_buffers, node.send_buffers())
            node.counters.peak_send_buffers = peak
        self.record(message, node, FIRMWARE, action.start, 0, task=task)

    def begin_pci(self, node, half, to_host, count):
        way = "write" if to_host else "read"
        node.pci = Pci(to_host, half, self.now, None)
        begins = self.now + node.costs[f"pci_{way}_start"]
        node.pci.transfer = Transfer(begins, count, self.pci_rate(node))

    # --- hosts ----------------------------------------------------------------------------------

    def cpu_looks(self, node):
        if node.cpu is not None or node.copy is not None:
            return
        if node.copies:
            node.copy = Transfer(self.now, node.copies.pop(0), self.copy_rate(node))
        elif node.seen:
            message = node.seen.pop(0)
            ends = self.now + node.costs["pio_read"]
            node.cpu = Action("read", self.now, ends, message=message)
        elif node.runs and node.send_ring() < self.delivery.send_ring:
            destination, payload, _, gap = node.runs[0]
            if node.started is not None and self.now < node.started + gap:
                return
            message = Message(node.number, node.next_packet, destination, payload, self.now)
            node.next_packet += 1
            node.started = self.now
            node.runs[0][2] -= 1
            if not node.runs[0][2]:
                node.runs.pop(0)
                node.started = None
            ends = self.now + node.costs["send_call"]
            node.cpu = Action("call", self.now, ends, message=message)
            node.counters.posted += 1
            peak = max(node.counters.peak_send_ring, node.send_ring())
            node.counters.peak_send_ring = peak

    # --- the observer ---------------------------------------------------------------------------

    def record(self, message, node, engine, start, count, control=0, task=-1):
        packet, sender = (-1, -1) if message is None else (message.packet, message.sender)
        values = (packet, sender, node.number, engine, task, int(control), start, self.now, count)
        self.log.append(dict(zip(LOG_FIELDS, values, strict=True)))

    def work(self, node, what, start, process=-1):
        """A record of what a CPU has worked at for ``process``, if that took time."""
        if self.now > start:
            values = (-1, process, node.number, CPU_WORK, what, 0, start, self.now, 0)
            self.log.append(dict(zip(LOG_FIELDS, values, strict=True)))


def simulate(costs, delivery, paths, hops, links, runs, copies=()):
    """A finished ``Simulation``: ``messages``, ``log``, ``nodes[n].counters``, ``now``."""
    return Simulation(costs, delivery, paths, hops, links, runs, copies).run()


def rows_of(messages):
    """(sender, packet, destination, payload, posted, read) of each, in order."""
    names = [one.name for one in fields(Message)]
    return [tuple(getattr(message, name) for name in names) for message in messages]
