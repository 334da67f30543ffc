"""Swarms on remote memory, VMMC's and miNI's: one process keeps a window, another uses it."""

from __future__ import annotations

from typing import NamedTuple

from swarm_memory_ways import MINI, VMMC
from swarm_ports import Bazaar, dead_nodes, design_of, host_of, no_secret_in, settled, size_of
from swarm_rules import PAGE, SECRET, Made, content, faults, must_be, transport

from nicscope.errors import SimulationError

SLOTS = 8
SLOT = PAGE + 500  # bytes
AFTER_US = 60_000
PATIENCE_US = 2_000_000


class Store(NamedTuple):
    """What was stored where, once."""

    slot: int
    begin: int  # in its slot
    data: bytes


class Window:
    """What a keeper lets one user do, and what has become of it."""

    def __init__(self, number):
        self.name = f"window {number}"
        self.user = None  # once that is known
        self.stores = []
        self.ended = {}  # by store
        self.notes = []  # offset and length of what the keeper heard
        self.is_over = False
        self.is_elsewhere = False  # what is stored is not where it would be fetched from
        self.is_kept = False  # to the end, so what is done is there

    def check(self, held, *, reliable, corrupt):
        """What is in the window is what was stored, and nothing else."""
        expected = bytearray(len(held))
        loose = [False] * SLOTS
        for number, store in enumerate(self.stores):
            begin = store.slot * SLOT + store.begin
            expected[begin : begin + len(store.data)] = store.data
            loose[store.slot] = self.ended.get(number) != "done" or not reliable
        for slot in range(SLOTS):
            here = held[slot * SLOT : (slot + 1) * SLOT]
            there = bytes(expected[slot * SLOT : (slot + 1) * SLOT])
            if not loose[slot]:
                must_be(here == there, self.name, "slot", slot, "holds something else")
            elif not corrupt:
                mixed = all(byte in (0, right) for byte, right in zip(here, there, strict=True))
                must_be(mixed, self.name, "slot", slot, "holds what nobody stored")

    def check_notes(self):
        """Each store was told of once at most, in its order."""
        told = [(store.slot * SLOT + store.begin, len(store.data)) for store in self.stores]
        place = 0
        for note in self.notes:
            while place < len(told) and told[place] != note:
                place += 1
            must_be(place < len(told), self.name, "was told of", note, "twice, late or for nothing")
            place += 1


class Swarm:
    """One cluster, its windows, and how each program behaves."""

    def __init__(self, chance, way):
        self.way = way
        self.nodes = chance.one_of(2, 3)
        pairs, hostile = chance.one_of(1, 2, 3), chance.one_of(0, 1, 2)
        name = chance.one_of(*way.designs)
        self.reliable = chance.odds(0.85)
        self.faults = faults(chance, self.nodes)
        processes = 2 * pairs + hostile
        self.cluster = way.cluster(
            design_of(chance, name),
            nodes=self.nodes,
            faults=self.faults,
            transport=transport(chance, reliable=self.reliable),
            host=host_of(chance, 30 * processes),
            size=size_of(chance, 16),
        )
        self.bazaar = Bazaar()
        self.windows = []
        self.leavers = set()
        for number in range(pairs):
            window = Window(number)
            self.windows.append(window)
            here = chance.upto(self.nodes - 1)
            there = (here + chance.upto(self.nodes - 1, 1)) % self.nodes
            self.cluster.start(here, self.keeper(window, chance.child()))
            self.cluster.start(there, self.user(window, here, chance.child()))
        for _ in range(hostile):
            self.cluster.start(chance.upto(self.nodes - 1), self.hostile(chance.child()))
        self.title = f"{name}, {self.nodes} nodes, {pairs} pairs, {hostile} hostile"

    # --- honest ------------------------------------------------------------------------------

    def keeper(self, window, chance):
        """Offers a window to one user and looks after it; some of the time not to the end."""

        async def program(process):
            private, memory, guard = (process.allocate(n) for n in (PAGE, SLOTS * SLOT, PAGE))
            await private.write(SECRET * (PAGE // 32))
            await guard.write(b"G" * PAGE)
            while window.user is None and process.now_us < PATIENCE_US:
                await process.sleep(100)
            offered = await self.way.offer(process, memory, window.name, window.user, chance)
            window.is_elsewhere = len(offered.memories) > 1
            self.bazaar.show(process, process, private, memory, *offered.shown)
            leaves_at = process.now_us + (chance.us(20_000) if chance.odds(0.25) else 10**9)
            quiet = 0
            while quiet < 4 and process.now_us < min(PATIENCE_US, leaves_at):
                while process.waiting():
                    note = await self.way.heard(process)
                    window.notes.append((note.offset, note.length))
                quiet += window.is_over
                await process.sleep(10_000 if window.is_over else chance.us(3000))
            window.is_kept = quiet == 4
            held = await offered.read()
            must_be(await guard.read() == b"G" * PAGE, "guard of a keeper")
            must_be(await private.read() == SECRET * (PAGE // 32), "private memory of a keeper")
            if chance.odds(0.5):
                await self.way.withdraw(process, offered)
            await process.close_port()
            corrupt = self.faults.corruption > 0
            window.check(held, reliable=self.reliable and window.is_kept, corrupt=corrupt)
            window.check_notes()
            await process.sleep(AFTER_US)

        return program

    def user(self, window, node, chance):
        """Stores each slot once, fetches what is stored, and closes, some of the time early."""

        async def program(process):
            window.user = self.way.name_of(process)
            rooms = [process.allocate(SLOT) for _ in range(3)]
            back = process.allocate(SLOT + PAGE)
            try:
                remote = await self.way.reach(process, node, window.name)
            except SimulationError:  # its keeper is dead, or has gone
                window.is_over = True
                await process.close_port()
                return
            self.bazaar.show(process, process, remote, *rooms, back)
            free = list(range(len(rooms)))
            under_way = {}  # store and room, by request

            async def reap():
                request, status = await self.way.ended(process, [*under_way])
                number, room = under_way.pop(request)
                window.ended[number] = status
                free.append(room)

            slots = list(range(SLOTS))
            for _ in range(chance.upto(SLOTS)):
                slot = slots.pop(chance.upto(len(slots) - 1))
                count = chance.one_of(chance.upto(64, 1), chance.upto(SLOT, 1))
                store = Store(
                    slot, chance.upto(SLOT - count), content(window.name, slot, count=count)
                )
                while not free:
                    await reap()
                room = free.pop()
                await rooms[room].write(store.data, SLOT - count)
                at = slot * SLOT + store.begin
                request = await self.way.store(
                    process, remote, rooms[room], at, SLOT - count, count
                )
                under_way[request] = len(window.stores), room
                window.stores.append(store)
                if chance.odds(0.3):
                    while under_way:
                        await reap()
                    await self.fetch_back(process, remote, back, window, chance)
                if chance.odds(0.2):
                    await self.beyond(process, remote, rooms, free, chance)
            if chance.odds(0.8):
                while under_way:
                    await reap()
            if chance.odds(0.5):
                await self.way.leave(process, remote)
            await process.close_port()
            while under_way:
                await reap()
            window.is_over = True
            await process.sleep(AFTER_US)

        return program

    async def fetch_back(self, process, remote, back, window, chance):
        """What is fetched is what is there: all of it, or the fetch says that it is not."""
        done = [s for n, s in enumerate(window.stores) if window.ended.get(n) == "done"]
        if not done or not self.reliable or window.is_elsewhere:
            return
        store = chance.sample(done)
        at, to = store.slot * SLOT + store.begin, chance.upto(PAGE)
        request = await self.way.fetch(process, remote, back, at, to, len(store.data))
        _, status = await self.way.ended(process, [request])
        if status == "done":
            must_be(await back.read(len(store.data), to) == store.data, window.name, "fetched else")

    async def beyond(self, process, remote, rooms, free, chance):
        """Nothing goes beyond a window."""
        if not free:
            return
        offset = chance.one_of(SLOTS * SLOT, SLOTS * SLOT - 1, 2**40, 2**63 - 1, -1, -(2**63))
        request = await self.way.store(process, remote, rooms[free[0]], offset, 0, 2)
        _, status = await self.way.ended(process, [request])
        must_be(status != "done", "a store went beyond its window")

    # --- hostile -----------------------------------------------------------------------------

    def hostile(self, chance):
        """Does whatever it likes with its own, and tries everybody else's."""

        async def program(process):
            own = process.allocate(4 * PAGE)
            await own.write(b"\xff" * len(own))
            name = f"trap {process.node} {process.number}"
            offered = await self.way.offer(process, own, name, None, chance)
            self.bazaar.show(process, process, own, *offered.shown)
            for _ in range(chance.upto(30)):
                act = chance.one_of(self.way.knock, self.way.forge, self.way.steal, self.way.drop)
                await act(self, process, own, chance)
                if chance.odds(0.1):
                    await process.close_port()
                    process.open_port(process.port)
            no_secret_in(process)
            if chance.odds(0.2):
                self.leavers.add(process.node)
                return
            await process.close_port()
            await process.sleep(AFTER_US)

        return program

    # --- what must hold ----------------------------------------------------------------------

    def check(self, _results):
        """Of tables; of the windows their keepers have."""
        dead = dead_nodes(self.cluster)
        settled(self.cluster, dead | self.leavers)
        for node in set(range(self.nodes)) - dead - self.leavers:
            rows = self.cluster.directory.in_use(node)
            must_be(rows == (0, 0), rows, "exports and imports in use at node", node)


def make_vmmc(chance):
    """A swarm of those choices on VMMC."""
    swarm = Swarm(chance, VMMC)
    return Made(swarm.cluster, swarm.title, swarm.check)


def make_mini(chance):
    """A swarm of those choices on miNI."""
    swarm = Swarm(chance, MINI)
    return Made(swarm.cluster, swarm.title, swarm.check)
