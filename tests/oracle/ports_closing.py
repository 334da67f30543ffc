"""What becomes of a port that closes, and of all that is under way for it."""

from oracle.ports_deaths import Mortal
from oracle.ports_firmware import MISS
from oracle.ports_records import (
    CLOSED,
    EXPORT,
    FIRST_PAUSE,
    IMPORT,
    LONGEST_PAUSE,
    PROCESS,
    REPLY,
    SEND,
    WRITE,
    Waiting,
)


class Closing(Mortal):
    """From the call that closes a port until nothing of it is left."""

    def go_on_to_close(self, node, process, pause=FIRST_PAUSE):
        """Ask whether the port has closed; if not, sleep, twice as long each time."""
        port = node.ports[process.port]
        action = node.processor
        waits = action is not None and action.what == MISS and action.half is None
        waits = waits and node.asking is port
        self.shut(node, port)
        if not waits:
            self.end_requests(port)
        if waits or self.is_under_way_for(node, port):
            process.plan.appendleft(("close", min(2 * pause, LONGEST_PAUSE)))
            process.wakes = self.now + pause
            return False
        self.let_port_go(node, port)
        process.results.append((self.now, None))
        return True

    def shut(self, node, port):
        """Nothing more is taken of the port or let in."""
        if port.open:
            self.invalidate_handle(node, PROCESS, port.number)
        port.open = False
        for kind, table in ((EXPORT, node.exports), (IMPORT, node.imports)):
            for number in [number for number, one in table.items() if one.port == port.number]:
                node.gone[kind, number] = table.pop(number)
                self.invalidate_handle(node, kind, number)

    def end_requests(self, port):
        """What has not left ends, once the processor does not wait for a miss of the port."""
        if port.current is not None:
            self.give_up_request(port, CLOSED)
        while port.requests:
            self.end_descriptor(port, port.requests.popleft(), CLOSED)
        port.waiting, port.ahead = Waiting(), Waiting()

    # --- what is awaited -------------------------------------------------------------------------

    def is_under_way_for(self, node, port):
        """Whether something that has left, or is on its way in, needs the process's memory."""
        return (
            any(one is not None and one.status is None for one in port.places.values())
            or any(channel.cut is not None for channel in self.tags_of(node, port))
            or any(self.concerns(port, packet) for packet in self.packets_of(node))
            or any(self.answers_from(port, one) for one in self.answers_of(node))
            or any(self.is_for(node, port, half.message) for half in node.incoming)
        )

    def tags_of(self, node, port):
        return [one for one in node.channels.values() if one.port == port.number]

    def packets_of(self, node):
        """Those that are on the NIC, and those that are not acknowledged."""
        yield from node.ring
        yield from (half.message for half in node.outgoing)
        for _, stream in self.streams_of(node):
            yield from stream.packets.values()

    def concerns(self, port, packet):
        descriptor = packet.descriptor
        if descriptor is None:
            return False
        return self.answers_from(port, descriptor) or packet.port == port.number

    def answers_of(self, node):
        answers = node.ports[0]
        return [*answers.requests] + [answers.current] * (answers.current is not None)

    def answers_from(self, port, descriptor):
        return descriptor.operation == REPLY and descriptor.space == port.space

    def is_for(self, node, port, packet):
        """Whether it came for a tag or an export of the port."""
        to = node.channels.get(packet.name)
        if packet.operation == WRITE:
            to = node.gone.get((EXPORT, packet.name))
        return packet.operation in (SEND, WRITE) and to is not None and to.port == port.number

    # --- at last ---------------------------------------------------------------------------------

    def let_port_go(self, node, port):
        """Buffers and tags are let go, and the pages that nothing else keeps."""
        for tag, channel in list(node.channels.items()):
            if channel.port == port.number:
                self.give_up(node, (node.number, tag))
                del node.channels[tag]
        for buffer in port.ready:
            self.leave_buffer(node, buffer)
            self.leave(node, port.space, self.pages_of(buffer.address, 1))
        for address in port.free:
            self.leave(node, port.space, self.pages_of(address, 1))
        port.ready.clear()
        port.free.clear()
        self.forget_misses(node, port)
        self.unpin_last_used(node, port)

    def invalidate_handle(self, node, kind, number):
        """The NIC has no copy of that record any more."""

    def forget_misses(self, node, port):
        """What a kernel thread was to bring for the port."""

    def unpin_last_used(self, node, port):
        """The pages of the port leave the NIC."""
        raise NotImplementedError
