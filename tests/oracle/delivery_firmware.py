"""What the firmware of the delivery oracle does next, and what an action of it has done."""

from __future__ import annotations

from oracle.delivery_records import (
    COMPLETE,
    CONTROL_BYTES,
    CUT_THROUGH,
    FINISH,
    FIRMWARE,
    FROM_HOST,
    POST_CONTROL,
    POST_PAYLOAD,
    TO_HOST,
    TO_NET,
    Action,
    Half,
    HeldUp,
    Pci,
    Posted,
    Transfer,
    Tx,
)


class Firmware:
    """What the firmware of the delivery oracle does next, and what an action of it has done."""

    tasks = 7

    def look(self):
        for number in sorted(self.concerned):
            self.cpu_looks(self.nodes[number])
        self.set_rates()
        for number in sorted(self.concerned):
            self.processor_looks(self.nodes[number])

    def processor_looks(self, node):
        for step in range(1, self.tasks + 1):
            task = (node.last_task + step) % self.tasks
            if node.processor is None and self.ready(node, task):
                self.begin(node, task)

    def follow_at_once(self, node):
        """Actions that take no time follow each other, before anything else happens."""
        self.processor_looks(node)
        while node.processor is not None and node.processor.ends == self.now:
            self.action_ends(node)
            self.processor_looks(node)

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
        if task == POST_PAYLOAD:
            cost += node.costs["firmware_accept"]
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
                half.control_taken, count = True, self.header_bytes(node, message)
                half.path = list(self.paths[node.number, message.destination])
            else:
                count = self.what_is_there(half, self.delivery.minpulse_send)
                half.sunk += count
            ends = message.payload == (0 if control else half.sunk)
            framing = self.framing(node, message) if ends else 0
            begins = self.now + node.costs["link_start"]
            node.tx = Tx(half, control, count, self.now, begins, framing)
            if not control and begins == self.now:
                node.tx.phase = "stall"
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

    def header_bytes(self, node, message):  # noqa: ARG002
        """What a packet has on the link before its payload."""
        return CONTROL_BYTES

    def framing(self, node, message):  # noqa: ARG002
        """And behind it."""
        return 0

    def begin_pci(self, node, half, to_host, count):
        way = "write" if to_host else "read"
        node.pci = Pci(to_host, half, self.now, None)
        start, rate = node.costs[f"pci_{way}_start"], self.pci_rate(node)
        if node.master is None:
            node.pci.transfer = Transfer(self.now + start, count, rate)
        else:
            node.pci.transfer = HeldUp(node.master, self.now, start, count, rate)
