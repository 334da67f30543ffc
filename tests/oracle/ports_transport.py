"""Packets of ports that are brought again until they are acknowledged, and answers to fetches."""

from copy import copy

from oracle.ports_cells import InCells
from oracle.ports_firmware import MISS, SERVE
from oracle.ports_receiving import LATER, WANTED
from oracle.ports_records import (
    ACK,
    CUT,
    DONE,
    FETCH,
    NO_ANSWER,
    NO_ENTRY,
    NO_RIGHTS,
    NO_ROOM,
    NO_TRANSLATION,
    PROBE,
    REJECTED,
    REPLY,
    SEND,
    Descriptor,
)
from oracle.transport import Link

LOST = "lost"  # of a packet


class Stream(Link):
    """What a node knows of one peer, and what it has sent there."""

    def __init__(self):
        super().__init__()
        self.packets = {}  # by number, until acknowledged
        self.holds = {}  # their pages, likewise
        self.refused_there = set()  # numbers that the peer has rejected
        self.rejects = set()  # numbers that were rejected here
        self.ack_at = None
        self.heard_at = 0
        self.message_due_at = None  # of a message, and when it is missed
        self.ack_wanted = False
        self.retransmit_at = None
        self.awaited = []  # fetches whose answers have not all come
        self.turned_away = None
        self.missed = None  # the packet whose page is to be looked up again
        self.handle_missed = None, 0  # one whose handles are, and which of them
        self.hopeless = None  # one for whose page there is no place
        self.waits = self.since = None  # one that was dropped for a miss, and when first
        self.times = 0


class Reliable(InCells):
    """Go-back-n below the firmware, and what it makes possible: fetches."""

    def __init__(self, world):
        super().__init__(world)
        self.streams = {}

    def stream(self, node, peer):
        return self.streams.setdefault((node.number, peer), Stream())

    def streams_of(self, node):
        return [
            (peer, one) for (here, peer), one in sorted(self.streams.items()) if here == node.number
        ]

    # --- sender ---------------------------------------------------------------------------------

    def choose(self, node):
        for peer, stream in self.streams_of(node):
            if stream.ack_wanted:
                return "ack", peer
            if stream.to_send:
                return "again", peer
        return super().choose(node)

    def may_send_to(self, node, peer):
        if not self.world.reliable:
            return True
        stream = self.stream(node, peer)
        return stream.window_open(self.world.window) and not stream.to_send

    def is_given_up(self, node, peer):
        return self.world.reliable and self.stream(node, peer).dead

    def serve_cost(self, node, what, port):
        return 0 if what in ("ack", "again") else super().serve_cost(node, what, port)

    def serve(self, node, what, port):
        if what == "ack":
            if not self.stream(node, port).ack_wanted:
                return  # it has gone with a probe meanwhile
            self.hand_over(node, self.packet_to(node, port, operation=ACK))
        elif what == "again":
            stream = self.stream(node, port)
            if not stream.to_send:
                return
            before = stream.packets[stream.to_send[0]]
            stream.note_sent()
            again = copy(before)
            again.holds = copy(stream.holds.get(before.number))
            self.hand_over(node, again)
        else:
            super().serve(node, what, port)

    def number(self, node, packet):
        if not self.world.reliable:
            super().number(node, packet)
            return
        stream = self.stream(node, packet.to)
        packet.number = stream.number_next()
        own = packet.operation in (PROBE, CUT)  # parts of no message
        packet.asks = own or packet.last or (packet.number + 1) % self.world.ack_every == 0
        stream.note_sent()
        stream.packets[packet.number] = packet
        if packet.holds is not None:
            stream.holds[packet.number] = copy(packet.holds)
            self.hold_packet(node, packet.holds)
        if packet.operation == FETCH:
            stream.awaited.append(packet.descriptor)

    def has_left(self, node, packet):
        if not self.world.reliable:
            super().has_left(node, packet)
        elif packet.operation != ACK:
            self.let_packet_go(node, packet.holds)
            if self.stream(node, packet.to).is_outstanding():
                self.set_deadline(node, packet.to)

    def hand_over(self, node, packet):
        """With it goes what is to be acknowledged."""
        super().hand_over(node, packet)
        if self.world.reliable:
            stream = self.stream(node, packet.to)
            packet.ack = stream.take_ack()
            packet.rejects = frozenset(stream.rejects)
            stream.ack_at, stream.ack_wanted = None, False

    def timers(self, node):
        yield from super().timers(node)
        for _, stream in self.streams_of(node):
            for time in (stream.ack_at, stream.retransmit_at):
                if time is not None:
                    yield time

    def mind_peers(self, node):
        for peer, stream in self.streams_of(node):
            self.mind_peer(node, peer, stream)

    def mind_peer(self, node, peer, stream):
        """What is due of one peer."""
        if stream.ack_at == self.now:
            stream.ack_at, stream.ack_wanted = None, True
        if stream.retransmit_at == self.now:
            if stream.is_outstanding():
                if stream.time_out(self.world.most_retries) == "dead":
                    self.peer_dies(node, peer, stream)
            elif stream.awaited:
                self.probe(node, peer)
            self.set_deadline(node, peer)

    def peer_dies(self, node, peer, stream):
        """Nothing was heard of the peer for too long."""
        raise NotImplementedError

    def set_deadline(self, node, peer):
        stream = self.stream(node, peer)
        waits = stream.is_outstanding() or stream.awaited
        stream.retransmit_at = self.now + self.world.time_out if waits else None

    def probe(self, node, peer):
        """Ask for a sign of life; another packet must find a place in the ring besides.

        In a ring of one there is none besides: then none may be in the making.
        """
        ring = self.delivery.send_ring
        making = node.processor is not None and node.processor.what in (SERVE, MISS)
        if node.send_ring() + (1 if ring == 1 and not making else 2) <= ring:
            packet = self.packet_to(node, peer, operation=PROBE)
            packet.last = False  # of no message
            self.number(node, packet)
            self.hand_over(node, packet)

    def take_acknowledgement(self, node, packet):
        stream = self.stream(node, packet.by)
        stream.retries = 0  # a sign of life
        before = stream.acknowledged
        if not stream.take_acknowledgement(packet.ack):
            return
        for number in range(before, stream.acknowledged):
            gone = stream.packets.pop(number)
            descriptor = gone.descriptor
            self.let_packet_go(node, stream.holds.pop(number, None))
            if gone.operation in (PROBE, CUT):
                continue
            descriptor.refused |= number in packet.rejects
            if descriptor.operation == FETCH:
                if descriptor.refused:
                    self.end_descriptor(node.ports[gone.port], descriptor, REJECTED)
            elif gone.last and descriptor.operation != REPLY:
                status = REJECTED if descriptor.refused else DONE
                self.end_descriptor(node.ports[gone.port], descriptor, status)
        self.set_deadline(node, packet.by)  # unless what was awaited has just been refused

    # --- receiver -------------------------------------------------------------------------------

    def header_is_in(self, node, half):
        packet = half.message
        if packet.operation == ACK:
            half.verdict = "acknowledgement"
            return
        stream = self.stream(node, packet.by)
        half.verdict = stream.check_sequence(packet.number)

    def acknowledge_soon(self, stream):
        if stream.due and stream.ack_at is None and not stream.ack_wanted:
            if self.world.ack_delay:
                stream.ack_at = self.now + self.world.ack_delay
            else:
                stream.ack_wanted = True

    def complete(self, node, half):
        if half.verdict == LOST:
            return
        if self.world.reliable:
            self.take_acknowledgement(node, half.message)
        super().complete(node, half)

    def comes_again(self, node, packet):
        stream = self.stream(node, packet.by)
        again = stream.missed == packet.number and self.world.reliable
        if again:
            stream.missed = None
        return again

    def note_miss(self, node, packet):
        self.stream(node, packet.by).missed = packet.number

    def turn_away(self, node, half, why, status=None):
        if not self.world.reliable:
            super().turn_away(node, half, why)
            return
        packet = half.message
        stream = self.stream(node, packet.by)
        half.verdict = REJECTED
        half.told = NO_ROOM if status in (NO_ENTRY, NO_ROOM) else NO_RIGHTS
        if why == LATER and (
            status in (NO_TRANSLATION, NO_ANSWER) or self.may_come_again(stream, packet)
        ):
            half.verdict = LATER
            if stream.is_accepted(packet.number):
                self.take_back(node, packet)
            stream.refuse(packet.number)
            stream.due = True  # a sign of life, for the sender waits

    def confirm(self, node, half):
        """Whether the packet counts; it is wholly in."""
        if not self.world.reliable:
            return half.verdict == WANTED
        packet = half.message
        stream = self.stream(node, packet.by)
        if half.verdict in (WANTED, REJECTED) and stream.may_acknowledge(packet.number):
            stream.confirm(packet.asks or half.verdict == REJECTED)
            self.confirmed(node, packet)
            if half.verdict == REJECTED:
                stream.rejects.add(packet.number)
                if packet.operation == REPLY:
                    self.take_piece(node, packet, half.told)
                if packet.operation == SEND and self.channel_of(node, packet) is not None:
                    self.give_up(node, (node.number, packet.name))
        if packet.operation != ACK:
            self.acknowledge_soon(stream)
        return half.verdict == WANTED

    def confirmed(self, node, packet):
        """The packet is in for good."""

    def may_come_again(self, stream, packet):
        """A packet for which there is no place comes again so often; then it is rejected."""
        if stream.turned_away != packet.number:
            stream.turned_away, stream.times = packet.number, 0
        stream.times += 1
        return stream.times <= self.world.most_retries

    def take_back(self, node, packet, itself=None):
        """What the same sender sent after the packet is as if it had never come."""
        halves = node.incoming[::-1] + [itself] * (itself is not None)
        for half in halves:
            later = half.message
            after = later.by == packet.by and later.number > packet.number
            if not after and half is not itself:
                continue
            if half.verdict == WANTED:
                half.verdict = "gap"
            if half.placed:
                half.done = True  # the buffer is for others now
                message, half.placed = half.placed, None
                channel = node.channels[later.name]
                port = node.ports[channel.port]
                message.expected = later.at
                kept = -(-later.at // channel.unit)
                port.ready.extend(message.buffers[kept:])
                port.filling -= len(message.buffers[kept:])
                del message.buffers[kept:]
                self.arriving[node.number, later.name] = message
                if later.at == 0:
                    self.give_up(node, (node.number, later.name))

    # --- fetches --------------------------------------------------------------------------------

    def take_control(self, node, packet):
        if packet.operation == FETCH:
            if not self.knows_packet(node, packet):
                return NO_TRANSLATION
            export = node.exports.get(packet.name)
            if export is None or packet.at + packet.whole > export.length:
                return REJECTED
            answers = node.ports[0]
            if len(answers.requests) + 1 >= self.world.ring:
                return NO_ANSWER
            place = (export.start + packet.at, packet.whole)
            answer = Descriptor(0, REPLY, packet.port, [place], space=export.space)
            answer.fetch, answer.peer = packet.descriptor, packet.by
            answers.requests.append(answer)
            return DONE
        if packet.operation == PROBE:
            return DONE
        if packet.operation == REPLY:
            descriptor = packet.descriptor
            self.end_descriptor(node.ports[descriptor.name], descriptor.fetch, descriptor.void)
            return DONE
        return super().take_control(node, packet)

    def cannot_send(self, port, descriptor, status):
        if descriptor.operation != REPLY:
            super().cannot_send(port, descriptor, status)
            return
        # The answer without data is a descriptor of its own, and is charged as any.
        descriptor.void, descriptor.lost = status, None
        port.requests.append(descriptor)

    def end_descriptor(self, port, descriptor, status):
        super().end_descriptor(port, descriptor, status)
        if descriptor.operation == FETCH and descriptor.peer >= 0:
            awaited = self.stream(self.nodes[port.node], descriptor.peer).awaited
            if descriptor in awaited:
                awaited.remove(descriptor)
