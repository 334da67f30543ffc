"""What the NIC of a node with ports does with packets that come: places, messages, reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from oracle.ports import BAD, DONE, NO_ENTRY, REJECTED, REPLY, SEND, WRITE, WRITES, Hosts, Received

MOST_BUFFERS = 16
WANTED, LATER = "wanted", "later"  # of a packet; LATER: it may come again


@dataclass(eq=False)
class Arriving:
    """A message that is put together."""

    expected: int = 0
    buffers: list[int] = field(default_factory=list)


class Receiving(Hosts):
    """From the header to the report."""

    def __init__(self, world):
        super().__init__(world)
        self.arriving = {}  # (node, tag): Arriving
        self.bytes = {}  # (node, space): the memory of a process
        self.garbage = [bytearray(world.page) for _ in self.nodes]

    def placing_cost(self, node, half):
        """Of the lookup, by what the NIC takes the packet for when it begins."""
        if half.message.operation == SEND:
            return node.service["lookup_buffer"]
        cost = node.service["lookup_receive"]
        place = (
            self.place_store(node, half)
            if half.message.operation == WRITE
            else self.place_reply(node, half)
        )
        if place == REJECTED:
            return cost
        return cost + self.ways_cost(node, *place)

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
                if status == DONE:
                    self.hold_for(node, half, memory, address // self.world.page)
                else:
                    half.done = True
                    self.turn_away(node, half, LATER if status == NO_ENTRY else REJECTED)

            self.translate(node, space, address // self.world.page, WRITES, half, then)
        else:
            space, address = half.where
            self.hold_for(node, half, space, address // self.world.page)

    def turn_away(self, node, half, why):
        half.verdict = why
        if half.message.operation == SEND and why == LATER:
            self.give_up(node, (node.number, half.message.name))

    def confirm(self, node, half):
        """Whether the packet counts; it is wholly in."""
        raise NotImplementedError

    def channel_of(self, node, packet):
        """The tag that the packet is for, if it is registered for its sender and that one's tag."""
        channel = node.channels.get(packet.name)
        if channel is None or (channel.node, channel.peer_tag) != (
            packet.sender,
            packet.sender_name,
        ):
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
        if packet.at % channel.unit == 0:
            if packet.at // channel.unit == MOST_BUFFERS:
                return REJECTED
            self.return_misfits(node, port, channel)
            if message is None:
                if not self.has_place(port):
                    return LATER
                port.reserved += 1  # and stays so while the packet comes again
                message = self.arriving[key] = Arriving()
            if not port.ready or self.is_misfit(channel, port.ready[0][0]):
                return LATER
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

    def place_reply(self, _, half):
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
        if half.holds is not None:
            self.let_go(node, *half.holds)
        if half.verdict == WANTED and not packet.payload:
            why = self.take_control(node, packet)
            if why != DONE:
                self.turn_away(node, half, why)
        if not self.confirm(node, half) or not packet.payload:
            return
        if packet.operation == SEND and packet.last:
            channel = node.channels[packet.name]
            port, buffers = (
                node.ports[channel.port],
                tuple(address for address, _ in half.placed.buffers),
            )
            port.reserved -= 1
            port.filling -= len(buffers)
            for address in buffers:
                self.leave(node, port.space, self.pages_of(address, 1))
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
                self.end_descriptor(node.ports[packet.descriptor.name], fetch, DONE)

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
