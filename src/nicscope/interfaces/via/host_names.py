"""Names of nodes, as VIPL's name service knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence


def names_of(
    given: Mapping[str, int | Sequence[int]] | None, nodes: int
) -> dict[str, tuple[int, ...]]:
    """Which nodes each name means, in order.  Errors: ``SimulationError`` for what is no node."""
    if given is None:
        return {f"node{node}": (node,) for node in range(nodes)}
    if not isinstance(given, Mapping):
        raise SimulationError(f"names: {{'server': 0, ...}} is needed, not {given!r:.60}")
    names = {}
    for name, meant in given.items():
        each = (meant,) if isinstance(meant, int) else tuple(meant)
        for node in each:
            if type(node) is not int or not 0 <= node < nodes:
                raise SimulationError(
                    f"names: {name!r} is node {node!r}, but nodes are 0 to {nodes - 1}"
                )
        if not name or not each:
            raise SimulationError(f"names: {name!r} needs letters, and at least one node")
        names[name] = each
    return names
