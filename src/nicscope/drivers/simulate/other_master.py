"""Another master on a host's I/O bus: what crosses the bus waits while that holds it.

It takes the bus at fixed times, whatever else goes on, and what is under way is held up until it
lets go (Trapeze, 3.2: the arbiter preempts a transfer for another bus master).  A transfer keeps
bus time, which stands still meanwhile.  ``docs/virtual-time.md``, Another master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.clock import NEVER
from nicscope.errors import SimulationError
from nicscope.kernel.decorators import step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LONGEST_PERIOD_PS = 10**12


class OtherMaster(msgspec.Struct, frozen=True):
    """It holds the bus of ``node`` for the first ``hold_ps`` of every ``period_ps``, from 0 on."""

    node: int
    hold_ps: int
    period_ps: int

    def check(self, nodes: int) -> None:
        """Refuse, with ``SimulationError``, what no cluster of ``nodes`` could have."""
        if not 0 <= self.node < nodes:
            raise SimulationError(f"no node {self.node} for another master; there are {nodes}")
        if not 0 < self.hold_ps < self.period_ps <= LONGEST_PERIOD_PS:
            raise SimulationError(
                f"another master holds a bus for more than 0 ps and less than its period, which is "
                f"at most {LONGEST_PERIOD_PS} ps: got {self.hold_ps} of {self.period_ps} ps"
            )


def place_masters(nodes: NDArray[Any], masters: Sequence[OtherMaster]) -> None:
    """Have ``masters``, of which a node can have one, at the buses of ``nodes`` (NODE)."""
    for each in masters:
        each.check(len(nodes))
        nodes["held"][each.node] = each.hold_ps
        nodes["held_every"][each.node] = each.period_ps
    if len({each.node for each in masters}) < len(masters):
        raise SimulationError("a bus can have one other master; add up what they hold it for")


@step
def bus_time(node, now):
    """How long the bus has been the node's own by ``now`` (ps)."""
    if node.held == 0:
        return now
    rounds = now // node.held_every
    return rounds * (node.held_every - node.held) + max(0, now % node.held_every - node.held)


@step
def when_bus_time(node, spent):
    """The first time at which the bus has been the node's own for ``spent`` ps."""
    if node.held == 0 or spent <= 0 or spent >= NEVER:
        return spent
    free = node.held_every - node.held
    rounds = (spent - 1) // free
    return rounds * node.held_every + node.held + spent - rounds * free


@step
def across_bus(node, now, duration):
    """How long an access of ``duration`` ps to the bus takes from ``now`` on."""
    if node.held == 0:
        return duration
    return max(0, when_bus_time(node, bus_time(node, now) + duration) - now)
