"""What the drivers of a cluster know of buffers and processes, in their hosts' memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.ports.handles import forget_handle
from nicscope.errors import SimulationError
from nicscope.handover import bound
from nicscope.interfaces.mini.handles import PROCESS_BITS, BufferHandle, Remote
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE
from nicscope.nic.ports import NOBODY

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.mini.endpoint import Endpoint
    from nicscope.interfaces.ports.process import Buffer


class Directory:
    """Every process by its handle, and every node's tables of registered and opened buffers."""

    def __init__(self, machine: Machine) -> None:
        self._ports = machine.ports
        self._endpoints: list[Endpoint] = []
        self._names: dict[str, BufferHandle] = {}
        self._exported = [0] * len(machine.nodes)
        self._opened = [0] * len(machine.nodes)
        self._forget = bound(forget_handle, machine) if self._is_dynamic else None

    @property
    def _is_dynamic(self) -> bool:
        return bool(self._ports.rules[0]["handles"])

    def add(self, endpoint: Endpoint) -> int:
        """The handle of a new process."""
        if len(self._endpoints) >= 1 << PROCESS_BITS:
            raise SimulationError(f"a process's handle has {PROCESS_BITS} bits: too many processes")
        self._endpoints.append(endpoint)
        return len(self._endpoints) - 1

    def export(
        self, owner: Endpoint, buffer: Buffer, rights: int, only: int | None
    ) -> BufferHandle:
        """Enter a buffer in its node's table."""
        n = owner.node
        number = self._exported[n]
        table = self._ports.exports
        if number == table.shape[1]:
            raise SimulationError(
                f"node {n} has room for {number} registered buffers: give the cluster "
                "PortSize(exports=...)"
            )
        guest = None if only is None else self._owner(only)
        self._exported[n] += 1
        record = table[n, number]
        record["valid"] = 1
        record["port"] = owner.port
        record["space"] = owner.number
        record["start"] = buffer.address
        record["length"] = len(buffer)
        record["rights"] = rights
        record["node"] = NOBODY if guest is None else guest.node
        record["importer"] = NOBODY if guest is None else guest.port
        self._change(n, EXPORT_HANDLE, number)
        return BufferHandle(number, owner.process_handle)

    def withdraw(self, handle: BufferHandle) -> None:
        """Take a buffer out of its node's table: handles of it are worth nothing from now on."""
        owner = self._owner(handle.process)
        record = self._ports.exports[owner.node, handle.buffer]
        record["valid"] = 0
        record["epoch"] += 1
        self._change(owner.node, EXPORT_HANDLE, handle.buffer)

    def open(self, guest: Endpoint, handle: BufferHandle) -> Remote:
        """Enter a buffer anywhere in the table of the node that will name it."""
        owner = self._owner(handle.process)
        exports = self._ports.exports
        if not 0 <= handle.buffer < exports.shape[1]:
            raise _unknown(handle)
        record = exports[owner.node, handle.buffer]
        if record["valid"] == 0 or record["port"] != owner.port:
            raise _unknown(handle)
        if record["importer"] not in (NOBODY, guest.port) or record["node"] not in (
            NOBODY,
            guest.node,
        ):
            raise SimulationError(
                f"buffer {handle.buffer} of process {handle.process} is not for process "
                f"{guest.process_handle}"
            )
        n = guest.node
        number = self._opened[n]
        table = self._ports.imports
        if number == table.shape[1]:
            raise SimulationError(
                f"node {n} has room for {number} opened buffers: give the cluster "
                "PortSize(imports=...)"
            )
        self._opened[n] += 1
        entry = table[n, number]
        entry["port"] = guest.port
        entry["node"] = owner.node
        entry["export"] = handle.buffer
        entry["start"] = int(record["start"]) & (guest.cluster.page_size - 1)
        entry["length"] = record["length"]
        entry["rights"] = record["rights"]
        entry["epoch"] = record["epoch"]
        self._change(n, IMPORT_HANDLE, number)
        return Remote(handle, owner.node, int(record["length"]), number)

    def publish(self, name: str, handle: BufferHandle) -> None:
        """Let others find ``handle`` under ``name``."""
        if name in self._names:
            raise SimulationError(f"the name {name!r} is taken")
        self._names[name] = handle

    def published(self, name: str) -> BufferHandle | None:
        """The handle published under ``name``, if there is one by now."""
        return self._names.get(name)

    def _owner(self, process: int) -> Endpoint:
        if not 0 <= process < len(self._endpoints):
            raise SimulationError(
                f"no process {process}; handles are 0 to {len(self._endpoints) - 1}"
            )
        return self._endpoints[process]

    def _change(self, n: int, kind: int, number: int) -> None:
        if self._forget is not None:
            self._forget(n, kind, number)


def _unknown(handle: BufferHandle) -> SimulationError:
    return SimulationError(f"process {handle.process} has no buffer {handle.buffer} registered")
