"""How VMMC and miNI offer a window, reach it, store and fetch; and how they are attacked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_ports import attempt, post_forged
from swarm_rules import PAGE

from nicscope.errors import SimulationError
from nicscope.interfaces import mini, vmmc
from nicscope.interfaces.mini import BufferHandle, Region, Remote
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.ports.process import Process
from nicscope.nic.ports.layout import FETCH, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable


class Offered(NamedTuple):
    """A window, as its keeper has it."""

    thing: Any  # exported, or a region
    memories: tuple[Any, ...]  # of each byte that is stored one has it: the second if redirected
    shown: tuple[Any, ...]

    async def read(self):
        """What is in it."""
        held = [await memory.read() for memory in self.memories]
        return bytes(map(max, *held)) if len(held) > 1 else held[0]


class Way:
    """What a program calls."""

    cluster: Callable[..., Any]
    designs: tuple[str, ...]

    async def store(self, process, remote, buffer, offset, at, count):
        raise NotImplementedError

    def guesses(self, _process, _own, theirs):
        """Every call with something of somebody else's."""
        if isinstance(theirs, Buffer):
            return [lambda: theirs.read(), lambda: theirs.part(0, 1).write(b"\xff")]
        if isinstance(theirs, Process):
            return [
                lambda: theirs.close_port(),
                lambda: theirs.load(0, PAGE),
                lambda: theirs.done(),
                lambda: theirs.post(WRITE, 0, [(0, 8)]),
                lambda: theirs.sleep(1),
            ]
        return []

    async def steal(self, swarm, process, own, chance):
        """What is another's is refused by whatever takes it."""
        kind = chance.one_of(Buffer, Process, *self.kinds)
        theirs = swarm.bazaar.foreign(chance, process, kind)
        if theirs is not None:
            for call in self.guesses(process, own, theirs):
                await attempt(call())

    kinds: tuple[type, ...] = ()

    async def forge(self, swarm, process, own, chance):
        """Write descriptors past the library, or past its objects."""
        del swarm
        await post_forged(chance, process, process.port, chance.upto(4, 1))
        name = chance.upto(20)
        await process.post(chance.one_of(WRITE, FETCH), name, [(own.address, chance.upto(PAGE, 1))])
        await process.done()
        await self.forget(process)

    async def forget(self, process):
        """Hear what has come, so that there is room for more."""
        while process.waiting():
            await process.arrival()

    async def knock(self, swarm, process, own, chance):
        """Try to come in where only one user may."""
        raise NotImplementedError

    async def drop(self, swarm, process, own, chance):
        """Begin a call and never go on with it."""
        begun = chance.sample(self.beginnings(swarm, process, own, chance))()
        with contextlib.suppress(StopIteration, SimulationError):
            begun.send(None)
        begun.close()

    def beginnings(self, swarm, process, own, chance):
        """Calls of one's own."""
        raise NotImplementedError


class Vmmc(Way):
    """Exports and imports."""

    cluster = vmmc.Cluster
    designs = ("utlb", "utlb", "utlb-shared", "utlb-process", "vmmc-static", "vmmc-interrupt")
    kinds = (vmmc.Exported, vmmc.Imported, vmmc.Transfer)

    def name_of(self, process):
        return process.node, process.number

    async def offer(self, process, memory, name, user, chance):
        exported = await process.export(memory, name, allow=user)
        if chance.odds(0.7):
            return Offered(exported, (memory,), (exported,))
        other = process.allocate(memory.length)
        await process.redirect(exported, other)
        return Offered(exported, (memory, other), (exported, other))

    async def withdraw(self, process, offered):
        await process.unexport(offered.thing)

    async def reach(self, process, node, name):
        return await process.import_buffer(node, name, patience_us=100_000)

    async def leave(self, process, remote):
        process.release(remote)

    async def store(self, process, remote, buffer, offset, at, count):
        return await process.store(remote, buffer, offset, at=at, length=count, notify=True)

    async def fetch(self, process, remote, buffer, offset, at, count):
        return await process.fetch(remote, buffer, offset, at=at, length=count)

    async def ended(self, process, requests):
        done = await process.wait(requests[0])
        return done.transfer, done.status

    async def heard(self, process):
        return await process.notification("poll")

    async def knock(self, swarm, process, own, chance):
        window = chance.sample(swarm.windows)
        node = (process.node + chance.upto(swarm.nodes - 1, 1)) % swarm.nodes
        found = swarm.cluster.directory.find(node, window.name)
        if found is not None:
            await attempt(process.import_buffer(node, window.name))
        if chance.odds(0.3):
            await process.swap_table()
            await process.unpin(own)

    def guesses(self, process, own, theirs):
        if isinstance(theirs, vmmc.Exported):
            return [
                lambda: process.unexport(theirs),
                lambda: process.redirect(theirs, own),
                lambda: process.redirect(theirs, None),
            ]
        if isinstance(theirs, vmmc.Imported):
            return [
                lambda: process.store(theirs, own),
                lambda: process.fetch(theirs, own),
                lambda: called(process.release, theirs),
            ]
        if isinstance(theirs, Buffer):
            mine = next(iter(process._exported.values()), None)
            found = [
                lambda: process.export(theirs, "stolen"),
                lambda: process.check(theirs),
                lambda: process.unpin(theirs),
            ]
            return found + ([lambda: process.redirect(mine, theirs)] if mine else [])
        return super().guesses(process, own, theirs)

    def beginnings(self, swarm, process, own, chance):
        node = (process.node + 1) % swarm.nodes
        return [
            lambda: process.export(own, f"dropped {chance.upto(10**9)}"),
            lambda: process.import_buffer(node, "nothing"),
            lambda: process.unpin(own),
            lambda: process.swap_table(),
            lambda: own.write(b"\xff"),
        ]


class Mini(Way):
    """Registered and opened buffers."""

    cluster = mini.Cluster
    designs = ("mini", "mini", "vmmc-static")
    kinds = (Region, Remote, BufferHandle)

    def name_of(self, process):
        return process.process_handle

    async def offer(self, process, memory, name, user, chance):
        del chance
        region = await process.register(memory, only=user, name=name)
        return Offered(region, (memory,), (region, region.handle))

    async def withdraw(self, process, offered):
        await process.unregister(offered.thing)

    async def reach(self, process, node, name):
        del node
        for _ in range(1000):
            if process.cluster.directory.published(name) is not None:
                return await process.open(await process.find(name))
            await process.sleep(100)
        raise SimulationError(f"nobody has published {name}")

    async def leave(self, process, remote):
        await process.close(remote)

    async def store(self, process, remote, buffer, offset, at, count):
        return await process.write(remote, buffer, count, offset=offset, at=at)

    async def fetch(self, process, remote, buffer, offset, at, count):
        return await process.read(remote, buffer, count, offset=offset, at=at)

    async def ended(self, process, requests):
        heard = process.__dict__.setdefault("heard of", {})
        while not any(request in heard for request in requests):
            done = await process.done()
            heard[done.request] = done.status
        request = next(request for request in requests if request in heard)
        return request, heard.pop(request)

    async def heard(self, process):
        return await process.stored()

    async def knock(self, swarm, process, own, chance):
        del own
        handle = swarm.cluster.directory.published(chance.sample(swarm.windows).name)
        if handle is not None:
            await attempt(process.open(handle))
        with contextlib.suppress(SimulationError):
            await process.open(BufferHandle(chance.upto(20), 60_000))

    def guesses(self, process, own, theirs):
        if isinstance(theirs, Region):
            return [lambda: process.unregister(theirs)]
        if isinstance(theirs, Remote):
            return [
                lambda: process.write(theirs, own),
                lambda: process.read(theirs, own),
                lambda: process.close(theirs),
            ]
        if isinstance(theirs, Buffer):
            return [lambda: process.register(theirs), *super().guesses(process, own, theirs)]
        return super().guesses(process, own, theirs)

    def beginnings(self, swarm, process, own, chance):
        del swarm
        return [
            lambda: process.register(own, name=f"dropped {chance.upto(10**9)}"),
            lambda: process.find("nothing"),
            lambda: own.write(b"\xff"),
            lambda: process.sleep(1),
        ]


async def called(call, *given):
    """What takes no time."""
    call(*given)


VMMC, MINI = Vmmc(), Mini()
