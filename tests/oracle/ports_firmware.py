"""What the NIC of a node with ports does: SERVE at the sender, placement at the receiver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oracle.delivery import (
    COMPLETE,
    FINISH,
    FIRMWARE,
    FROM_HOST,
    POST_PAYLOAD,
    Action,
    Half,
)
from oracle.ports import (
    BAD,
    DONE,
    FETCH,
    NO_BUFFER,
    NO_RIGHTS,
    NO_TAG,
    OUT_OF_BOUNDS,
    REJECTED,
    REPLY,
    SEND,
    WRITE,
    Hosts,
    Packet,
    Received,
)

SERVE, MISS = 7, 8  # tasks
WANTED, LATER = "wanted", "later"  # of a packet; LATER: it may come again
MOST_BUFFERS = 16


@dataclass(eq=False)
class Arriving:
    """A message that is put together."""

    channel: int
    expected: int = 0
    buffers: list[int] = field(default_factory=list)


class Firmware(Hosts):
    """The eight tasks."""

    def __init__(self, world):
        super().__init__(world)
        self.numbered = {}  # (sender, receiver): packets so far
        self.wanted = {}
        self.arriving = {}  # (node, tag): Arriving

    def run(self):
        self.concerned = set(range(len(self.nodes)))
        self.look()
        self.after_event()
        while (event := self.next_event()) is not None:
            self.now, number, kind = event
            self.events += 1
            self.concerned = {number}
            self.happen(self.nodes[number], kind)
            self.go_on()
            self.look()
            if (following := self.next_event()) is None or following[0] > self.now:
                self.after_event()
            if self.all_ended():
                break
        return self

    def look(self):
        for number in sorted(self.concerned):
            self.cpu_looks(self.nodes[number])
        self.set_rates()
        for number in sorted(self.concerned):
            node = self.nodes[number]
            if node.processor is None:
                for step in range(1, 9):
                    task = (node.last_task + step) % 8
                    if self.ready(node, task):
                        self.begin(node, task)
                        break

    def ready(self, node, task):
        if task == SERVE:
            room = node.send_ring() < self.delivery.send_ring
            node.serving = self.choose(node) if room else None
            return node.serving is not None
        return super().ready(node, task)

    def begin(self, node, task):
        if task == SERVE:
            cost = node.costs["firmware_start"] + self.serve_cost(node, *node.serving)
            node.processor = Action(task, self.now, self.now + cost)
            node.last_task = task
            return
        super().begin(node, task)
        half = node.processor.half
        if task == POST_PAYLOAD and half.verdict == WANTED:
            node.processor.ends += self.placing_cost(node, half.message)
        elif task == COMPLETE and half.verdict == WANTED and half.message.last:
            node.processor.ends += node.service["receive_message"]

    def action_ends(self, node):
        action = node.processor
        half, task = action.half, action.what
        if task == MISS:
            node.processor = None
            self.record(None, node, FIRMWARE, action.start, 0, task=task)
            action.then()
            return
        if task == SERVE:
            node.processor = None
            self.serve(node, *node.serving)
            self.record(None, node, FIRMWARE, action.start, 0, task=task)
            return
        super().action_ends(node)
        if task == FINISH:
            self.has_left(node, half.message)
        elif task == POST_PAYLOAD:
            self.place(node, half)
        elif task == COMPLETE:
            if not half.done:
                node.seen.remove(half.message)
                node.accepted -= 1
            self.complete(node, half)
        elif task == FROM_HOST and half.message.payload:
            packet = half.message
            packet.content = self.read(node, packet.space, packet.source, packet.payload)

    # --- serving --------------------------------------------------------------------------------

    def choose(self, node):
        """What SERVE is for, or None."""
        count = len(node.ports)
        for step in range(1, count + 1):
            port = node.ports[(node.last_served + step) % count]
            if port.free and self.may_translate_ahead(port):
                return "buffer", port
            if port.current is not None:
                if self.may_send_to(node, port.current.peer):
                    return "next", port
                continue
            if port.requests:
                return "new", port
        return None

    def may_translate_ahead(self, port):
        """Whether a buffer is wanted, and there is a place for it among those ready and filling."""
        most = self.world.ready + self.world.ring
        room = len(port.ready) < self.world.ready and len(port.ready) + port.filling < most
        return room and not port.waits_for_reader

    def serve_cost(self, node, what, port):
        service = node.service
        if what == "buffer":
            return service["lookup_free"]
        descriptor = port.current if what == "next" else port.requests[0]
        cost = service["serve_request"] if what == "new" else 0
        if descriptor.content is None and descriptor.operation != FETCH:
            place = descriptor.place()[0] // self.world.page
            if descriptor.page != place:
                cost += service["lookup_send"]
        return cost

    def serve(self, node, what, port):
        node.last_served = port.number
        if what == "buffer":
            self.serve_buffer(node, port)
            return
        if what == "new":
            descriptor = port.requests.popleft()
            status = self.check(node, port, descriptor)
            if status != DONE:
                self.end_descriptor(node, port, descriptor, status)
                return
            port.current = descriptor
        if self.may_send_to(node, port.current.peer):
            self.make_packet(node, port, port.current)

    def may_send_to(self, node, peer):
        """Whether the window is open."""
        return True

    def serve_buffer(self, node, port):
        address = port.free[0]

        def then(status, space):
            if status == DONE:
                port.ready.append((port.free.popleft(), space))
            elif self.has_place(port):
                self.give_back(node, port, port.free.popleft(), status)
            else:
                port.waits_for_reader = True

        self.translate(node, port.space, address // self.world.page, True, None, then)

    def check(self, node, port, descriptor):
        """Lengths and operation, then tag or import, then bounds and rights."""
        if descriptor.operation == REPLY:
            return DONE
        if descriptor.operation == SEND:
            channel = node.channels.get(descriptor.name)
            if channel is None or channel.port != port.number:
                return NO_TAG
            descriptor.peer = channel.node
            return DONE if descriptor.length <= channel.most else OUT_OF_BOUNDS
        fetch = descriptor.operation == FETCH
        if fetch and (len(descriptor.segments) != 1 or not self.world.reliable):
            return BAD
        one = node.imports.get(descriptor.name)
        if one is None or one.port != port.number:
            return NO_BUFFER
        descriptor.peer = one.node
        if not 0 <= descriptor.offset <= one.length - descriptor.length:
            return OUT_OF_BOUNDS
        return DONE

    def make_packet(self, node, port, descriptor):
        packet = Packet(node.number, 0, descriptor.peer, 0, self.now)
        packet.operation, packet.descriptor = descriptor.operation, descriptor
        packet.port = port.number
        packet.whole, packet.begins = descriptor.length, descriptor.offset
        packet.notify, packet.at = descriptor.notify, descriptor.made
        there = self.name_place(node, packet, descriptor)
        if descriptor.content is not None or descriptor.operation == FETCH or descriptor.void:
            packet.content = descriptor.content
            descriptor.made = descriptor.length
        else:
            address, left = descriptor.place()
            page, before = divmod(address, self.world.page)
            if descriptor.page != page:
                self.look_up_to_send(node, port, descriptor, page)
                return
            packet.payload = min(left, self.world.page - before, there)
            packet.source, packet.space = address, descriptor.source
            descriptor.made += packet.payload
        packet.last = descriptor.made == descriptor.length
        if packet.last:
            port.current = None
        self.number(node, packet)
        self.hand_over(node, packet)

    def hand_over(self, node, packet):
        """Give the packet to the engines."""
        packet.packet = node.next_packet
        node.next_packet += 1
        node.ring.append(packet)

    def name_place(self, node, packet, descriptor):
        """Say where the packet goes; how many bytes end a page, or a unit, there."""
        page = self.world.page
        if descriptor.operation == SEND:
            channel = node.channels[descriptor.name]
            packet.name, packet.sender_name = channel.tag, descriptor.name
            return channel.unit - descriptor.made % channel.unit
        if descriptor.operation == REPLY:
            return page - (descriptor.fetch.segments[0][0] + descriptor.made) % page
        one = node.imports[descriptor.name]
        packet.name = one.export
        packet.at += descriptor.offset
        return page - (one.start + packet.at) % page

    def number(self, node, packet):
        way = packet.sender, packet.destination
        packet.number = self.numbered[way] = self.numbered.get(way, -1) + 1

    def look_up_to_send(self, node, port, descriptor, page):
        def then(status, space):
            if status == DONE:
                descriptor.page, descriptor.source = page, space
                self.make_packet(node, port, descriptor)
            else:
                port.current = None
                self.cannot_send(node, port, descriptor, status)

        self.translate(node, descriptor.space, page, False, None, then)

    def cannot_send(self, node, port, descriptor, status):
        self.end_descriptor(node, port, descriptor, status)

    def has_left(self, node, packet):
        if packet.last:
            self.end_descriptor(node, node.ports[packet.port], packet.descriptor, DONE)

    # --- receiving ------------------------------------------------------------------------------

    def placing_cost(self, node, packet):
        service = node.service
        return service["lookup_buffer" if packet.operation == SEND else "lookup_receive"]

    def flow_ends(self, node):
        control, message = node.tx.control, node.tx.half.message
        super().flow_ends(node)
        if control:
            receiver = self.nodes[message.destination]
            half = receiver.incoming[-1]
            half.verdict, half.placed = WANTED, None
            self.header_is_in(receiver, half)

    def header_is_in(self, node, half):
        """The packet is judged."""

    def place(self, node, half):
        """A place for the payload, or none: then it passes by."""
        if half.verdict != WANTED:
            half.done = True
            return
        packet = half.message
        places = {SEND: self.place_send, WRITE: self.place_store, REPLY: self.place_reply}
        half.where = places[packet.operation](node, half)
        if half.where in (LATER, REJECTED):
            half.done = True
            self.turn_away(node, half, half.where)
        elif packet.operation != SEND:
            space, address = half.where

            def then(status, memory):
                half.where = memory, address
                if status != DONE:
                    half.done = True
                    self.turn_away(node, half, REJECTED)

            self.translate(node, space, address // self.world.page, True, half, then)

    def turn_away(self, node, half, why):
        half.verdict = why
        if half.message.operation == SEND:
            self.give_up(node, (node.number, half.message.name))

    def confirm(self, node, half):
        """Whether the packet counts; it is wholly in."""
        return half.verdict == WANTED

    def channel_of(self, node, packet):
        """The tag that the packet is for, if it is registered for its sender and that one's tag."""
        channel = node.channels.get(packet.name)
        if channel is None or (channel.node, channel.tag) != (packet.sender, packet.sender_name):
            return None
        return channel

    def place_send(self, node, half):
        packet, key = half.message, (node.number, half.message.name)
        channel = self.channel_of(node, packet)
        if channel is None:
            return REJECTED
        port = node.ports[channel.port]
        message = self.arriving.get(key)
        if packet.at == 0 and message is not None and message.expected > 0:
            self.give_up(node, key)
            message = None
        elif packet.at > 0 and (message is None or message.expected != packet.at):
            return REJECTED
        begins = packet.at % channel.unit == 0
        if begins:
            if packet.at // channel.unit == MOST_BUFFERS:
                return REJECTED
            self.return_misfits(node, port, channel)
            full = packet.at == 0 and not self.has_place(port)
            if full or not port.ready or self.is_misfit(channel, port.ready[0][0]):
                return LATER
        if message is None:
            port.reserved += 1
            message = self.arriving[key] = Arriving(packet.name)
        if begins:
            message.buffers.append(port.ready.popleft())
            port.filling += 1
        message.expected += packet.payload
        if packet.last:
            self.arriving.pop(key)
        half.placed = message
        address, space = message.buffers[-1]
        return space, address + packet.at % channel.unit

    def is_misfit(self, channel, address):
        return address % self.world.page + channel.unit > self.world.page

    def return_misfits(self, node, port, channel):
        """Those in front that do not hold a unit, while the queue of reports has a place."""
        while port.ready and self.is_misfit(channel, port.ready[0][0]) and self.has_place(port):
            self.give_back(node, port, port.ready.popleft()[0], BAD)

    def give_up(self, node, key):
        message = self.arriving.pop(key, None)
        if message is not None:
            port = node.ports[node.channels[key[1]].port]
            port.reserved -= 1
            port.filling -= len(message.buffers)
            port.ready.extend(message.buffers)  # behind the others

    def place_store(self, node, half):
        packet = half.message
        export = node.exports.get(packet.name)
        if export is None or packet.at + packet.payload > export.length:
            return REJECTED
        return export.space, export.start + packet.at

    def place_reply(self, node, half):
        fetch = half.message.descriptor.fetch
        if fetch.status is not None:
            return REJECTED
        return fetch.space, fetch.segments[0][0] + half.message.at

    def pci_ends(self, node):
        pci = node.pci
        super().pci_ends(node)
        if pci.to_host:
            begin = pci.half.out - pci.transfer.byte_count
            space, address = pci.half.where
            piece = pci.half.message.content[begin : pci.half.out]
            self.write(node, space, address + begin, piece)

    def complete(self, node, half):
        packet = half.message
        if half.verdict == WANTED and not packet.payload:
            why = self.take_control(node, packet)
            if why != DONE:
                self.turn_away(node, half, why)
        if not self.confirm(node, half) or not packet.payload:
            return
        if packet.operation == SEND and packet.last:
            channel = node.channels[packet.name]
            port, buffers = node.ports[channel.port], tuple(address for address, _ in half.placed.buffers)
            port.reserved -= 1
            port.filling -= len(buffers)
            self.report(port, SEND, packet, None, buffers, 0)
        elif packet.operation == WRITE:
            packet.descriptor.in_memory += packet.payload
            if packet.last and packet.notify and packet.descriptor.in_memory == packet.whole:
                port = node.ports[node.exports[packet.name].port]
                if self.has_place(port):
                    self.report(port, WRITE, packet, None, (), packet.begins)
        elif packet.operation == REPLY:
            fetch = packet.descriptor.fetch
            fetch.in_memory += packet.payload
            if fetch.in_memory == fetch.length:
                self.end_descriptor(node, node.ports[packet.descriptor.name], fetch, DONE)

    def take_control(self, node, packet):
        """What a packet without payload asks for."""
        channel = self.channel_of(node, packet)
        if channel is None:
            return REJECTED
        port = node.ports[channel.port]
        if not self.has_place(port):
            return LATER
        self.report(port, SEND, packet, packet.content, (), 0)
        return DONE

    def report(self, port, operation, packet, content, buffers, offset):
        report = Received(
            operation, packet.name, packet.sender, packet.whole, content, buffers, offset, DONE
        )
        port.received.append(report)

    # --- memory ---------------------------------------------------------------------------------

    def memory_of(self, node, space, address):
        """The bytes of a process; where its page is not pinned, those of the garbage page."""
        if space is not None:
            return self.bytes[node.number, space], address
        return self.garbage[node.number], address % self.world.page

    def read(self, node, space, address, count):
        memory, place = self.memory_of(node, space, address)
        return bytes(memory[place : place + count])

    def write(self, node, space, address, piece):
        memory, place = self.memory_of(node, space, address)
        memory[place : place + len(piece)] = piece
