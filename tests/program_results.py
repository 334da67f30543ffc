"""Has programs run on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def results_of(cluster: Any, *programs: Callable[..., Any] | tuple[int, Callable[..., Any]]) -> Any:
    """What the programs return: each runs on a node of its own, or on that which it comes with."""
    for place, program in enumerate(programs):
        node, started = program if isinstance(program, tuple) else (place, program)
        cluster.start(node, started)
    return cluster.run()
