"""Traffic without decisions: runs of messages through the compiled driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.fabric.topology import Topology


class Run(msgspec.Struct, frozen=True):
    """``count`` messages of ``payload`` bytes, starts at least ``gap_ps`` apart."""

    sender: int
    destination: int
    payload: int
    count: int = 1
    gap_ps: int = 0


class Copy(msgspec.Struct, frozen=True):
    """A CPU that copies memory from time 0 on, instead of sending: ``byte_count`` bytes."""

    node: int
    byte_count: int


class Outcome(msgspec.Struct, frozen=True):
    """What a script did.  Arrays are whole unless the caller bounded them."""

    messages: NDArray[Any]  # MESSAGE; the first ``keep_messages`` of them
    log: NDArray[Any]  # LOG; the first ``keep_log`` records, in order of ``end``
    counters: NDArray[Any]  # NODE_COUNTERS, one per node
    end_ps: int  # when the last thing happened
    events: int


def simulate_script(
    costs: Sequence[Mapping[str, int]],
    delivery: Delivery,
    topology: Topology,
    runs: Sequence[Run],
    *,
    copies: Sequence[Copy] = (),
    keep_messages: int = 1 << 20,
    keep_log: int = 0,
) -> Outcome:
    """Run ``runs`` to the end; ``costs`` are ``delivery_costs`` of each node.

    Errors: ``SimulationError`` for traffic that cannot be (payload too large, unknown node, ...).
    """
    raise NotImplementedError
