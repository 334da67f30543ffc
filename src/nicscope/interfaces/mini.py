"""miNI: registered communication buffers, remote writes and reads, handles looked up on demand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Unpack

import msgspec

from nicscope.config.design import Design, Scheme, Transport, chosen_design
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import (
    LEAST,
    SharedOptions,
    a_name,
    checked_host,
    in_ps,
    shown,
    whole,
    with_named_options,
)
from nicscope.interfaces.buffers import checked_range, out_of_range_error
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.ports.nic_memory import check_fits, nic_memory
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.ports.shared_memory import Names, SharedMemory
from nicscope.interfaces.programs import latest
from nicscope.kernel.entry import bound
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE, invalidate_handle
from nicscope.nic.ports.layout import FETCH, MAY_FETCH, MAY_WRITE, NOBODY, WRITE
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.interfaces.ports.memory import Buffer

__all__ = ["BufferHandle", "Cluster", "Endpoint", "Region", "Remote", "Stored"]

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
        if name is not None and directory.published(a_name(name)) is not None:
            raise SimulationError(f"the name {name!r} is taken")
        row = directory.take(self.node)
        try:
            await self._have_pinned(place)
            if name is not None and directory.published(name) is not None:  # meanwhile
                await self._give_up(place)
                raise SimulationError(f"the name {name!r} is taken")
        except BaseException:
            directory.give_back(self.node, row)
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
        directory = self.cluster.directory

        def silence() -> str:
            named = ", ".join(map(repr, directory.names))
            return (
                f"nobody has published {name!r} within {float(longest):,.0f} us; check the "
                f"name, or wait longer with timeout_us= (published: {named or 'nothing'})"
            )

        return await self._await_found(partial(directory.published, name), until, every_us, silence)

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
        status = await self._register_pages(place)
        if status != "done":
            raise SimulationError(f"cannot register {place[1]} bytes on node {self.node}: {status}")

    async def _give_up(self, place: tuple[int, int]) -> None:
        if not self.cluster.is_dynamic:
            await self._deregister_pages(place)

    async def _call(self) -> None:
        """Spend a system call: the driver changes a table in the host's memory."""
        if self._ports.costs[self.node]["system_call"]:
            await self.system_call()


class Directory(SharedMemory):
    """Every process by its handle, and every node's tables of registered and opened buffers.

    A row of a table serves one buffer after another, and tables of hosts grow.  So a buffer has a
    number of its own, by which the driver finds its row: handles of one that is gone name none.
    """

    def __init__(self, machine: Machine) -> None:
        is_dynamic = bool(machine.ports.rules[0]["handles"])
        super().__init__(machine, Names("registered buffers", "opened buffers"), grows=is_dynamic)
        self._endpoints: list[Endpoint] = []
        self._names: dict[str, BufferHandle] = {}
        nodes = len(self._ports.shared.exports)
        self._row_of: list[dict[int, int]] = [{} for _ in range(nodes)]  # by buffer's number
        self._number_in: list[dict[int, int]] = [{} for _ in range(nodes)]  # by row
        self._given = [0] * nodes  # numbers ever
        self._forget = bound(invalidate_handle, machine) if is_dynamic else None

    def add(self, endpoint: Endpoint) -> int:
        """The handle of a new process."""
        if len(self._endpoints) >= 1 << PROCESS_BITS:
            raise SimulationError(f"a process's handle has {PROCESS_BITS} bits: too many processes")
        self._endpoints.append(endpoint)
        return len(self._endpoints) - 1

    def guest(self, process: object) -> Endpoint | None:
        """The process that alone may open a buffer; None: any.  Errors: if there is none such."""
        return None if process is None else self._owner(process)

    def export(
        self, owner: Endpoint, row: int, place: tuple[int, int], rights: int, guest: Endpoint | None
    ) -> BufferHandle:
        """Enter a buffer in ``row`` of its node's table."""
        n = owner.node
        allowed = (None, None) if guest is None else (guest.node, guest.port)
        self.enter(owner, row, owner.port, place, rights, allowed)
        self._change(n, EXPORT_HANDLE, row)
        number = self._number_of_next(n)
        self._row_of[n][number], self._number_in[n][row] = row, number
        handle = BufferHandle(number, owner.process_handle)
        handle.run = self
        return handle

    def _number_of_next(self, node: int) -> int:
        """A number that no buffer of ``node`` has; as long as there are others, none had it."""
        while True:
            number = self._given[node] % (1 << BUFFER_BITS)
            self._given[node] += 1
            if number not in self._row_of[node]:
                return number

    def withdraw(self, owner: Endpoint, row: int) -> None:
        """Removes a buffer from its node's table: its handles are invalid from now on."""
        node = owner.node
        self.remove(node, row, owner.port)
        self._change(node, EXPORT_HANDLE, row)
        del self._row_of[node][self._number_in[node].pop(row)]

    def look_up(self, guest: Endpoint, handle: object) -> tuple[BufferHandle, Endpoint, int]:
        """What a handle names, whose that is, and its row there.

        Errors: ``SimulationError`` if there is none, or not for ``guest``.
        """
        named = self._checked(handle, guest)
        owner = self._owner(named.process)
        row = self._row_of[owner.node].get(named.buffer)
        record = self._ports.shared.exports[owner.node, row or 0]
        if row is None or record["valid"] == 0 or record["port"] != owner.port:
            raise SimulationError(
                f"process {named.process} has no buffer {named.buffer} registered"
            )
        if record["importer"] not in (NOBODY, guest.port) or record["node"] not in (
            NOBODY,
            guest.node,
        ):
            raise SimulationError(
                f"buffer {named.buffer} of process {named.process} is not for process "
                f"{guest.process_handle}"
            )
        guest.cluster.check_path(guest.node, owner.node)
        return named, owner, row

    def open(self, guest: Endpoint, handle: object) -> tuple[Remote, int]:
        """Enter a buffer anywhere in the table of the node that will name it; and its row there."""
        named, owner, row = self.look_up(guest, handle)
        number = self.add_import(guest, owner.node, row)
        self._change(guest.node, IMPORT_HANDLE, number)
        length = int(self._ports.shared.exports[owner.node, row]["length"])
        return Remote(named, owner.node, length, number), number

    def close(self, guest: Endpoint, number: int) -> None:
        """Take an opened buffer out of the table again."""
        self.release(guest, number)
        self._change(guest.node, IMPORT_HANDLE, number)

    def publish(self, name: str, handle: BufferHandle) -> None:
        """Let others find ``handle`` under ``name``, which is free."""
        self._names[name] = handle

    def forget(self, name: str) -> None:
        """Frees the name."""
        del self._names[name]

    @property
    def names(self) -> list[str]:
        """What has been published."""
        return [*self._names]

    def published(self, name: str) -> BufferHandle | None:
        """The handle published under ``name``, if there is one by now."""
        return self._names.get(name)

    def _checked(self, handle: object, guest: Endpoint) -> BufferHandle:
        if not isinstance(handle, BufferHandle):
            raise SimulationError(
                f"a buffer's handle is needed, as find(name) gives one, got {shown(handle)}"
            )
        if handle.run is not None and handle.run is not self:
            raise SimulationError(
                "a handle of another cluster, or of an earlier run; use one that find() gave "
                f"{guest._owner.name}"
            )
        return BufferHandle(
            whole(handle.buffer, "a buffer's number", 0, (1 << BUFFER_BITS) - 1),
            whole(handle.process, "a process's handle", 0, (1 << PROCESS_BITS) - 1),
        )

    def _owner(self, process: object) -> Endpoint:
        number = whole(process, "a process's handle", LEAST)
        if not 0 <= number < len(self._endpoints):
            raise SimulationError(
                f"no process {number}; handles are 0 to {len(self._endpoints) - 1}"
            )
        return self._endpoints[number]

    def _change(self, n: int, kind: int, number: int) -> None:
        if self._forget is not None:
            self._forget(n, kind, number)


PLATFORM = "mini-cluster"
# Assumed: the papers give no value.  The longest penalty that miNI calls usual is 50 + 500 us, so
# that what misses has its entries when it comes again: a miss costs one retransmission.
TIME_OUT_PS = 600_000_000
# Chosen: registered and opened buffers of a node that static tables on its NIC have room for.
BUFFERS = 4096


class Cluster(PortCluster[Endpoint]):
    """Hosts on one switch, and processes with registered buffers on them."""

    interface = "miNI"
    given = "endpoint"
    process_type = Endpoint
    transport = Transport(time_out_ps=TIME_OUT_PS, remaps=False)  # the paper has one path
    directory: Directory  # what the drivers know, once ``run`` has begun

    @with_named_options(SharedOptions)
    def __init__(
        self,
        design: str | Path | Design = "mini",
        platform: str | Path | Platform | None = PLATFORM,
        **options: Unpack[SharedOptions],
    ) -> None:
        """``design``: of scheme handle, or static for the baseline; ``options`` as ``PortCluster``.

        Errors: ``DesignError`` for other schemes, and as ``PortCluster``.
        """
        chosen = chosen_design(design, {})
        room = options.get("size")
        if room is None:
            room = PortSize(longest=checked_host(options.get("host")).pages_per_space)
            if options.get("scheme", chosen.scheme) != Scheme.HANDLE:
                room = msgspec.structs.replace(room, exports=BUFFERS, imports=BUFFERS)
        options["size"] = room
        super().__init__(chosen, platform, **options)

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        check_fits(simulation.machine, self.platform, hosts)
        self.directory = Directory(simulation.machine)
        return simulation

    @property
    def is_dynamic(self) -> bool:
        """Whether handles are looked up in caches."""
        return self.design.scheme is Scheme.HANDLE

    @TrimmedTraceback()
    def nic_memory(self, node: int) -> dict[str, int]:
        """Bytes of each structure on the NIC of ``node``, as it has run."""
        return nic_memory(self._ran().machine, self._node(node))
