"""Receive buffers as the system knows them: exported by one process, imported by others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import SimulationError
from nicscope.nic.ports import MAY_FETCH, MAY_WRITE, NOBODY

if TYPE_CHECKING:
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.interfaces.ports.process import Buffer

# Who may import a buffer: anybody, any process of a node, or one process of it.
Allowed = int | tuple[int, int] | None


class Exported(NamedTuple):
    """A receive buffer that others may import."""

    node: int
    number: int  # in the NIC's table
    name: str
    buffer: Buffer
    allow: Allowed
    rights: int


class Imported(NamedTuple):
    """Another process's receive buffer, to which this one has gained access."""

    number: int  # in the NIC's table
    node: int
    name: str
    length: int


def free_place(ports: Ports, what: str, node: int) -> int:
    """The first unused row of the node's table of ``exports`` or ``imports``."""
    taken = ports.exports["valid"][node] == 1
    if what == "imports":
        taken = ports.imports["port"][node] != NOBODY
    for place, used in enumerate(taken.tolist()):
        if not used:
            return place
    raise SimulationError(
        f"node {node} has {len(taken)} {what} already; give the cluster a size with more {what}"
    )


def write_export(ports: Ports, exported: Exported, port: int) -> None:
    """Enter the buffer in the NIC's table: from now on transfers may come."""
    record = ports.exports[exported.node, exported.number]
    node, process = exported.allow if isinstance(exported.allow, tuple) else (exported.allow, None)
    record["port"] = port
    record["space"] = exported.buffer.process.number
    record["start"] = exported.buffer.address
    record["length"] = exported.buffer.length
    record["rights"] = exported.rights
    record["node"] = NOBODY if node is None else node
    record["importer"] = NOBODY if process is None else process + 1
    record["redirect"] = -1
    record["stores"] = 0
    record["valid"] = 1


def write_import(
    ports: Ports, imported: Imported, node: int, port: int, exported: Exported
) -> None:
    """Enter the right to use the buffer in the NIC's table of the importing node."""
    there = ports.exports[exported.node, exported.number]
    record = ports.imports[node, imported.number]
    record["node"] = exported.node
    record["export"] = exported.number
    record["start"] = exported.buffer.address % int(ports.memory.config[0]["page_size"])
    record["length"] = exported.buffer.length
    record["rights"] = exported.rights
    record["epoch"] = int(there["epoch"])
    record["port"] = port


def rights_of(store: bool, fetch: bool) -> int:
    """What may be done to a buffer, as the NIC has it."""
    return (MAY_WRITE if store else 0) | (MAY_FETCH if fetch else 0)


def may_import(allow: Allowed, node: int, process: int) -> bool:
    """Whether the process of ``node`` is among those whom the exporter allowed."""
    if isinstance(allow, tuple):
        return allow == (node, process)
    return allow is None or allow == node
