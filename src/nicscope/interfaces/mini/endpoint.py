"""A miNI process's end of its connections: handles, registered buffers, remote writes and reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nicscope.drivers.simulate.records import COMPUTE, GIVE_UP, REGISTER
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import a_name, in_ps, shown, whole
from nicscope.interfaces.buffers import checked_range, out_of_range_error
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.tasks import latest, no_answer_error
from nicscope.nic.ports.layout import DONE, FETCH, MAY_FETCH, MAY_WRITE, STATUS_NAMES, WRITE

if TYPE_CHECKING:
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.interfaces.mini.cluster import Cluster
    from nicscope.interfaces.ports.memory import Buffer


PROCESS_BITS = 16
BUFFER_BITS = 32
ADDRESS_BITS = 32


class _Words(NamedTuple):
    buffer: int
    process: int  # PCH of its owner


class BufferHandle(_Words):
    """CBH: names a registered buffer anywhere in its cluster (miNI, IV).

    A name, and no more: its bits may be sent, and what they may be used for is the owner's to say.
    """

    run: object = None  # the directory that gave it; None if it was made of its bits

    def packed(self) -> int:
        """The 48 bits."""
        return self.buffer << PROCESS_BITS | self.process


def buffer_handle(packed: int) -> BufferHandle:
    """The handle of 48 bits.  Errors: ``SimulationError`` for more or fewer than there can be."""
    try:
        bits = whole(packed, "a handle", 0, (1 << (BUFFER_BITS + PROCESS_BITS)) - 1)
    except SimulationError:
        raise SimulationError(f"a buffer's handle has 48 bits, got {shown(packed)}") from None
    return BufferHandle(bits >> PROCESS_BITS, bits & ((1 << PROCESS_BITS) - 1))


def memory_handle(address: int, process: int) -> int:
    """VMH: 32 bits of address above the process's handle.  Errors: ``SimulationError``."""
    owner = whole(process, "a process's handle", 0, (1 << PROCESS_BITS) - 1)
    try:
        bits = whole(address, "an address", 0, (1 << ADDRESS_BITS) - 1)
    except SimulationError:
        raise SimulationError(
            f"a memory handle has 32 bits of address, got {shown(address)}"
        ) from None
    return bits << PROCESS_BITS | owner


@dataclass(frozen=True, eq=False)
class Remote(Owned):
    """A buffer that a process has opened: where its operations go."""

    what = "an opened buffer"
    origin = "open()"

    handle: BufferHandle
    node: int
    length: int
    place: int  # in the host's table of opened buffers


RIGHTS = {"read": MAY_FETCH, "write": MAY_WRITE, "both": MAY_FETCH | MAY_WRITE}


FIND_US = 1e6  # chosen, as VMMC's importers: how long a name is asked for


@dataclass(frozen=True, eq=False)
class Region(Owned):
    """A registered buffer of this process."""

    what = "a registered buffer"
    origin = "register()"

    handle: BufferHandle
    buffer: Buffer


class _Entry(NamedTuple):
    """What a region stands for."""

    row: int  # of the node's table
    place: tuple[int, int]
    name: str | None


class Stored(NamedTuple):
    """Data has come to a registered buffer, all of it."""

    handle: BufferHandle
    offset: int
    length: int
    node: int  # where it came from


class Endpoint(Process):
    """One process: three queues on the NIC, and what goes through them."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, sim_process: SimProcess, number: int) -> None:
        super().__init__(cluster, sim_process, number)
        self._process_handle = cluster.directory.add(self)
        self._regions: dict[int, Region] = {}  # by row
        self._handles: dict[int, BufferHandle] = {}  # likewise, those of long ago too
        self._remotes: dict[int, Remote] = {}

    @property
    def process_handle(self) -> int:
        """PCH: the process's name in its cluster."""
        return self._process_handle

    async def register(
        self,
        buffer: Buffer,
        rights: str = "both",
        *,
        only: int | None = None,
        name: str | None = None,
    ) -> Region:
        """Have ``buffer`` known under a handle; others may ``read`` or ``write`` it, or both.

        ``only`` names the process (its handle) that may open it; under ``name`` others can find
        it.  Nothing is pinned until it is used, but by static tables.  Errors:
        ``SimulationError`` if there is no room for another buffer, or no translation for it.
        """
        self._owner.check_caller()
        self._check_open()
        place = checked_range(self._owner, self, buffer)
        if not isinstance(rights, str) or rights not in RIGHTS:
            raise SimulationError(f"no rights {shown(rights)}; there are {', '.join(RIGHTS)}")
        directory = self.cluster.directory
        guest = directory.guest(only)
        if name is not None and directory.is_taken(a_name(name)):
            raise SimulationError(f"the name {name!r} is taken")
        row = directory.take(self.node)
        try:
            await self._have_pinned(place)
            if name is not None and directory.is_taken(name):  # meanwhile
                await self._give_up(place)
                raise SimulationError(f"the name {name!r} is taken")
        except BaseException:
            directory.give_up(self.node, row)
            raise
        handle = directory.export(self, row, place, RIGHTS[rights], guest)
        if name is not None:
            directory.publish(name, handle)
        region = self._regions[row] = Region(handle, buffer)
        self._handles[row] = handle
        return self._owner.give(region, _Entry(row, place, name))

    async def unregister(self, region: Region) -> None:
        """Nobody can use ``region`` any more: what is on its way is rejected."""
        self._owner.check_caller()
        entry = self._owner.record_of(region, Region)
        self._owner.take_back(region, "unregistered")
        await self._call()
        self._withdraw(entry)
        await self._give_up(entry.place)

    async def find(
        self, name: str, every_us: float = 50.0, *, timeout_us: float | None = None
    ) -> BufferHandle:
        """The handle that some process has published, once it has.

        Errors: ``WaitTimeoutError`` if none has for ``timeout_us``, by default a second.
        """
        longest = FIND_US if timeout_us is None else timeout_us
        until = latest(self._sim_process, longest)
        self._owner.check_caller()
        a_name(name)
        in_ps(every_us, self._sim_process.now)
        while (handle := self.cluster.directory.published(name)) is None:
            if self._sim_process.now >= until:
                named = ", ".join(map(repr, self.cluster.directory.names))
                raise no_answer_error(
                    self._sim_process,
                    f"nobody has published {name!r} within {float(longest):,.0f} us; check the "
                    f"name, or wait longer with timeout_us= (published: {named or 'nothing'})",
                )
            await self.sleep(every_us)
        return handle

    async def open(self, handle: BufferHandle) -> Remote:
        """Connect to the buffer of ``handle``, so that operations can name it.

        Errors: ``SimulationError`` if there is none, or not for this process.
        """
        self._owner.check_caller()
        self._check_open()
        self.cluster.directory.look_up(self, handle)
        await self._call()
        remote, number = self.cluster.directory.open(self, handle)
        self._remotes[number] = remote
        return self._owner.give(remote, (number, remote.length))

    async def close(self, remote: Remote) -> None:
        """Give the connection to a buffer up: its place in the host's table is free again."""
        self._owner.check_caller()
        number, _ = self._owner.record_of(remote, Remote)
        self._owner.take_back(remote, "closed")
        await self._call()
        del self._remotes[number]
        self.cluster.directory.close(self, number)

    async def write(
        self, remote: Remote, source: Buffer, length: int | None = None, *,
        offset: int = 0, at: int = 0, notify: bool = True,
    ) -> int:  # fmt: skip
        """Post an RDMA write of ``source[at:at+length]`` to ``offset`` of ``remote``; its number.

        The source's memory handle is in the descriptor; the other side's is the start of the
        buffer plus ``offset``.  ``notify``: its owner hears of it (``stored``).
        """
        number, piece = self._named(remote, source, at, length)
        return await self.post(WRITE, number, [piece], offset=offset, notify=notify)

    async def read(
        self, remote: Remote, into: Buffer, length: int | None = None, *,
        offset: int = 0, at: int = 0,
    ) -> int:  # fmt: skip
        """Post an RDMA read of ``remote`` from ``offset`` to ``into[at:]``; its number."""
        number, piece = self._named(remote, into, at, length)
        return await self.post(FETCH, number, [piece], offset=offset)

    async def stored(self, mode: str = "poll", *, timeout_us: float | None = None) -> Stored:
        """The next write to a buffer of this process, when all of it has come."""
        arrival = await self.arrival(mode, timeout_us=timeout_us)
        return Stored(self._handles[arrival.name], arrival.offset, arrival.length, arrival.node)

    async def close_port(self, port: int | None = None) -> None:
        """Close the port, as any: what is registered and opened is given up with it."""
        self._owner.check_caller()
        which = self._own(port)
        entries = []
        for region in [*self._regions.values()]:
            entry = self._owner.record_of(region, Region)
            self._owner.take_back(region, "closed with its port")
            self._withdraw(entry)
            entries.append(entry)
        for number, remote in self._remotes.items():
            self._owner.take_back(remote, "closed with its port")
            self.cluster.directory.close(self, number)
        self._remotes.clear()
        await super().close_port(which)
        for entry in entries:
            await self._give_up(entry.place)

    def _named(
        self, remote: Remote, buffer: Buffer, at: int, length: int | None
    ) -> tuple[int, tuple[int, int]]:
        """What a descriptor names: an opened buffer, and memory of this process."""
        self._owner.check_caller()
        number, _ = self._owner.record_of(remote, Remote)
        place = checked_range(self._owner, self, buffer, at, length)
        if place[1] < 1:
            raise out_of_range_error(at, place[1], buffer.length)
        return number, place

    def _held(self) -> list[tuple[int, int, str]]:
        entries = [self._owner.record_of(each, Region) for each in self._regions.values()]
        return [(*each.place, "it is registered; unregister() it first") for each in entries]

    def _withdraw(self, entry: _Entry) -> None:
        self.cluster.directory.withdraw(self, entry.row)
        if entry.name is not None:
            self.cluster.directory.forget(entry.name)
        del self._regions[entry.row]

    async def _have_pinned(self, place: tuple[int, int]) -> None:
        """Have the pages pinned and entered, which static tables ask for, or call the driver."""
        if self.cluster.is_dynamic:
            await self._call()
            return
        address, length = place
        ended = await self._sim_process.ask(
            REGISTER, peer=self.port, address=address, payload=length
        )
        if ended.address != DONE:
            raise SimulationError(
                f"cannot register {length} bytes on node {self.node}: {STATUS_NAMES[ended.address]}"
            )

    async def _give_up(self, place: tuple[int, int]) -> None:
        if not self.cluster.is_dynamic:
            address, length = place
            await self._sim_process.ask(GIVE_UP, peer=self.port, address=address, payload=length)

    async def _call(self) -> None:
        """Spend a system call: the driver changes a table in the host's memory."""
        cost = int(self._ports.costs[self.node]["system_call"])
        if cost:
            await self._sim_process.ask(COMPUTE, duration=cost)
