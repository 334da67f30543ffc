"""Rows of the nodes' tables of tags, exports and imports: given out in turn, taken back at rest."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable


class Rows:
    """Which rows of one table are nobody's, node by node.

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
        """These rows, each of a node, are nobody's any more, once nothing names them."""
        self._leaving.append((rows, once))
        self._settle()

    def in_use(self, node: int) -> int:
        """How many rows of ``node`` are somebody's, or still named."""
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
