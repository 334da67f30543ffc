"""What the NIC of a node with ports does with packets that come: places, messages, reports."""

from __future__ import annotations

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from dataclasses import dataclass, field
from typing import Any

from oracle.ports import Hosts
from oracle.ports_records import (
    BAD,
    CUT,
    DONE,
    EXPORT,
    NO_ANSWER,
    NO_ENTRY,
    NO_TRANSLATION,
    PAGE_OUT,
    REJECTED,
    REPLY,
    SEND,
    WRITE,
    WRITES,
    Ready,
    Received,
)

MOST_BUFFERS = 16
WANTED, LATER = "wanted", "later"  # of a packet; LATER: it may come again


@dataclass(eq=False)
class Arriving:
    """A message that is put together."""

    expected: int = 0
    arrived: int = 0  # bytes that are in memory
    buffers: list[Ready] = field(default_factory=list)
    descriptor: Any = None  # of the sender


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
        cost = node.service["lookup_receive"] + self.arriving_handles_cost(node, half.message)
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
            half.verdict, half.placed, half.where = WANTED, None, None
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
        asks = packet.operation == WRITE or (packet.operation == REPLY and half.where != REJECTED)
        if asks and not self.knows_packet(node, packet):
            half.done = True
            self.turn_away(node, half, LATER, NO_TRANSLATION)
        elif half.where in (LATER, REJECTED):
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
                    later = status in (NO_ENTRY, NO_TRANSLATION)
                    if later:
                        self.note_miss(node, packet)
                    self.turn_away(node, half, LATER if later else REJECTED, status)

            page, repeats = address // self.world.page, self.comes_again(node, packet)
            self.translate(node, space, page, WRITES, half, then, repeats)

    def arriving_handles_cost(self, node, packet):
        """Of looking up whom and what it names, where that is not at hand."""
        return 0

    def knows_packet(self, node, packet):
        """Whether that has been found."""
        return True

    def comes_again(self, node, packet):
        """Whether the packet's page has been looked up and missed before."""
        return False

    def note_miss(self, node, packet):
        """It will come again, and be looked up then."""

    def turn_away(self, node, half, why, status=None):
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
        return channel if node.ports[channel.port].open else None

    def place_send(self, node, half):
        packet, key = half.message, (node.number, half.message.name)
        channel = self.channel_of(node, packet)
        if channel is None:
            return REJECTED
        port = node.ports[channel.port]
        message = self.arriving.get(key)
        if packet.at == 0 and message is not None:
            self.give_up(node, key)
            message = None
        elif packet.at > 0 and (
            message is None
            or message.expected != packet.at
            or message.descriptor is not packet.descriptor
        ):
            return REJECTED
        if packet.at % channel.unit == 0:
            if packet.at // channel.unit == MOST_BUFFERS:
                return REJECTED
            self.return_misfits(node, port, channel)
            if message is None:
                if not self.has_place(port):
                    return LATER
                port.reserved += 1  # and stays so while the packet comes again
                message = self.arriving[key] = Arriving(descriptor=packet.descriptor)
            if not port.ready or not self.fits(channel, port.ready[0]):
                return LATER
            message.buffers.append(port.ready.popleft())
            port.filling += 1
        message.expected += packet.payload
        if packet.last:
            self.arriving.pop(key)
        half.placed = message
        buffer = message.buffers[-1]
        return buffer.source, buffer.address + packet.at % channel.unit

    def fits(self, channel, buffer):
        within = buffer.address % self.world.page + channel.unit <= self.world.page
        return buffer.there and within

    def return_misfits(self, node, port, channel):
        """Those in front that do not hold a unit, while the queue of reports has a place."""
        while port.ready and not self.fits(channel, port.ready[0]) and self.has_place(port):
            buffer = port.ready.popleft()
            self.leave_buffer(node, buffer)
            why = buffer.refused or PAGE_OUT
            self.give_back(node, port, buffer.address, BAD if buffer.there else why)

    def hold_buffer(self, node, buffer, page):
        """Keep the page of a buffer that is ready where it is."""

    def leave_buffer(self, node, buffer):
        """The buffer is its process's again."""
        if buffer.holds is not None:
            self.let_go(node, *buffer.holds)
            buffer.holds = None

    def give_up(self, node, key):
        message = self.arriving.pop(key, None)
        if message is not None:
            self.put_back(node, key[1], message)

    def put_back(self, node, tag, message):
        """Buffers that were to be filled wait for another message, behind the others."""
        port = node.ports[node.channels[tag].port]
        port.reserved -= 1
        port.filling -= len(message.buffers)
        port.ready.extend(message.buffers)

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
                later = why in (NO_TRANSLATION, NO_ANSWER)
                self.turn_away(node, half, LATER if later else why, why)
        if not self.confirm(node, half) or not packet.payload:
            return
        if packet.operation == SEND and half.placed is None:
            return  # the link's watchdog ended it before it had a place
        if packet.operation == SEND:
            half.placed.arrived += packet.payload
        if packet.operation == SEND and packet.last and half.placed.arrived != packet.whole:
            self.put_back(node, packet.name, half.placed)
        elif packet.operation == SEND and packet.last:
            channel = node.channels[packet.name]
            port = node.ports[channel.port]
            buffers = tuple(buffer.address for buffer in half.placed.buffers)
            for buffer in half.placed.buffers:
                self.leave_buffer(node, buffer)
            port.reserved -= 1
            port.filling -= len(buffers)
            for address in buffers:
                self.leave(node, port.space, self.pages_of(address, 1))
            self.report(port, SEND, packet, None, buffers, 0)
        elif packet.operation == WRITE:
            packet.descriptor.in_memory += packet.payload
            if packet.last and packet.notify and packet.descriptor.in_memory == packet.whole:
                export = node.exports.get(packet.name) or node.gone[EXPORT, packet.name]
                port = node.ports[export.port]  # which may have closed since this came
                if self.has_place(port):
                    self.report(port, WRITE, packet, None, (), packet.begins)
        elif packet.operation == REPLY:
            self.take_piece(node, packet, None)

    def take_piece(self, node, packet, failure):
        """A piece of an answer is in, or may not go where it should; the last ends the fetch."""
        fetch = packet.descriptor.fetch
        fetch.failure = failure or fetch.failure
        if packet.last and fetch.status is None:
            port = node.ports[packet.descriptor.name]
            self.end_descriptor(port, fetch, fetch.failure or DONE)

    def take_control(self, node, packet):
        """What a packet without payload asks for."""
        channel = self.channel_of(node, packet)
        if channel is None:
            return REJECTED
        if packet.operation == CUT:
            message = self.arriving.get((node.number, packet.name))
            if message is not None and message.descriptor is packet.descriptor:
                self.give_up(node, (node.number, packet.name))
            return DONE
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
