"""What is exported and imported in a cluster: names, and the rows of the NICs' tables for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.ports.connecting import Streams
from nicscope.errors import SimulationError
from nicscope.host.rest import is_export_at_rest, is_import_at_rest
from nicscope.interfaces.ports.rows import Rows
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound
from nicscope.nic.ports.layout import NOBODY

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.process import Process
    from nicscope.interfaces.vmmc.buffers import Allowed


@kernel
def _is_export_at_rest(machine: Any, n: int, p: int, number: int) -> Any:
    return is_export_at_rest(machine, n, p, number)


@kernel
def _is_import_at_rest(machine: Any, n: int, p: int, number: int) -> Any:
    return is_import_at_rest(machine, n, p, number)


class Offer(NamedTuple):
    """A receive buffer that is exported: whose, where, and to whom."""

    node: int
    number: int  # in the NIC's table
    port: int
    address: int
    length: int
    allow: Allowed
    rights: int


class Directory:
    """Of one run."""

    def __init__(self, machine: Machine) -> None:
        self._ports = machine.ports
        self._streams = Streams(machine.ports)
        nodes, exports = self._ports.exports.shape
        self._names: dict[tuple[int, str], Offer | None] = {}
        self._exports = Rows(nodes, exports, "exports", "exports")
        self._imports = Rows(nodes, self._ports.imports.shape[1], "imports", "imports")
        self._is_export_at_rest = bound(_is_export_at_rest, machine)
        self._is_import_at_rest = bound(_is_import_at_rest, machine)

    def find(self, node: int, name: str) -> Offer | None:
        """What ``node`` exports as ``name``, if it does by now."""
        return self._names.get((node, name))

    def reserve(self, node: int, name: str) -> int:
        """The row of a buffer that is about to be exported as ``name``.

        Errors: ``SimulationError`` if the name is taken or the table full.
        """
        if (node, name) in self._names:
            raise SimulationError(f"node {node} exports {name!r} already; take another name")
        number = self._exports.take(node)
        self._names[node, name] = None
        return number

    def give_up(self, node: int, name: str, number: int) -> None:
        """Nothing comes of that export."""
        del self._names[node, name]
        self._exports.give_back((node, number), once=lambda: True)

    def export(self, owner: Process, name: str, offer: Offer) -> None:
        """Enter the buffer in the NIC's table: from now on transfers may come."""
        record = self._ports.exports[offer.node, offer.number]
        allow = offer.allow
        node, process = allow if isinstance(allow, tuple) else (allow, None)
        record["port"] = offer.port
        record["space"] = owner.number
        record["start"] = offer.address
        record["length"] = offer.length
        record["rights"] = offer.rights
        record["node"] = NOBODY if node is None else node
        record["importer"] = NOBODY if process is None else process + 1
        record["redirect"] = -1
        record["stores"] = 0
        record["epoch"] += 1  # imports of what was here before are worth nothing
        record["valid"] = 1
        self._names[offer.node, name] = offer

    def withdraw(self, name: str, offer: Offer) -> None:
        """Take the buffer out: transfers that come later are rejected."""
        node, number, port = offer[:3]
        del self._names[node, name]
        record = self._ports.exports[node, number]
        record["valid"] = 0
        record["epoch"] += 1
        self._exports.give_back(
            (node, number), once=lambda: bool(self._is_export_at_rest(node, port, number))
        )

    def bring_in(self, guest: Process, offer: Offer) -> int:
        """Enter the right to use the buffer in the NIC's table of ``guest``'s node; its row."""
        stream = self._streams.between(guest.node, guest.port, offer.node, offer.port)
        number = self._imports.take(guest.node)
        record = self._ports.imports[guest.node, number]
        record["stream"] = stream
        record["node"] = offer.node
        record["export"] = offer.number
        record["start"] = offer.address % int(self._ports.memory.config[0]["page_size"])
        record["length"] = offer.length
        record["rights"] = offer.rights
        record["epoch"] = int(self._ports.exports[offer.node, offer.number]["epoch"])
        record["port"] = guest.port
        return number

    def release(self, guest: Process, number: int) -> None:
        """Take a right to use a buffer out again."""
        node, port = guest.node, guest.port
        self._ports.imports[node, number]["port"] = NOBODY
        self._imports.give_back(
            (node, number), once=lambda: bool(self._is_import_at_rest(node, port, number))
        )

    def in_use(self, node: int) -> tuple[int, int]:
        """Rows of exports and of imports of ``node`` that are somebody's, or still named."""
        return self._exports.in_use(node), self._imports.in_use(node)
