"""Swarms on Trapeze: senders that use their payloads again and again, one receiver on each node."""

import contextlib

import msgspec
from swarm_ports import Bazaar, attempt
from swarm_rules import SECRET, Made, Stream, must_be

from nicscope.config.design import POLICIES
from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster, Endpoint, HostBuffer, Message

HOST_BYTES = 1 << 20
HOSTILE = 255  # in place of a stream's number


class Swarm:
    """One cluster and the streams on it."""

    def __init__(self, chance):
        self.nodes = chance.one_of(2, 3)
        policy = chance.one_of(*sorted(POLICIES))
        self.delivery = msgspec.structs.replace(
            POLICIES[policy],
            max_payload=chance.one_of(600, 4096),
            send_ring=chance.one_of(1, 3, 16),
            receive_ring=chance.one_of(2, 3, 8),
            send_buffers=chance.one_of(1, 2, 4),
            receive_buffers=chance.one_of(1, 2, 4),
        )
        platform = chance.one_of("p6-natoma", "pentium2-440lx")
        self.cluster = Cluster(
            platform, nodes=self.nodes, policy=self.delivery, host_bytes=HOST_BYTES
        )
        self.bazaar = Bazaar()
        self.streams = []  # and where it goes
        self.senders = chance.upto(4, 1)
        hostile = chance.one_of(0, 1, 2)
        self.busy = self.senders + hostile
        for number in range(self.senders):
            here = chance.upto(self.nodes - 1)
            there = (here + chance.upto(self.nodes - 1, 1)) % self.nodes
            self.streams.append((Stream("trapeze", number), there))
            self.cluster.start(here, self.sender(number, chance.child()))
        for node in range(self.nodes):
            self.cluster.start(node, self.receiver(chance.child()))
            self.cluster.start(node, self.ringer((node + 1) % self.nodes))
        for _ in range(hostile):
            self.cluster.start(chance.upto(self.nodes - 1), self.hostile(chance.child()))
        self.title = (
            f"{platform}, {policy}, {self.nodes} nodes, {self.senders} senders, {hostile} hostile"
        )

    def sender(self, number, chance):
        """One or two payloads for all messages; a store to one waits until it has been read."""
        stream, there = self.streams[number]

        async def program(endpoint):
            most = self.delivery.max_payload
            pages = [endpoint.allocate(most) for _ in range(chance.upto(2, 1))]
            private = endpoint.allocate(64)
            await private.write(SECRET * 2)
            self.bazaar.show(endpoint, endpoint, private, *pages)
            for _ in range(chance.upto(40)):
                count = chance.one_of(0, chance.upto(most, 8))
                message = stream.next(max(8, count))
                endpoint.reserve(9)[:] = bytes([number]) + message[:8]
                page = chance.sample(pages).part(0, count) if count else None
                if page is not None:
                    await page.write(message)
                sent = await endpoint.send(there, page)
                stream.ended[len(stream.sent) - 1] = "done"
                if chance.odds(0.2):
                    await endpoint.sent(sent)
                    must_be(endpoint.is_sent(sent), "what was waited for is not sent")
                if chance.odds(0.2):
                    await endpoint.sleep(chance.us(500))
            must_be(bytes(private.bytes) == SECRET * 2, "private memory of a sender")
            stream.is_over = True
            self.busy -= 1

        return program

    def ringer(self, node):
        """Tells the receiver of another node that nobody sends any more."""

        async def program(endpoint):
            while self.busy:
                await endpoint.sleep(500)
            endpoint.reserve(1)[:] = bytes([HOSTILE])
            await endpoint.send(node)

        return program

    def receiver(self, chance):
        """Takes all that comes to its node; holds a few messages back before it releases them."""

        async def program(endpoint):
            kept = []
            waits = self.delivery.receive_ring - 1
            while not (self.busy == 0 and self.is_all_here(endpoint.node)):
                message = await endpoint.receive()
                self.note(message)
                kept.append(message)
                self.bazaar.show(endpoint, message)
                while len(kept) > chance.upto(waits):
                    endpoint.release(kept.pop(0))
                if chance.odds(0.1):
                    await endpoint.sleep(chance.us(2000))
            for message in kept:
                endpoint.release(message)

        return program

    def is_all_here(self, node):
        """Whether a node has all that was sent to it."""
        return all(len(s.came) == len(s.sent) for s, there in self.streams if there == node)

    def note(self, message):
        """Which stream's it is, and what it says."""
        number = message.scan(1)[0]
        if number >= len(self.streams):
            return
        said = message.scan(8)
        came = bytes(message.payload) if message.byte_count else said
        must_be(came[:8] == said, "a payload of another message")
        self.streams[number][0].came.append(came)

    def hostile(self, chance):
        """Sends what nobody asked for, and tries everybody else's."""

        async def program(endpoint):
            own = endpoint.allocate(self.delivery.max_payload)
            await own.write(b"\xff" * len(own))
            self.bazaar.show(endpoint, endpoint, own)
            for _ in range(chance.upto(20)):
                node = (endpoint.node + chance.upto(self.nodes - 1, 1)) % self.nodes
                if chance.odds(0.4):
                    endpoint.reserve(1)[:] = bytes([HOSTILE])
                    payload = own.part(0, chance.upto(len(own), 1))
                    tag = chance.one_of(-1, chance.upto(70), 2**62)
                    await endpoint.send(node, chance.one_of(None, payload), tag)
                kind = chance.one_of(HostBuffer, Endpoint, Message)
                theirs = self.bazaar.foreign(chance, endpoint, kind)
                for call in self.guesses(endpoint, own, theirs, node):
                    await attempt(call())
                with contextlib.suppress(SimulationError):
                    endpoint.map_payload(chance.upto(4), own)
                    endpoint.unmap_payload(chance.upto(4))
                await endpoint.sleep(chance.us(500))
            must_be(SECRET not in bytes(own.bytes), "a secret in hostile memory")
            for tag in range(5):
                with contextlib.suppress(SimulationError):
                    endpoint.unmap_payload(tag)
            self.busy -= 1

        return program

    def guesses(self, endpoint, own, theirs, node):
        """Every call with something of somebody else's."""
        if isinstance(theirs, HostBuffer):
            return [
                lambda: endpoint.send(node, theirs),
                lambda: called(endpoint.map_payload, 60, theirs),
                lambda: theirs.write(b"\xff"),
                lambda: called(getattr, theirs, "bytes"),
            ]
        if isinstance(theirs, Message):
            return [
                lambda: called(endpoint.release, theirs),
                lambda: called(getattr, theirs, "payload"),
            ]
        if isinstance(theirs, Endpoint):
            return [
                lambda: theirs.send(node, own),
                lambda: theirs.receive(),
                lambda: theirs.sent(),
                lambda: called(theirs.reserve, 8),
                lambda: called(theirs.allocate, 8),
            ]
        return []

    def check(self, _results):
        """Of streams and rings."""
        for stream, _ in self.streams:
            stream.is_heard = True
            stream.check(reliable=True)
            must_be(len(stream.came) == len(stream.sent), "messages that did not come")
        machine = self.cluster.simulation.machine
        attached = machine.endpoints["attached"].tolist()
        held = [self.delivery.receive_ring - count for count in attached]
        late = machine.endpoints["accepted"] - machine.endpoints["read"]
        must_be(
            all(0 <= taken <= new for taken, new in zip(held, late.tolist(), strict=True)),
            *("buffers off the ring", held, "for messages", late),
        )


async def called(call, *given):
    """What takes no time."""
    call(*given)


def make(chance):
    """A swarm of those choices."""
    swarm = Swarm(chance)
    return Made(swarm.cluster, swarm.title, swarm.check)
