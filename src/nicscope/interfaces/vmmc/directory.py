"""What is exported and imported in a VMMC cluster, and receive buffers as programs hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import shown, whole
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.ports.shared_memory import Names, SharedMemory
from nicscope.nic.ports.layout import MAY_FETCH, MAY_WRITE

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.ports.process import Process


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
        self._memory = SharedMemory(machine, Names("exports", "imports"))
        self._names: dict[tuple[int, str], Offer | None] = {}

    def find(self, node: int, name: str) -> Offer | None:
        """What ``node`` exports as ``name``, if it does by now."""
        return self._names.get((node, name))

    def names_of(self, node: int) -> list[str]:
        """What ``node`` exports by now."""
        return [name for (where, name), offer in self._names.items() if where == node and offer]

    def reserve(self, node: int, name: str) -> int:
        """The row of a buffer that is about to be exported as ``name``.

        Errors: ``SimulationError`` if the name is taken or the table full.
        """
        if (node, name) in self._names:
            raise SimulationError(f"node {node} exports {name!r} already; take another name")
        number = self._memory.take(node)
        self._names[node, name] = None
        return number

    def give_up(self, node: int, name: str, number: int) -> None:
        """Frees the row of an export that failed."""
        del self._names[node, name]
        self._memory.give_up(node, number)

    def export(self, owner: Process, name: str, offer: Offer) -> None:
        """Enter the buffer in the NIC's table: from now on transfers may come."""
        allow = offer.allow
        node, process = allow if isinstance(allow, tuple) else (allow, None)
        port = None if process is None else process + 1
        place = offer.address, offer.length
        self._memory.export(owner, offer.number, offer.port, place, offer.rights, (node, port))
        self._names[offer.node, name] = offer

    def withdraw(self, name: str, offer: Offer) -> None:
        """Removes the export: transfers that arrive later are rejected."""
        del self._names[offer.node, name]
        self._memory.withdraw(offer.node, offer.number, offer.port)

    def add_import(self, guest: Process, offer: Offer) -> int:
        """Enters an import in the NIC's table of ``guest``'s node; returns its row."""
        return self._memory.add_import(guest, offer.node, offer.number)

    def release(self, guest: Process, number: int) -> None:
        """Removes an import."""
        self._memory.release(guest, number)

    def in_use(self, node: int) -> tuple[int, int]:
        """Rows of exports and of imports of ``node`` that are somebody's, or still named."""
        return self._memory.in_use(node)


# Who may import a buffer: anybody, any process of a node, or one process of it.
Allowed = int | tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Exported(Owned):
    """A receive buffer that others may import."""

    what = "an exported buffer"
    origin = "export()"

    node: int
    number: int  # in the NIC's table
    name: str
    buffer: Buffer
    allow: Allowed
    rights: int


@dataclass(frozen=True, eq=False)
class Imported(Owned):
    """Another process's receive buffer, to which this one has gained access."""

    what = "an import"
    origin = "import_buffer()"

    number: int  # in the NIC's table
    node: int
    name: str
    length: int


@dataclass(frozen=True, eq=False)
class Transfer(Owned):
    """A remote store or fetch that has been posted."""

    what = "a transfer"
    origin = "store() or fetch()"

    number: int
    operation: str  # "remote store" or "remote fetch"


def rights_of(store: bool, fetch: bool) -> int:
    """What may be done to a buffer, as the NIC has it."""
    return (MAY_WRITE if store else 0) | (MAY_FETCH if fetch else 0)


def checked(allow: object, nodes: int) -> Allowed:
    """Whom an exporter allows, as whole numbers.  Errors: ``SimulationError``."""
    if allow is None:
        return None
    if not isinstance(allow, tuple):
        return whole(allow, "a node that may import", 0, nodes - 1)
    if len(allow) != 2:
        raise SimulationError(
            f"who may import is a node, a node and a process, or None; got {shown(allow)}"
        )
    node, process = allow
    return (
        whole(node, "a node that may import", 0, nodes - 1),
        whole(process, "a process that may import", 0, (1 << 31) - 1),
    )


def may_import(allow: Allowed, node: int, process: int) -> bool:
    """Whether the process of ``node`` is among those whom the exporter allowed."""
    if isinstance(allow, tuple):
        return allow == (node, process)
    return allow is None or allow == node
