"""Swarms on VIA: connections come and go under every mechanism, beside forgers."""

from swarm_ports import Bazaar
from swarm_rules import PAGE, SECRET, Made, Stream, must_be
from swarm_via_hostiles import Hostiles, taken

from nicscope.interfaces.via import Cluster, Reliability, State, VipError

UNRELIABLE = Reliability.VIP_SERVICE_UNRELIABLE
MECHANISMS = (
    "edt",
    "edt",
    "cc-dma-intervention",
    "cc-dma-retry",
    "cni",
    "dma",
    "pio",
    "pio-combined",
)
BY_PROCESSOR = ("cni", "pio", "pio-combined")
WINDOW = 4  # messages that a receiver has room for
MOST = 3000  # bytes of one
PATIENCE_US = 20_000.0


class Pair:
    """A connection between two honest programs: what each has to know of the other."""

    def __init__(self, number, level, messages):
        self.name = f"pair {number}"
        self.level = level
        self.messages = messages
        self.stream = Stream("via", number)
        self.acks = None  # where the receiver says how many it has
        self.is_over = False


class Swarm(Hostiles):
    """One cluster and the connections on it."""

    def __init__(self, chance):
        self.mechanism = chance.one_of(*MECHANISMS)
        self.nodes = chance.one_of(2, 3)
        loss = chance.one_of(0.0, 0.0, 0.02, 0.1)
        how = {}
        if self.mechanism not in BY_PROCESSOR and chance.odds(0.3):
            how["delivery"] = "cut-through"
        self.cluster = Cluster(
            mechanism=self.mechanism,
            nodes=self.nodes,
            loss=loss,
            seed=chance.upto(2**31),
            settings={"window": chance.one_of(1, 4, 32), "mtu": chance.one_of(256, 1500)},
            **how,
        )
        self.bazaar = Bazaar()
        self.pairs = []
        self.honest = []
        pairs, hostile = chance.one_of(1, 2, 3), chance.one_of(0, 1, 2)
        self.busy = 2 * pairs
        for number in range(pairs):
            level = chance.one_of(*Reliability)
            pair = Pair(number, level, chance.upto(20))
            self.pairs.append(pair)
            here, there = self.ends(chance)
            self.cluster.start(here, self.sender(pair, there, chance.child()))
            self.cluster.start(there, self.receiver(pair, chance.child()))
        for number in range(hostile):
            here, there = self.ends(chance)
            self.cluster.start(here, self.hostile(number, there, chance.child()))
            self.cluster.start(there, self.accomplice(number, chance.child()))
        self.title = (
            f"{self.mechanism} {how.get('delivery', '')}, {self.nodes} nodes, loss {loss}, "
            f"{[pair.level.name[12:] for pair in self.pairs]}, {hostile} hostile"
        )

    def ends(self, chance):
        """Two nodes: no link leads back to the same."""
        here = chance.upto(self.nodes - 1)
        return here, (here + 1 + chance.upto(self.nodes - 2)) % self.nodes

    # --- honest ------------------------------------------------------------------------------

    async def prepare(self, host, pair, chance):
        """A NIC, memory nobody may touch, and a VI with or without a completion queue."""
        nic = await host.open_nic()
        self.honest.append(nic)
        tag = await nic.create_ptag()
        private = nic.allocate(PAGE)
        await nic.write(private.address, SECRET * (PAGE // 32))
        memory = nic.allocate(8 * PAGE)
        region = await nic.register_mem(memory, tag)
        acks = await nic.register_mem(nic.allocate(PAGE), tag, enable_rdma_write=True)
        places = await nic.descriptors(tag, 64, 3)
        queue = await nic.create_cq(tag, 32) if chance.odds(0.4) else None
        vi = await nic.create_vi(
            tag, pair.level, enable_rdma_write=True, send_cq=queue, recv_cq=queue
        )
        self.bazaar.show(nic, host, nic, private, memory, region, acks, places, vi)
        if queue is not None:
            self.bazaar.show(nic, queue)
        return nic, tag, private, region, acks, places, queue, vi

    async def finish(self, prepared):
        """Give all of it back."""
        nic, tag, private, region, acks, places, queue, vi = prepared
        must_be(
            await nic.read(private.address, PAGE) == SECRET * (PAGE // 32), "private memory changed"
        )
        await nic.disconnect(vi)
        until = nic.now_us + 10 * PATIENCE_US
        for done, posted in (
            (nic.send_done, vi._shown.posted[0]),
            (nic.recv_done, vi._shown.posted[1]),
        ):
            while posted:
                must_be(nic.now_us < until, len(posted), "descriptors are never flushed")
                if await taken(done(vi)) is None:
                    await nic.compute(20)
        await nic.compute(500)
        await nic.destroy_vi(vi)
        if queue is not None:
            must_be(await nic.cq_done(queue) is None, "an entry of a completion queue is left")
            await nic.destroy_cq(queue)
        await nic.destroy_descriptors(places)
        await nic.deregister_mem(region)
        await nic.deregister_mem(acks)
        await nic.destroy_ptag(tag)
        self.busy -= 1

    def sender(self, pair, there, chance):
        """Sends so many messages, some of the time fewer: it disconnects in the middle."""

        async def program(host):
            prepared = await self.prepare(host, pair, chance)
            nic, _, _, region, acks, places, queue, vi = prepared
            pair.acks = acks.remote()
            try:
                await nic.connect_request(vi, there, pair.name, PATIENCE_US)
            except VipError:
                pair.is_over = True
                await self.finish(prepared)
                return
            await nic.compute(200)  # until the receives of the other end are read
            stream, stops_at = pair.stream, chance.upto(20) if chance.odds(0.2) else 10**9
            under_way = []
            for number in range(min(pair.messages, stops_at)):
                if not await self.has_room(nic, pair, acks, number, vi):
                    break
                count = chance.one_of(8, chance.upto(256, 8), chance.upto(MOST, 8))
                message = stream.next(count)
                begin = number % 4 * 2 * PAGE + chance.upto(500)
                while len(under_way) > 3:
                    await self.reap(nic, vi, queue, stream, under_way)
                await nic.write(region.address + begin, message)
                cut = chance.upto(count)
                parts = [region.segment(begin, cut), region.segment(begin + cut, count - cut)]
                await nic.post_send(vi, places.request(*parts))
                under_way.append(number)
            while under_way and chance.odds(0.95):
                await self.reap(nic, vi, queue, stream, under_way)
            pair.is_over = True
            await self.finish(prepared)

        return program

    async def has_room(self, nic, pair, acks, number, vi):
        """Whether the other end has a receive for one more message, or will in time."""
        if pair.level is UNRELIABLE:
            return vi.state is State.VIP_STATE_CONNECTED
        until = nic.now_us + PATIENCE_US
        while vi.state is State.VIP_STATE_CONNECTED and nic.now_us < until:
            heard = int.from_bytes(await nic.read(acks.address, 8), "little")
            if number < heard + WINDOW:
                return True
            await nic.compute(10)
        return False

    async def reap(self, nic, vi, queue, stream, under_way):
        """How the oldest send has ended."""
        if queue is None:
            done = await taken(nic.send_wait(vi, 10 * PATIENCE_US))
            assert done is not None
        else:
            until = nic.now_us + 10 * PATIENCE_US
            while (found := await taken(nic.send_done(vi))) is None:
                must_be(nic.now_us < until, "a send never ends")
                await nic.compute(10)
            done = found
        stream.ended[under_way.pop(0)] = "done" if done.ok else str(done.status)

    def receiver(self, pair, chance):
        """Takes what comes, and says after each message how many it has."""

        async def program(host):
            prepared = await self.prepare(host, pair, chance)
            nic, _, _, region, _, places, _, vi = prepared
            posted = []
            room = WINDOW if pair.level is not UNRELIABLE else 12
            for number in range(room):
                await self.post(nic, vi, places, region, number, posted)
            try:
                request = await nic.connect_wait(pair.name, PATIENCE_US / 2)
                await nic.connect_accept(request, vi)
            except VipError:
                await self.finish(prepared)
                return
            stops_at = chance.upto(20) if chance.odds(0.2) else 10**9
            quiet = 0
            while quiet < 3 and vi.state is State.VIP_STATE_CONNECTED:
                done = await taken(nic.recv_done(vi))
                if done is None:
                    quiet += pair.is_over
                    await nic.compute(2000 if pair.is_over else 20)
                    continue
                if not done.ok:
                    break
                place = posted.pop(0)
                at = region.address + place % 12 * MOST
                pair.stream.came.append(await nic.read(at, done.length))
                await self.post(nic, vi, places, region, place, posted)
                if len(pair.stream.came) >= stops_at:
                    break
                if pair.level is not UNRELIABLE and not await self.tell(nic, pair, prepared):
                    break
            pair.stream.is_heard = quiet == 3
            await self.finish(prepared)

        return program

    async def post(self, nic, vi, places, region, number, posted):
        """A receive into one of twelve places."""
        await nic.post_recv(vi, places.request(region.segment(number % 12 * MOST, MOST - 272)))
        posted.append(number)

    async def tell(self, nic, pair, prepared):
        """Store how many messages have come where their sender looks; whether it still can."""
        _, _, _, _, acks, places, _, vi = prepared
        assert pair.acks is not None
        await nic.write(acks.address, len(pair.stream.came).to_bytes(8, "little"))
        await nic.rdma_write(vi, places, [acks.segment(0, 8)], pair.acks)
        until = nic.now_us + 10 * PATIENCE_US
        while (done := await taken(nic.send_done(vi))) is None:
            must_be(nic.now_us < until, "an RDMA never ends")
            await nic.compute(10)
        return done.ok

    # --- what must hold ----------------------------------------------------------------------

    def check(self, _results):
        """Of streams, and of what honest programs gave back."""
        for pair in self.pairs:
            pair.stream.check(reliable=pair.level is not UNRELIABLE)
        owners = {nic._owner for nic in self.honest}
        for kernel in self.cluster.kernels:
            must_be(
                not owners & set(kernel.tags._owners.values()),
                "a tag of an honest process is left",
            )
            must_be(not any(vi.owner in owners for vi in kernel.vis), "a VI is left")
            left = [one for one in kernel.regions.values() if one.tag not in kernel.tags._owners]
            must_be(not left, len(left), "regions of tags that are gone are left")


def make(chance):
    """A swarm of those choices."""
    swarm = Swarm(chance)
    return Made(swarm.cluster, swarm.title, swarm.check)
