"""Delivery in virtual time as a SimPy model: the peer of ``simulate_script`` in bench_simulate.

Eager cut-through with several buffers, no firmware log, no copies, no watchdog: what the steady
stream of docs/virtual-time.md needs. Host, firmware and link transmit of a node are processes;
what SimPy has no resource for, a transfer whose rate changes on its way, is a timeout that is
made anew. Ties are broken by SimPy's own priorities: (node, kind) as that page has it, behind
SimPy's 0 and 1, so that who was woken or got a link goes on before the next thing happens.
"""

from __future__ import annotations

from collections import deque

import simpy
from simpy_moves import BYTES_SUFFICE, At, Move, Packet, soon

CONTROL_BYTES = 128
CPU, PCI, LINK, PROCESSOR = 2, 3, 4, 5  # kinds


class Node:
    """A host and its NIC."""

    def __init__(self, env, number, costs, delivery, runs, model):
        self.env, self.delivery, self.model = env, delivery, model
        self.number, self.priority = number, 8 * (number + 1)
        self.__dict__.update(costs)
        self.minpulse_send, self.minpulse_receive = (
            delivery.minpulse_send,
            delivery.minpulse_receive,
        )
        self.runs = runs
        self.posted_count = self.ring_used = self.accepted = 0
        self.send_free, self.receive_free = delivery.send_buffers, delivery.receive_buffers
        self.ring, self.outgoing, self.unsent = deque(), deque(), deque()
        self.incoming, self.undrained, self.unposted = deque(), deque(), deque()
        self.seen = deque()
        self.pio = False
        self.pci, self.pci_packet = None, None
        self.tx_busy = self.control_posted = False
        self.payload_posted = None  # packet
        self.stalled = None  # what netTx waits for: (packet, or None for a control message; event)
        self.flows = 0
        self.flow_out = self.flow_in = None  # (move, sender, receiver)
        self.asleep, self.alarm = False, None
        self.cpu_idle = False
        self.bell, self.cpu_bell, self.tx_bell = (simpy.Event(env) for _ in range(3))
        self.tx_job = None
        checks = (
            (self.may_post_control, self.post_control, self.firmware_start),
            (self.may_post_payload, self.post_payload, self.firmware_start),
            (self.may_start_host_rcv, self.start_host_rcv, self.firmware_start),
            (self.may_complete, self.complete, self.firmware_finish),
            (self.may_start_net_tx, self.start_net_tx, self.firmware_start),
            (self.may_finish, self.finish, self.firmware_finish),
            (self.may_start_host_tx, self.start_host_tx, self.firmware_start),
        )
        self.turns = [checks[i:] + checks[:i] for i in range(7)]
        self.turn_after = {check[0]: (i + 1) % 7 for i, check in enumerate(checks)}
        env.process(self.firmware())
        env.process(self.host())
        env.process(self.link_transmit())

    # --- processes ------------------------------------------------------------------------------

    def host(self):
        env, priority = self.env, self.priority + CPU
        while True:
            if self.seen:
                packet = self.seen.popleft()
                self.set_pio(True)
                yield At(env, self.pio_read, priority)
                self.set_pio(bool(self.seen))  # rates differ once: a read may follow at once
                self.accepted -= 1
                self.model.read.append((packet.sender.number, packet.number, env.now))
                self.ring_bell()
            elif self.runs and self.ring_used < self.delivery.send_ring:
                destination, payload, left = self.runs[0]
                if left > 1:
                    self.runs[0] = (destination, payload, left - 1)
                else:
                    self.runs.popleft()
                receiver = self.model.nodes[destination]
                packet = Packet(self, receiver, self.posted_count, payload, env.now)
                self.posted_count += 1
                self.ring_used += 1
                yield At(env, self.send_call, priority)
                self.set_pio(True)
                yield At(env, self.pio_write, priority)
                self.set_pio(bool(self.seen))
                self.ring.append(packet)
                self.ring_bell()
            else:
                self.cpu_idle = True
                self.cpu_bell = env.event()
                yield self.cpu_bell

    def firmware(self):
        env, turn, priority = self.env, self.turns[0], self.priority + PROCESSOR
        while True:
            for check, effect, cost in turn:
                if check():
                    yield At(env, cost, priority)
                    effect()
                    turn = self.turns[self.turn_after[check]]
                    break
            else:
                self.asleep = True
                self.bell = env.event()
                self.set_alarm()
                yield self.bell

    def link_transmit(self):
        env, model, priority = self.env, self.model, self.priority + LINK
        requests = []
        while True:
            if self.tx_job is None:
                self.tx_bell = env.event()
                yield self.tx_bell
            packet, byte_count = self.tx_job
            receiver = packet.receiver
            yield At(env, self.link_start, priority)
            if not requests:
                for link in model.paths[self.number, receiver.number]:
                    requests.append(model.links[link].request())
                    yield requests[-1]
                hops = model.hops[self.number, receiver.number]
                if hops:
                    yield At(env, hops * self.switch_hop, priority)
            control = byte_count is None
            if not (receiver.control_posted if control else receiver.payload_posted is packet):
                posted = env.event()
                receiver.stalled = (None if control else packet, posted)
                yield posted
            over = env.event()
            self.begin_flow(packet, receiver, byte_count, over)
            yield over
            self.tx_job, self.tx_busy = None, False
            whole = packet.sent == packet.payload and packet.control_sent
            if whole:
                self.unsent.popleft()
                for request in requests:
                    request.resource.release(request)
                requests = []
            self.flow_is_over(packet, receiver, control, whole)

    # --- waking up ------------------------------------------------------------------------------

    def ring_bell(self):
        if self.asleep:
            self.asleep = False
            soon(self.bell)

    def ring_cpu(self):
        if self.cpu_idle:
            self.cpu_idle = False
            soon(self.cpu_bell)

    def set_alarm(self):
        """While the firmware sleeps: when the bytes suffice that NET_TX or HOST_RCV waits for."""
        if not self.asleep:
            return
        self.alarm = None
        times = []
        if not self.tx_busy and self.unsent:
            packet = self.unsent[0]
            target = min(packet.payload, packet.taken_by_net + self.minpulse_send + 1)
            if packet.control_sent and packet.source is not None:
                times.append(packet.source.when(target))
        if self.pci is None and self.undrained:
            packet = self.undrained[0]
            if packet.flow is not None:
                target = min(packet.payload, packet.taken_by_host + self.minpulse_receive + 1)
                target -= packet.landed
                if target <= packet.flow.base + packet.flow.rest:
                    times.append(packet.flow.when(target))
        if times:
            delay = max(0, min(times) - self.env.now)
            self.alarm = At(self.env, delay, self.priority + BYTES_SUFFICE)
            self.alarm.callbacks.append(self.alarm_rings)

    def alarm_rings(self, alarm):
        if alarm is self.alarm:
            self.ring_bell()

    # --- rates ----------------------------------------------------------------------------------

    def share(self):
        memory = self.nic_memory_per_byte
        shared = self.flows * memory
        if self.pci is not None:
            rate = self.pci.rate
            shared = self.flows * (memory * rate // (rate - memory))
        return max(shared, 2 * memory)  # an engine has one of the memory's two ports

    def set_pio(self, pio):
        self.pio = pio
        if self.pci is not None:
            self.pci.set_rate(self.pci_rate(self.pci_packet.sender is self))
            self.set_flow_rates()

    def pci_rate(self, reads):
        if reads:
            return self.pci_read_contended_per_byte if self.pio else self.pci_read_per_byte
        return self.pci_write_contended_per_byte if self.pio else self.pci_write_per_byte

    def set_flow_rates(self):
        for flow in (self.flow_out, self.flow_in):
            if flow is not None:
                move, sender, receiver = flow
                move.set_rate(max(sender.link_per_byte, sender.share(), receiver.share()))

    # --- flows ----------------------------------------------------------------------------------

    def begin_flow(self, packet, receiver, byte_count, over):
        self.flows += 1
        receiver.flows += 1
        self.set_flow_rates()
        receiver.set_flow_rates()
        rate = max(self.link_per_byte, self.share(), receiver.share())
        count = CONTROL_BYTES if byte_count is None else byte_count

        def end(_):
            self.flows -= 1
            receiver.flows -= 1
            self.flow_out = receiver.flow_in = None
            if byte_count is not None:
                packet.flow = None
                packet.sent += byte_count
                packet.landed += byte_count
            self.set_flow_rates()
            receiver.set_flow_rates()
            soon(over)

        sleeper = None if byte_count is None else receiver
        move = Move(self.env, self.env.now, count, rate, end, sleeper, self.priority + LINK)
        self.flow_out = receiver.flow_in = (move, self, receiver)
        if byte_count is not None:
            packet.flow = move
            receiver.set_alarm()

    def flow_is_over(self, packet, receiver, control, whole):
        if control:
            receiver.control_posted = False
            receiver.incoming.append(packet)
            receiver.accepted += 1
            if packet.payload:
                receiver.unposted.append(packet)
                receiver.undrained.append(packet)
        elif whole:
            receiver.payload_posted = None
        self.ring_bell()
        receiver.ring_bell()

    # --- firmware -------------------------------------------------------------------------------

    def may_post_control(self):
        if self.control_posted or self.payload_posted is not None or self.unposted:
            return False
        return self.accepted < self.delivery.receive_ring

    def post_control(self):
        self.control_posted = True
        self.end_stall(None)

    def may_post_payload(self):
        return self.unposted and self.receive_free and self.payload_posted is None

    def post_payload(self):
        self.receive_free -= 1
        self.payload_posted = self.unposted.popleft()
        self.end_stall(self.payload_posted)

    def end_stall(self, packet):
        if self.stalled is not None and self.stalled[0] is packet:
            soon(self.stalled[1])
            self.stalled = None

    def may_start_host_rcv(self):
        if self.pci is not None or not self.undrained:
            return False
        packet = self.undrained[0]
        deposited = packet.in_receiver()
        there = deposited - packet.taken_by_host
        return there > self.minpulse_receive or (there > 0 and deposited == packet.payload)

    def start_host_rcv(self):
        packet = self.undrained[0]
        count = packet.in_receiver() - packet.taken_by_host
        packet.taken_by_host += count
        self.start_pci(packet, self.pci_write_start, count, False, self.host_rcv_over)

    def start_pci(self, packet, start, count, reads, over):
        sleeper = self if reads else None
        begins = self.env.now + start
        rate = self.pci_rate(reads)
        self.pci = Move(self.env, begins, count, rate, over, sleeper, self.priority + PCI)
        self.pci_packet = packet
        self.set_flow_rates()

    def host_rcv_over(self, move):
        packet = self.pci_packet
        packet.drained += move.base
        if packet.drained == packet.payload:
            self.undrained.popleft()
        self.pci_is_idle()

    def pci_is_idle(self):
        self.pci = self.pci_packet = None
        self.set_flow_rates()
        self.ring_bell()

    def may_complete(self):
        return self.incoming and self.incoming[0].drained == self.incoming[0].payload

    def complete(self):
        packet = self.incoming.popleft()
        if packet.payload:
            self.receive_free += 1
        self.seen.append(packet)
        self.ring_cpu()

    def may_start_net_tx(self):
        if self.tx_busy or not self.unsent:
            return False
        packet = self.unsent[0]
        if not packet.control_sent:
            return True
        deposited = packet.in_sender()
        there = deposited - packet.taken_by_net
        return there > self.minpulse_send or (there > 0 and deposited == packet.payload)

    def start_net_tx(self):
        packet, count = self.unsent[0], None
        if packet.control_sent:
            count = packet.in_sender() - packet.taken_by_net
            packet.taken_by_net += count
        packet.control_sent = True
        self.tx_busy = True
        self.tx_job = (packet, count)
        soon(self.tx_bell)

    def may_finish(self):
        return self.outgoing and (not self.unsent or self.outgoing[0] is not self.unsent[0])

    def finish(self):
        packet = self.outgoing.popleft()
        if packet.payload:
            self.send_free += 1
        self.ring_used -= 1
        self.ring_cpu()

    def may_start_host_tx(self):
        if not self.ring:
            return False
        return not self.ring[0].payload or (self.pci is None and self.send_free > 0)

    def start_host_tx(self):
        packet = self.ring.popleft()
        self.outgoing.append(packet)
        self.unsent.append(packet)
        if packet.payload:
            self.send_free -= 1
            self.start_pci(packet, self.pci_read_start, packet.payload, True, self.host_tx_over)
            packet.source = self.pci

    def host_tx_over(self, _):
        self.pci_is_idle()


class Model:
    """Nodes and links; ``read`` are (sender, packet, ps) in the order in which hosts read them."""

    def __init__(self, costs, delivery, topology, runs):
        self.env = simpy.Environment()
        self.paths, self.hops = topology.paths, topology.hops
        self.links = [simpy.Resource(self.env) for _ in range(topology.links)]
        self.read = []
        self.nodes = []
        for number, cost in enumerate(costs):
            own = deque(run[1:] for run in runs if run[0] == number)
            self.nodes.append(Node(self.env, number, cost, delivery, own, self))

    def run(self):
        self.env.run()
        return self.read


def simulate(costs, delivery, topology, runs):
    """Finishing times: (sender, packet, ps); ``runs`` are (sender, destination, payload, count)."""
    return Model(costs, delivery, topology, runs).run()
