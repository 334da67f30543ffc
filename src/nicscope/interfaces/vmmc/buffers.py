"""Receive buffers as programs hold them: exported by one process, imported by others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import shown, whole
from nicscope.interfaces.ownership import Owned
from nicscope.nic.ports.layout import MAY_FETCH, MAY_WRITE

if TYPE_CHECKING:
    from nicscope.interfaces.ports.memory import Buffer

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
