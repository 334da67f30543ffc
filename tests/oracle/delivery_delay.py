"""The delivery oracle over wires on which packets propagate, as one would first write it.

Written from ``docs/virtual-time.md``, Propagation delay, alone.  No node sends to itself here.
"""

from oracle.delivery import Simulation
from oracle.delivery_records import CONTROL_BYTES, LINK, NET_RCV, NET_TX, Framed, Half


class FarEnd:
    """Where the wires to one node end: packets in the order in which they left."""

    def __init__(self, number):
        self.number = number
        self.packets = []  # message, when its header comes, when its last byte, ps per byte
        self.control = True  # what comes next of the first
        self.phase = None  # then "wait", "stall", "flow"
        self.until = 0
        self.transfer = None


class Delayed(Simulation):
    """As ``Simulation``; packets are on their way for ``delay`` ps between two nodes."""

    def __init__(self, delay, *given):
        super().__init__(*given)
        self.delay = delay
        self.ends = [FarEnd(node.number) for node in self.nodes]

    def run(self):
        self.concerned = set(range(len(self.nodes)))
        self.look()
        while (event := self.next_event()) is not None:
            self.now, number, kind = event
            self.events += 1
            if number < len(self.nodes):
                self.concerned = {number}
                self.happen(self.nodes[number], kind)
            else:
                end = self.ends[number - len(self.nodes)]
                self.concerned = {end.number}
                self.comes(end)
            self.go_on()
            self.look()
        return self

    def next_event(self):
        """The far ends come behind all nodes."""
        pending = []
        for end in self.ends:
            if end.phase == "wait":
                pending.append((end.until, len(self.nodes) + end.number, LINK))
            elif end.phase == "flow":
                pending.append((end.transfer.ends, len(self.nodes) + end.number, LINK))
        event = super().next_event()
        return min(pending if event is None else [*pending, event], default=None)

    # --- the near end ---------------------------------------------------------------------------

    def begin_flow(self, node):
        """The wire takes what comes."""
        node.tx.phase = "flow"
        rate = self.flow_rate(node)
        node.tx.transfer = Framed(self.now, node.tx.byte_count, node.tx.framing, rate)
        self.concerned.add(node.number)

    def flow_rate(self, node):
        return max(node.costs["link_per_byte"], self.share(node))

    def flow_ends(self, node):
        tx, node.tx = node.tx, None
        half, message = tx.half, tx.half.message
        self.record(message, node, NET_TX, tx.start, tx.byte_count, control=tx.control)
        if tx.control:
            half.header_left = self.now
        else:
            half.out += tx.byte_count
        if half.out < message.payload:
            return
        half.done = True
        node.counters.sent += 1
        self.release(half)
        end = self.ends[message.destination]
        times = half.header_left + self.delay, self.now + self.delay
        end.packets.append((message, *times, node.costs["link_per_byte"]))
        if len(end.packets) == 1:
            self.next_packet(end)

    def watchdog(self, node):
        """What is not wholly on its wire never comes to anybody."""
        super().watchdog(node)
        self.concerned = {node.number}

    # --- the far end ----------------------------------------------------------------------------

    def next_packet(self, end):
        end.phase = None
        if end.packets:
            _, header_at, _, rate = end.packets[0]
            end.control, end.phase = True, "wait"
            end.until = max(self.now, header_at - CONTROL_BYTES * rate)

    def comes(self, end):
        if end.phase == "wait":
            end.phase = "stall"
            return
        receiver = self.nodes[end.number]
        message, _, whole_at, rate = end.packets[0]
        since, receiver.rx, end.transfer = receiver.rx.since, None, None
        count = CONTROL_BYTES if end.control else message.payload
        if end.control:
            receiver.incoming.append(Half(message))
            receiver.accepted += 1
        self.record(message, receiver, NET_RCV, since, count, control=end.control)
        if end.control:
            links = self.paths[message.sender, end.number]
            end.fate = self.hazards(message.sender, message.packet, end.number, links, self.now)
            if message.payload and end.fate != "lost":
                end.control, end.phase = False, "wait"
                end.until = max(self.now, whole_at - message.payload * rate)
                return
        if end.fate:
            self.break_at(receiver, message)
        end.packets.pop(0)
        self.next_packet(end)

    def go_on(self):
        super().go_on()
        for end in self.ends:
            posted = self.nodes[end.number].rx
            if end.phase != "stall" or posted is None or end.control != (posted.half is None):
                continue
            count = CONTROL_BYTES if end.control else end.packets[0][0].payload
            end.phase = "flow"
            end.transfer = Framed(self.now, count, 0, self.arrival_rate(end))
            if not end.control:
                posted.half.source.append(end.transfer)
            self.concerned.add(end.number)

    def arrival_rate(self, end):
        return max(end.packets[0][3], self.share(self.nodes[end.number]))

    def share(self, node):
        flows = (node.tx is not None and node.tx.phase == "flow") + (
            self.ends[node.number].phase == "flow"
        )
        memory = node.costs["nic_memory_per_byte"]
        shared = flows * memory
        if node.pci is not None:
            rate = self.pci_rate(node)
            shared = flows * (memory * rate // (rate - memory))
        return max(shared, 2 * memory)  # an engine has one of the memory's two ports

    def set_rates(self):
        super().set_rates()
        for end in self.ends:
            if end.phase == "flow":
                end.transfer.set_rate(self.now, self.arrival_rate(end))
