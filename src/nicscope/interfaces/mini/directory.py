"""What the drivers of a cluster know of buffers and processes, in their hosts' memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.ports.connecting import Streams
from nicscope.errors import SimulationError
from nicscope.host.rest import is_export_at_rest, is_import_at_rest
from nicscope.interfaces.arguments import LEAST, shown, whole
from nicscope.interfaces.mini.handles import BUFFER_BITS, PROCESS_BITS, BufferHandle, Remote
from nicscope.interfaces.ports.rows import Rows
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE
from nicscope.nic.ports.handle_cache import forget_handle
from nicscope.nic.ports.layout import NOBODY

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.mini.endpoint import Endpoint


@kernel
def _is_export_at_rest(machine: Any, n: int, p: int, number: int) -> Any:
    return is_export_at_rest(machine, n, p, number)


@kernel
def _is_import_at_rest(machine: Any, n: int, p: int, number: int) -> Any:
    return is_import_at_rest(machine, n, p, number)


class Directory:
    """Every process by its handle, and every node's tables of registered and opened buffers.

    A row of a table serves one buffer after another.  Which of them a handle means, its upper bits
    say: handles of a buffer that is gone never name the next one.
    """

    def __init__(self, machine: Machine) -> None:
        self._ports = machine.ports
        self._streams = Streams(machine.ports)
        self._endpoints: list[Endpoint] = []
        self._names: dict[str, BufferHandle] = {}
        nodes, exports = self._ports.exports.shape
        self._rows = exports
        self._exports = Rows(nodes, exports, "registered buffers", "exports")
        self._imports = Rows(nodes, self._ports.imports.shape[1], "opened buffers", "imports")
        self._turns = (1 << BUFFER_BITS) // exports  # of a row, before a number comes again
        self._turn = [[0] * exports for _ in range(nodes)]  # of the buffer that is in each row
        self._forget = bound(forget_handle, machine) if self._is_dynamic else None
        self._is_export_at_rest = bound(_is_export_at_rest, machine)
        self._is_import_at_rest = bound(_is_import_at_rest, machine)

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
        return self._exports.take(node)

    def give_up(self, node: int, row: int) -> None:
        """Nothing comes of that registration."""
        self._exports.give_back((node, row), once=lambda: True)

    def export(
        self, owner: Endpoint, row: int, place: tuple[int, int], rights: int, guest: Endpoint | None
    ) -> BufferHandle:
        """Enter a buffer in ``row`` of its node's table."""
        n = owner.node
        record = self._ports.exports[n, row]
        record["valid"] = 1
        record["port"] = owner.port
        record["space"] = owner.number
        record["start"], record["length"] = place
        record["rights"] = rights
        record["node"] = NOBODY if guest is None else guest.node
        record["importer"] = NOBODY if guest is None else guest.port
        record["redirect"] = -1
        record["epoch"] += 1  # what was opened when another was here is worth nothing
        self._change(n, EXPORT_HANDLE, row)
        handle = BufferHandle(row + self._turn[n][row] * self._rows, owner.process_handle)
        handle.run = self
        return handle

    def withdraw(self, owner: Endpoint, row: int) -> None:
        """Take a buffer out of its node's table: handles of it are worth nothing from now on."""
        node, port = owner.node, owner.port
        record = self._ports.exports[node, row]
        record["valid"] = 0
        record["epoch"] += 1
        self._change(node, EXPORT_HANDLE, row)
        self._turn[node][row] = (self._turn[node][row] + 1) % self._turns
        self._exports.give_back(
            (node, row), once=lambda: bool(self._is_export_at_rest(node, port, row))
        )

    def look_up(self, guest: Endpoint, handle: object) -> tuple[BufferHandle, Endpoint, int]:
        """What a handle names, whose that is, and its row there.

        Errors: ``SimulationError`` if there is none, or not for ``guest``.
        """
        named = self._checked(handle, guest)
        owner = self._owner(named.process)
        turn, row = divmod(named.buffer, self._rows)
        record = self._ports.exports[owner.node, row]
        known = record["valid"] == 1 and record["port"] == owner.port
        if not known or self._turn[owner.node][row] != turn:
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
        record = self._ports.exports[owner.node, row]
        n = guest.node
        stream = self._streams.between(n, guest.port, owner.node, owner.port)
        number = self._imports.take(n)
        entry = self._ports.imports[n, number]
        entry["port"] = guest.port
        entry["stream"] = stream
        entry["node"] = owner.node
        entry["export"] = row
        entry["start"] = int(record["start"]) & (guest.cluster.page_size - 1)
        entry["length"] = record["length"]
        entry["rights"] = record["rights"]
        entry["epoch"] = record["epoch"]
        self._change(n, IMPORT_HANDLE, number)
        return Remote(named, owner.node, int(record["length"]), number), number

    def close(self, guest: Endpoint, number: int) -> None:
        """Take an opened buffer out of the table again."""
        node, port = guest.node, guest.port
        self._ports.imports[node, number]["port"] = NOBODY
        self._change(node, IMPORT_HANDLE, number)
        self._imports.give_back(
            (node, number), once=lambda: bool(self._is_import_at_rest(node, port, number))
        )

    def is_taken(self, name: str) -> bool:
        """Whether somebody has published a buffer under ``name``."""
        return name in self._names

    def publish(self, name: str, handle: BufferHandle) -> None:
        """Let others find ``handle`` under ``name``."""
        if name in self._names:
            raise SimulationError(f"the name {name!r} is taken")
        self._names[name] = handle

    def forget(self, name: str) -> None:
        """The name is nobody's."""
        del self._names[name]

    def published(self, name: str) -> BufferHandle | None:
        """The handle published under ``name``, if there is one by now."""
        return self._names.get(name)

    def in_use(self, node: int) -> tuple[int, int]:
        """Rows of registered and of opened buffers that are somebody's, or still named."""
        return self._exports.in_use(node), self._imports.in_use(node)

    def _checked(self, handle: object, guest: Endpoint) -> BufferHandle:
        if not isinstance(handle, BufferHandle):
            raise SimulationError(f"a buffer's handle is needed, got {shown(handle)}")
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
