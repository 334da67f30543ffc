"""Delivery of packets in virtual time as one would first write it: lists, and a scan for the next.

Written from ``docs/virtual-time.md`` alone. Comments that begin with "Reading:" mark places where
the page can be read in more than one way.
"""

from __future__ import annotations

from dataclasses import fields

from oracle.delivery_firmware import Firmware
from oracle.delivery_flows import Flows
from oracle.delivery_records import (
    BYTES_AT_RECEIVER,
    BYTES_AT_SENDER,
    CONTROL_BYTES,
    COPYING,
    CPU,
    CPU_WORK,
    CUT_THROUGH,
    HOST_RCV,
    HOST_READ,
    HOST_TX,
    HOST_WRITE,
    LINK,
    LOG_FIELDS,
    NET_RCV,
    NET_TX,
    PCI,
    PROCESSOR,
    STORE_AND_FORWARD,
    WATCHDOG,
    Action,
    Half,
    Master,
    Message,
    Node,
    Transfer,
    moment_of,
)


class Simulation(Flows, Firmware):
    """Runs of (sender, destination, payload, count, gap); ``copies`` are (node, byte_count).

    ``masters`` are (node, ps that another master holds its bus, of every so many).  ``hazards``
    says of (sender, number, destination, links, time) "lost", "corrupted", or nothing.
    """

    def __init__(
        self, costs, delivery, paths, hops, links, runs, copies=(), masters=(), hazards=None
    ):
        self.hazards = hazards or (lambda *_: None)
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
        for number, held, every in masters:
            self.nodes[number].master = Master(held, every)
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
            self.follow_at_once(node)
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
                "write",
                action.start,
                node.over_bus(self.now, node.costs["pio_write"]),
                message=message,
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
            self.record(message, receiver, NET_RCV, since, tx.byte_count, control=1)
        elif half.done:
            since = receiver.rx.since
            receiver.rx = None
            self.record(message, receiver, NET_RCV, since, message.payload)
        if tx.control:
            links = self.paths[node.number, message.destination]
            half.fate = self.hazards(node.number, message.packet, receiver.number, links, self.now)
            if half.fate == "lost" and not half.done:
                self.come_no_further(node, half)
        if half.done and half.fate and message.read is None:
            self.break_at(receiver, message)

    def watchdog(self, node):
        node.counters.aborted += 1
        half = next(half for half in node.outgoing if half.held and not half.done)
        self.come_no_further(node, half)

    def come_no_further(self, node, half):
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
        receiver = self.nodes[message.destination]
        # Reading: the watchdog concerns both ends, whether or not there was a flow.
        self.concerned.add(receiver.number)
        self.break_at(receiver, message)

    def break_at(self, receiver, message):
        message.read = -1
        self.messages.append(message)
        for arrived in receiver.incoming:
            if arrived.message is message:
                arrived.done = True
                receiver.counters.broken += 1
                if receiver.rx is not None and receiver.rx.half is arrived:
                    count = arrived.deposited(self.now)
                    self.record(message, receiver, NET_RCV, receiver.rx.since, count)
                    receiver.rx = None

    # --- hosts ----------------------------------------------------------------------------------

    def cpu_looks(self, node):
        if node.cpu is not None or node.copy is not None:
            return
        if node.copies:
            node.copy = Transfer(self.now, node.copies.pop(0), self.copy_rate(node))
        elif node.seen:
            message = node.seen.pop(0)
            ends = node.over_bus(self.now, node.costs["pio_read"])
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


def simulate(costs, delivery, paths, hops, links, runs, copies=(), masters=(), hazards=None):
    """A finished ``Simulation``: ``messages``, ``log``, ``nodes[n].counters``, ``now``."""
    return Simulation(costs, delivery, paths, hops, links, runs, copies, masters, hazards).run()


def rows_of(messages):
    """(sender, packet, destination, payload, posted, read) of each, in order."""
    names = [one.name for one in fields(Message)]
    return [tuple(getattr(message, name) for name in names) for message in messages]
