"""What the network does to packets of ports, and what follows when a sender falls silent."""

from copy import copy

from oracle.ports_receiving import LATER, WANTED
from oracle.ports_records import SEND, WRITE
from oracle.ports_transport import LOST, Reliable

DOUBLED, LATE, CORRUPTED = "doubled", "late", "corrupted"  # fates, besides LOST


class Faulty(Reliable):
    """Packets that are lost, doubled, held back, or have a bit flipped."""

    def __init__(self, world, network):
        """``network`` says the fate of a packet of a sender, and flips a bit of its payload."""
        super().__init__(world)
        self.network = network

    def fate_of(self, packet):
        """Each packet has its own; copies that the network makes have none."""
        return () if packet.copied else self.network.fate(packet.sender, packet.packet)

    def header_is_in(self, node, half):
        packet, fate = half.message, self.fate_of(half.message)
        corrupted = CORRUPTED in fate
        if LOST in fate or LATE in fate or (corrupted and not packet.payload):
            half.verdict = LOST
            return
        half.corrupted = corrupted
        if self.world.reliable:
            super().header_is_in(node, half)
        elif self.stream(node, packet.by).check_unreliable_sequence(packet.number) != "wanted":
            half.verdict = "duplicate"

    # --- at the sender ---------------------------------------------------------------------------

    def has_left(self, node, packet):
        fate = self.fate_of(packet)
        again = LOST not in fate and (DOUBLED in fate or LATE in fate)
        if again and node.send_ring() + 1 < self.delivery.send_ring:
            other = copy(packet)
            other.copied = True
            self.hand_over(node, other)
        super().has_left(node, packet)

    def ends_with(self, node, packet):
        """Over an unreliable transport, whether the descriptor ends now that the packet has left.

        Copies of its packets that are still to leave read its memory once more.
        """
        if packet.operation not in (SEND, WRITE):
            return False
        if packet.copied:
            return packet.tells
        if not packet.last:
            return False
        waiting = [half.message for half in node.outgoing] + node.ring
        copies = [one for one in waiting if one.copied and one.descriptor is packet.descriptor]
        if copies:
            copies[-1].tells = True
        return not copies

    # --- at the receiver -------------------------------------------------------------------------

    def complete(self, node, half):
        packet = half.message
        if half.verdict != LOST:
            self.hear(node, packet)
        if half.verdict == WANTED and half.corrupted:
            stream = self.stream(node, packet.by)
            counts = not self.world.reliable or stream.may_acknowledge(packet.number)
            if (
                counts and half.where is not None
            ):  # the link's watchdog may end it before it has one
                behind = self.framing(self.nodes[packet.sender], packet)
                piece = self.network.flip(packet.sender, packet.packet, packet.content, behind)
                self.write(node, *half.where, piece)
            if self.world.reliable:
                self.take_acknowledgement(node, packet)
                self.refuse_corrupted(node, half)
                return
            half.verdict = CORRUPTED
            self.give_up_piece(node, half)
        super().complete(node, half)

    def refuse_corrupted(self, node, half):
        """It comes again, and what its sender sent after it is as if it had never come."""
        packet = half.message
        stream = self.stream(node, packet.by)
        if half.holds is not None:
            self.let_go(node, *half.holds)
        if stream.may_acknowledge(packet.number):
            stream.refuse(packet.number)
            stream.due = True
            self.take_back(node, packet, half)
            half.verdict = LATER
        self.acknowledge_soon(stream)

    def give_up_piece(self, node, half):
        """The message of the piece will not be whole."""
        packet, message = half.message, half.placed
        if packet.operation != SEND:
            return
        key = node.number, packet.name
        if packet.last:
            self.put_back(node, packet.name, message)
        elif self.arriving.get(key) is message:
            self.give_up(node, key)

    # --- silence ---------------------------------------------------------------------------------

    def hear(self, node, packet):
        """Somebody lives; of a message that has begun the rest is to come."""
        stream = self.stream(node, packet.by)
        stream.heard_at = self.now
        rest = packet.operation == SEND and not packet.last
        if rest and stream.message_due_at is None:
            stream.message_due_at = self.now + self.longest_silence()

    def timers(self, node):
        yield from super().timers(node)
        for _, stream in self.streams_of(node):
            if stream.message_due_at is not None:
                yield stream.message_due_at

    def mind_peer(self, node, peer, stream):
        super().mind_peer(node, peer, stream)
        if stream.message_due_at != self.now:
            return
        stream.message_due_at = None
        begun = [key for key in self.arriving if self.comes_from(node, key, peer)]
        if stream.dead or not begun:
            return
        if stream.heard_at + self.longest_silence() > self.now:
            stream.message_due_at = stream.heard_at + self.longest_silence()
        elif not self.world.reliable:
            for key in sorted(begun):
                self.give_up(node, key)
        else:
            stream.message_due_at = self.now + self.longest_silence()
            if not stream.is_outstanding():
                self.probe(node, peer)
                stream.retransmit_at = self.now + self.world.time_out

    def comes_from(self, node, key, peer):
        where, tag = key
        return where == node.number and node.channels[tag].peer == peer
