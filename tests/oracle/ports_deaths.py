"""Nodes and links that die, and what a node does when it takes a peer for dead."""

from oracle.ports_faults import Faulty
from oracle.ports_records import DONE, FETCH, PEER_DEAD, REPLY
from oracle.ports_transport import LOST


class Mortal(Faulty):
    """The network loses what the dead send and are sent; their peers give them up."""

    # --- who is dead -----------------------------------------------------------------------------

    def lives(self, node):
        return self.now < self.world.node_deaths.get(node.number, self.now + 1)

    def is_cut_off(self, sender, receiver):
        """Whether one of the two is dead, or a link between them."""
        path = self.paths[sender.number, receiver.number] if sender is not receiver else ()
        dead_links = [
            link for link in path if self.now >= self.world.link_deaths.get(link, self.now + 1)
        ]
        return bool(dead_links) or not (self.lives(sender) and self.lives(receiver))

    def choose(self, node):
        """Dead nodes serve no port."""
        return super().choose(node) if self.lives(node) else None

    def go_on_with(self, node, process):
        """A program of a dead node ends there."""
        if not self.lives(node):
            process.plan.clear()
        super().go_on_with(node, process)

    def end_operation(self, process, *result):
        if not self.lives(self.nodes[process.node]):
            process.plan.clear()
        else:
            super().end_operation(process, *result)

    # --- a peer is taken for dead ----------------------------------------------------------------

    def peer_dies(self, node, peer, stream):
        """Whatever was meant for it ends, and what it has sent is as if it had never come."""
        given_up = set()
        for port in node.ports:
            self.give_up_descriptors(port, stream)
        for number in sorted(stream.packets):
            self.let_packet_go(node, stream.holds.pop(number, None))
        for packet in [*node.ring, *(half.message for half in node.outgoing)]:
            if packet.to == peer:
                packet.void = True
                self.let_packet_go(node, packet.holds)
                packet.holds = None
        stream.packets.clear()
        stream.to_send.clear()
        stream.awaited.clear()
        for tag, channel in node.channels.items():
            if channel.peer == peer:
                given_up.add(tag)
        self.take_back_all(node, peer)
        for tag in sorted(given_up):
            self.give_up(node, (node.number, tag))
        stream.message_due_at = stream.ack_at = stream.retransmit_at = None
        stream.ack_wanted = False

    def give_up_descriptors(self, port, stream):
        """Descriptors whose packets were all made end; one under way does at its next turn."""
        begun = {id(one.descriptor) for one in stream.packets.values()} - {id(port.current)}
        begun |= {id(one) for one in stream.awaited}
        ended = [one for one in port.places.values() if one is not None and id(one) in begun]
        ended.sort(key=lambda one: (one.operation == FETCH, one.number))
        for one in ended:
            if one.status is None:
                self.end_descriptor(port, one, PEER_DEAD)

    def take_back_all(self, node, peer):
        """Packets of the peer that are on the NIC have come in vain."""
        for half in node.incoming:
            if half.message.by == peer and half.verdict == "wanted":
                half.verdict = "gap"

    def check(self, node, port, descriptor):
        status = super().check(node, port, descriptor)
        return PEER_DEAD if status == DONE and self.is_given_up(node, descriptor.peer) else status

    def cannot_send(self, port, descriptor, status):
        """Nobody is told of an answer to a peer that is dead."""
        if descriptor.operation != REPLY or status != PEER_DEAD:
            super().cannot_send(port, descriptor, status)

    # --- on the network --------------------------------------------------------------------------

    def header_is_in(self, node, half):
        sender = self.nodes[half.message.sender]
        if self.is_cut_off(sender, node) or half.message.void:
            half.verdict = LOST
            return
        super().header_is_in(node, half)
