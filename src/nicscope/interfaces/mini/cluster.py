"""Hosts whose NICs look handles up in caches of the drivers' tables, or hold static tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import msgspec

from nicscope.config.design import Design, Scheme, Transport, chosen_design
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, checked_host, shown, whole
from nicscope.interfaces.mini.endpoint import (
    BUFFER_BITS,
    PROCESS_BITS,
    BufferHandle,
    Endpoint,
    Remote,
)
from nicscope.interfaces.mini.memory import check_fits, nic_memory
from nicscope.interfaces.options import SharedOptions, with_named_options
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.ports.shared_memory import Names, SharedMemory
from nicscope.kernel.entry import bound
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE, invalidate_handle
from nicscope.nic.ports.layout import NOBODY
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.programs import Simulation


class Directory:
    """Every process by its handle, and every node's tables of registered and opened buffers.

    A row of a table serves one buffer after another, and tables of hosts grow.  So a buffer has a
    number of its own, by which the driver finds its row: handles of one that is gone name none.
    """

    def __init__(self, machine: Machine) -> None:
        self._ports = machine.ports
        called = Names("registered buffers", "opened buffers")
        self._memory = SharedMemory(machine, called, grows=self._is_dynamic)
        self._endpoints: list[Endpoint] = []
        self._names: dict[str, BufferHandle] = {}
        nodes = len(self._ports.shared.exports)
        self._row_of: list[dict[int, int]] = [{} for _ in range(nodes)]  # by buffer's number
        self._number_in: list[dict[int, int]] = [{} for _ in range(nodes)]  # by row
        self._given = [0] * nodes  # numbers ever
        self._forget = bound(invalidate_handle, machine) if self._is_dynamic else None

    @property
    def _is_dynamic(self) -> bool:
        return bool(self._ports.rules[0]["handles"])

    def add(self, endpoint: Endpoint) -> int:
        """The handle of a new process."""
        if len(self._endpoints) >= 1 << PROCESS_BITS:
            raise SimulationError(f"a process's handle has {PROCESS_BITS} bits: too many processes")
        self._endpoints.append(endpoint)
        return len(self._endpoints) - 1

    def guest(self, process: object) -> Endpoint | None:
        """The process that alone may open a buffer; None: any.  Errors: if there is none such."""
        return None if process is None else self._owner(process)

    def take(self, node: int) -> int:
        """A row of ``node`` for a buffer that is to be registered.  Errors: if all are in use."""
        return self._memory.take(node)

    def give_up(self, node: int, row: int) -> None:
        """Frees the row of a registration that failed."""
        self._memory.give_up(node, row)

    def export(
        self, owner: Endpoint, row: int, place: tuple[int, int], rights: int, guest: Endpoint | None
    ) -> BufferHandle:
        """Enter a buffer in ``row`` of its node's table."""
        n = owner.node
        allowed = (None, None) if guest is None else (guest.node, guest.port)
        self._memory.export(owner, row, owner.port, place, rights, allowed)
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
        self._memory.withdraw(node, row, owner.port)
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
        number = self._memory.add_import(guest, owner.node, row)
        self._change(guest.node, IMPORT_HANDLE, number)
        length = int(self._ports.shared.exports[owner.node, row]["length"])
        return Remote(named, owner.node, length, number), number

    def close(self, guest: Endpoint, number: int) -> None:
        """Take an opened buffer out of the table again."""
        self._memory.release(guest, number)
        self._change(guest.node, IMPORT_HANDLE, number)

    def is_taken(self, name: str) -> bool:
        """Whether somebody has published a buffer under ``name``."""
        return name in self._names

    def publish(self, name: str, handle: BufferHandle) -> None:
        """Let others find ``handle`` under ``name``."""
        if name in self._names:
            raise SimulationError(f"the name {name!r} is taken")
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

    def in_use(self, node: int) -> tuple[int, int]:
        """Rows of registered and of opened buffers that are somebody's, or still named."""
        return self._memory.in_use(node)

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
        self._directory: Directory | None = None

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        check_fits(simulation.machine, self.platform, hosts)
        self._directory = Directory(simulation.machine)
        return simulation

    @property
    def is_dynamic(self) -> bool:
        """Whether handles are looked up in caches."""
        return self.design.scheme is Scheme.HANDLE

    @property
    def directory(self) -> Directory:
        """What the drivers know; there once ``run`` has begun."""
        assert self._directory is not None
        return self._directory

    @TrimmedTraceback()
    def nic_memory(self, node: int) -> dict[str, int]:
        """Bytes of each structure on the NIC of ``node``, as it has run."""
        return nic_memory(self._ran().machine, self._node(node))
