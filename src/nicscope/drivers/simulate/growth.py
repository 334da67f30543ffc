"""What a cluster makes only when it is used: paths and streams of pairs of nodes, and their room.

The compiled driver stops after the event that has used the last but what one event may take, with
``tally.wants``.  Python makes what is missing and has it go on: nothing that happens depends on how
much room there was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.machine import PATHS
from nicscope.drivers.simulate.mapping import search_wanted
from nicscope.fabric.paths import make_wanted
from nicscope.nic.ports.pools import ROOM, grow

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.fabric.topology import Topology


def go_on(entry: Callable[[int, int], int], machine: Machine, topology: Topology, most: int) -> int:
    """Have ``advance``, which has stopped for want of something, fire ``most`` more events.

    How many it has fired; fewer than ``most`` only as ``advance`` itself.
    """
    fired = 0
    wants = machine.tally["wants"]
    while wants[0]:
        if wants[0] & PATHS:
            make_wanted(machine.paths, topology)
            search_wanted(machine, topology)
        if wants[0] & ROOM:
            grow(machine.ports.pools, machine.ports.pool)
        fired += entry(0, most - fired)
    return fired
