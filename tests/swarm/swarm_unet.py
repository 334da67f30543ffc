"""Swarms on U-Net: streams between endpoints that come and go, beside processes that forge."""

import contextlib

from swarm_ports import (
    Bazaar,
    attempt,
    dead_nodes,
    design_of,
    host_of,
    no_secret_in,
    post_forged,
    settled,
    size_of,
)
from swarm_rules import PAGE, SECRET, Made, Stream, faults, must_be, transport

from nicscope.errors import SimulationError
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.unet import Cluster, Endpoint, Process

DESIGNS = ("unet-mm-pca200", "unet-mm-pca200", "unet", "unet-mm-dc21140")
PATIENCE_US = 2_000_000
AFTER_US = 60_000  # what is on its way has come or gone
AREA = 14  # pages
FOREIGN = b"\xff" * 64  # what hostile processes send begins so; honest messages have a number there


class Swarm:
    """One cluster, the streams on it, and how each program behaves."""

    def __init__(self, chance):
        self.chance = chance
        name = chance.one_of(*DESIGNS)
        self.reliable = chance.odds(0.7)
        self.nodes = chance.one_of(2, 3)
        pairs, hostile = chance.one_of(1, 2, 3), chance.one_of(0, 1, 2)
        processes = 2 * pairs + hostile
        how = {"host": host_of(chance, 24 * processes)}
        if name == "unet":
            how = {"host": host_of(chance, 60 * processes), "platform": "pca200-linux"}
            how["area_bytes"] = AREA * PAGE
        self.cluster = Cluster(
            design_of(chance, name),
            nodes=self.nodes,
            faults=faults(chance, self.nodes),
            transport=transport(chance, reliable=self.reliable),
            size=size_of(chance, 16),
            endpoints=2 * processes,
            small_inside=chance.odds(0.8),
            **how,
        )
        self.bazaar = Bazaar()
        self.streams = []
        self.leavers = set()  # nodes where somebody ends without closing
        for number in range(pairs):
            stream = Stream("unet", number)
            self.streams.append(stream)
            here = chance.upto(self.nodes - 1)
            there = (here + chance.upto(self.nodes - 1, 1)) % self.nodes
            self.cluster.start(here, self.sender(stream, there, chance.child()))
            self.cluster.start(there, self.receiver(stream, chance.child()))
        for _ in range(hostile):
            self.cluster.start(chance.upto(self.nodes - 1), self.hostile(chance.child()))
        self.title = f"{name}, {self.nodes} nodes, {pairs} pairs, {hostile} hostile"

    # --- honest ------------------------------------------------------------------------------

    def sender(self, stream, there, chance):
        """Opens, sends, closes, and comes again; some of the time it closes in the middle."""

        async def program(process):
            private = process.allocate(PAGE)
            await private.write(SECRET * (PAGE // 32))
            self.bazaar.show(process, process, private)
            for _ in range(chance.one_of(1, 1, 3)):
                endpoint = await process.open()
                try:
                    tag = await endpoint.connect(there, f"{stream.name}")
                except SimulationError as error:  # who receives has gone, or is dead
                    must_be("has opened no endpoint" in str(error), error)
                    await endpoint.close()
                    continue
                rooms = endpoint.allocate(8 * PAGE)
                self.bazaar.show(process, endpoint, rooms)
                await self.send_all(process, endpoint, tag, rooms, stream, chance)
            must_be(await private.read() == SECRET * (PAGE // 32), "private memory of a sender")
            stream.is_over = True
            await process.sleep(AFTER_US)

        return program

    async def send_all(self, process, endpoint, tag, rooms, stream, chance):
        """Messages of all sizes from four places, each used again once it was sent."""
        under_way = {}  # message and place, by descriptor
        free = [rooms.part(at * 2 * PAGE, 2 * PAGE) for at in range(4)]

        async def reap():
            done = await endpoint.sent(chance.one_of("poll", "block"))
            number, room = under_way.pop(done.request)
            stream.ended[number] = done.status
            free.append(room)

        for _ in range(chance.upto(24)):
            count = chance.one_of(9, 40, 55, 56, chance.upto(1490, 57), chance.upto(2 * PAGE, 57))
            message = stream.next(count)
            while not free:
                await reap()
            room = free.pop()
            if count < 56 and self.cluster.small_inside and chance.odds(0.5):
                request = await endpoint.send(tag, message)
            else:
                await room.write(message)
                cut = chance.upto(count - 1, 1)
                halves = (room.part(0, cut), room.part(cut, count - cut))
                pieces = (room.part(0, count),) if chance.odds(0.5) else halves
                request = await endpoint.send(tag, *pieces)
            under_way[request] = len(stream.sent) - 1, room
            if chance.odds(0.1):
                await process.sleep(chance.us(3000))
        if chance.odds(0.8):  # else what is under way ends as closed, or as it would have
            while under_way:
                await reap()
        await endpoint.close()
        while under_way:
            await reap()

    def receiver(self, stream, chance):
        """Takes what comes until nothing more can, and answers nobody."""

        async def program(process):
            endpoint = await process.open(f"{stream.name}")
            pages = {}
            for _ in range(chance.upto(6, 1)):
                page = endpoint.allocate(PAGE)
                pages[page.address] = page
                await endpoint.provide(page)
            self.bazaar.show(process, process, endpoint, *pages.values())
            leaves_after = chance.upto(30) if chance.odds(0.2) else 10**9
            quiet = 0
            while quiet < 4 and process.now_us < PATIENCE_US and len(stream.came) < leaves_after:
                if not endpoint.waiting:
                    quiet += stream.is_over
                    await process.sleep(10_000 if stream.is_over else chance.us(4000))
                    continue
                message = await endpoint.receive(chance.one_of("poll", "block", "signal"))
                if message.filled:
                    came = await message.read()
                    if came != FOREIGN[: len(came)] and came[:4] != FOREIGN[:4]:
                        stream.came.append(came)
                for buffer in message.buffers:
                    await endpoint.provide(pages[buffer.address])
            stream.is_heard = quiet == 4
            await endpoint.close()
            await process.sleep(AFTER_US)

        return program

    # --- hostile -----------------------------------------------------------------------------

    def hostile(self, chance):
        """Does whatever it likes with its own, and tries everybody else's."""

        async def program(process):
            endpoint = await process.open(f"hostile {process.number}")
            own = endpoint.allocate(4 * PAGE)
            await own.write(b"\xff" * len(own))
            self.bazaar.show(process, process, endpoint, own)
            for _ in range(chance.upto(30)):
                act = chance.one_of(self.pester, self.guess, self.forge, self.steal, self.drop)
                await act(process, endpoint, own, chance)
                if chance.odds(0.1):
                    await endpoint.close()
                    endpoint = await process.open()
                    own = endpoint.allocate(4 * PAGE)
                    await own.write(b"\xff" * len(own))
            no_secret_in(process)
            if chance.odds(0.2):
                self.leavers.add(process.node)
                return
            await endpoint.close()
            await process.sleep(AFTER_US)

        return program

    async def pester(self, process, endpoint, own, chance):
        """Send what nobody asked for to somebody honest."""
        stream = chance.sample(self.streams)
        node = (process.node + chance.upto(self.nodes - 1, 1)) % self.nodes
        if self.cluster.registry.find(node, f"{stream.name}") is None:
            return
        tag = await endpoint.connect(node, f"{stream.name}")
        for _ in range(chance.upto(3)):
            await endpoint.send(tag, own.part(chance.upto(100), chance.upto(2 * PAGE, 1)))
            await endpoint.sent()

    async def guess(self, process, endpoint, own, chance):
        """Send by any tag."""
        tag = chance.one_of(chance.upto(100), -1, 2**63, 2**64, None, "tag", True)
        part = own.part(0, chance.upto(PAGE, 1))
        if tag is None or isinstance(tag, str):
            await attempt(endpoint.send(tag, part))
        else:
            await endpoint.send(tag, part)
            await endpoint.sent()
        if chance.odds(0.2):
            process.swap_out()

    async def forge(self, process, endpoint, own, chance):
        """Write descriptors past the library."""
        del own
        await post_forged(chance, process, endpoint.port, chance.upto(4, 1))

    async def drop(self, process, endpoint, own, chance):
        """Begin a call and never go on with it."""
        begun = chance.one_of(
            lambda: endpoint.send(chance.upto(64), own.part(0, 100)),
            lambda: endpoint.connect(chance.upto(self.nodes), "nobody"),
            lambda: endpoint.provide(own.part(0, PAGE)),
            lambda: own.write(b"\xff"),
            lambda: process.sleep(10),
        )()
        with contextlib.suppress(StopIteration, SimulationError):
            begun.send(None)
        begun.close()
        endpoint._provided.clear()  # it never was in the queue

    async def steal(self, process, endpoint, own, chance):
        """Every call with something of somebody else's."""
        theirs = self.bazaar.foreign(chance, process, chance.one_of(Buffer, Endpoint, Process))
        if isinstance(theirs, Buffer):
            for call in (
                lambda: endpoint.send(32, theirs),
                lambda: endpoint.provide(theirs),
                lambda: process.copy(theirs, own),
                lambda: process.copy(own, theirs),
                lambda: theirs.part(0, 1).write(b"\xff"),
                lambda: theirs.read(),
            ):
                await attempt(call())
        elif isinstance(theirs, Endpoint):
            for call in (
                lambda: theirs.send(32, b"\xff"),
                lambda: theirs.provide(own),
                lambda: theirs.receive(),
                lambda: theirs.sent(),
                lambda: theirs.close(),
            ):
                await attempt(call())
        elif theirs is not None:
            for call in (
                lambda: theirs.open(),
                lambda: theirs.close_port(),
                lambda: theirs.load(0, PAGE),
                lambda: theirs.store(0, b"\xff"),
                lambda: theirs.sleep(1),
            ):
                await attempt(call())

    # --- what must hold ----------------------------------------------------------------------

    def check(self, _results):
        """Of streams, memory and tables."""
        for stream in self.streams:
            stream.check(reliable=self.reliable)
        dead = dead_nodes(self.cluster)
        settled(self.cluster, dead | self.leavers)
        for node in set(range(self.nodes)) - dead - self.leavers:
            if not (dead or self.leavers):
                tags = self.cluster.registry.tags_in_use(node)
                must_be(tags == 0, tags, "tags in use at node", node)


def make(chance):
    """A swarm of those choices."""
    swarm = Swarm(chance)
    return Made(swarm.cluster, swarm.title, swarm.check)
