"""Tables of exported and imported memory, and the allocation of their rows."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.ports.connections import Streams
from nicscope.errors import SimulationError
from nicscope.host.release import is_export_idle, is_import_idle
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import NOBODY, double_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.process import Process


class Rows:
    """Free rows of one table, node by node.

    A row comes again as late as possible, and not before nothing names it any more.
    """

    def __init__(
        self,
        nodes: int,
        rows: int,
        what: str,
        setting: str,
        grow: Callable[[], int] | None = None,
    ) -> None:
        """``what`` a row is, in the plural, and the ``setting`` of ``PortSize`` that gives more.

        ``grow``: makes the table longer, and says how many rows it has then; None: it cannot.
        """
        self._rows = rows
        self._grow = grow
        self._what = what
        self._setting = setting
        self._free = [deque(range(rows)) for _ in range(nodes)]
        self._leaving: list[tuple[tuple[tuple[int, int], ...], Callable[[], bool]]] = []

    def take(self, node: int) -> int:
        """A row of ``node``.  Errors: ``SimulationError`` if all are in use, and it cannot grow."""
        self._settle()
        if not self._free[node] and self._grow is not None:
            begin, self._rows = self._rows, self._grow()
            for free in self._free:
                free.extend(range(begin, self._rows))
        if not self._free[node]:
            raise SimulationError(
                f"node {node} has all its {self._rows} {self._what} in use: give some back, or "
                f"give the cluster PortSize({self._setting}=...)"
            )
        return self._free[node].popleft()

    def give_back(self, *rows: tuple[int, int], once: Callable[[], bool]) -> None:
        """Frees these rows, each of a node, once nothing names them."""
        self._leaving.append((rows, once))
        self._settle()

    def in_use(self, node: int) -> int:
        """How many rows of ``node`` are in use, or still named."""
        self._settle()
        return self._rows - len(self._free[node])

    def _settle(self) -> None:
        left = []
        for rows, is_at_rest in self._leaving:
            if is_at_rest():
                for node, row in rows:
                    self._free[node].append(row)
            else:
                left.append((rows, is_at_rest))
        self._leaving = left


@kernel
def _is_export_at_rest(machine: Any, n: int, p: int, number: int) -> Any:
    return is_export_idle(machine, n, p, number)


@kernel
def _is_import_at_rest(machine: Any, n: int, p: int, number: int) -> Any:
    return is_import_idle(machine, n, p, number)


class Names(NamedTuple):
    """What rows are called in errors: in the plural."""

    exports: str
    imports: str


class SharedMemory:
    """Rows of exports and of imports of all nodes of one run, as the NICs read them."""

    def __init__(self, machine: Machine, names: Names, *, grows: bool = False) -> None:
        """``grows``: the tables are the hosts', who make them longer when they are full."""
        self._ports = machine.ports
        self._streams = Streams(machine.ports)
        self._exports = self._rows("exports", names.exports, grows)
        self._imports = self._rows("imports", names.imports, grows)
        self._is_export_at_rest = bound(_is_export_at_rest, machine)
        self._is_import_at_rest = bound(_is_import_at_rest, machine)

    def _rows(self, name: str, what: str, grows: bool) -> Rows:
        shared = self._ports.shared
        nodes, rows = getattr(shared, name).shape
        return Rows(nodes, rows, what, name, partial(double_rows, shared, name) if grows else None)

    def take(self, node: int) -> int:
        """A row of ``node`` for memory that is to be exported.  Errors: if all are in use."""
        return self._exports.take(node)

    def give_back(self, node: int, row: int) -> None:
        """Frees the row of an export that failed."""
        self._exports.give_back((node, row), once=lambda: True)

    def enter(
        self, owner: Process, row: int, port: int, place: tuple[int, int], rights: int,
        guest: tuple[int | None, int | None],
    ) -> None:  # fmt: skip
        """Enter memory of ``owner``, reached through ``port``: from now on transfers may come.

        ``place``: address and length; ``guest``: node and port that may import it, None: any.
        """
        record = self._ports.shared.exports[owner.node, row]
        record["port"] = port
        record["space"] = owner.number
        record["start"], record["length"] = place
        record["rights"] = rights
        for name, who in zip(("node", "importer"), guest, strict=True):
            record[name] = NOBODY if who is None else who
        record["redirect"] = -1
        record["stores"] = 0
        record["epoch"] += 1  # imports of what was here before are worth nothing
        record["valid"] = 1

    def remove(self, node: int, row: int, port: int) -> None:
        """Removes an export: transfers that arrive later are rejected."""
        record = self._ports.shared.exports[node, row]
        record["valid"] = 0
        record["epoch"] += 1
        self._exports.give_back(
            (node, row), once=lambda: bool(self._is_export_at_rest(node, port, row))
        )

    def add_import(self, guest: Process, node: int, row: int) -> int:
        """Enters an import by ``guest`` of what ``node`` exports in ``row``; returns its row.

        Errors: ``SimulationError`` if all rows of the guest's node are in use.
        """
        exported = self._ports.shared.exports[node, row]
        stream = self._streams.between(guest.node, guest.port, node, int(exported["port"]))
        number = self._imports.take(guest.node)
        record = self._ports.shared.imports[guest.node, number]
        record["stream"] = stream
        record["node"] = node
        record["export"] = row
        record["start"] = exported["start"] % self._ports.memory.config[0]["page_size"]
        for name in ("length", "rights", "epoch"):
            record[name] = exported[name]
        record["port"] = guest.port
        return number

    def release(self, guest: Process, number: int) -> None:
        """Removes an import."""
        node, port = guest.node, guest.port
        self._ports.shared.imports[node, number]["port"] = NOBODY
        self._imports.give_back(
            (node, number), once=lambda: bool(self._is_import_at_rest(node, port, number))
        )

    def in_use(self, node: int) -> tuple[int, int]:
        """Rows of exports and of imports of ``node`` that are somebody's, or still named."""
        return self._exports.in_use(node), self._imports.in_use(node)
