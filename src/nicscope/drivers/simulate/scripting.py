"""Clusters whose processes follow scripts: rows of requests, carried out without a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.bus.build import buffers_of
from nicscope.drivers.simulate.growth import go_on
from nicscope.drivers.simulate.machine import OPERATION, REPORT, ROW, SLEEP
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.store import new_store
from nicscope.errors import SimulationError
from nicscope.kernel.distant import link
from nicscope.kernel.entering import bound, portion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.fabric.topology import Topology

_ALL_LOOK = -1
_EVENTS_AT_ONCE = 1 << 20  # between two chances to be interrupted
_INTERPRETED_AT_ONCE = 1 << 12  # as compiled code is taken up between two calls only
ROWS_AT_ONCE = 1 << 15  # of one process


class Scripted:
    """Processes that follow scripts on the nodes of one cluster whose NICs serve ports."""

    def __init__(
        self,
        costs: Sequence[Mapping[str, int]],
        delivery: Delivery,
        topology: Topology,
        hosts: Sequence[int],
        ports: Ports,
        *,
        rows_at_once: int = ROWS_AT_ONCE,
        accounts: bool = False,
        bus: Bus | None = None,
    ) -> None:
        """``hosts``: the node of each process, rising.

        With ``accounts`` the time of node 0 is parted by what went on.  With a ``bus``, before the
        ports' memory, what they send and receive crosses it.
        """
        store = new_store(
            topology.nodes,
            len(hosts),
            0,
            (delivery.send_ring, delivery.receive_ring),
            (delivery.send_buffers, delivery.receive_buffers),
            delivery.max_payload,
            0,
        )
        store = store._replace(host=ports.memory.bytes)
        if bus is not None:
            sent, received = buffers_of(bus, delivery)
            store = store._replace(send_buffers=sent, receive_buffers=received)
        self.machine = new_machine(
            costs,
            delivery,
            topology,
            store,
            keep_messages=0,
            keep_log=0,
            hosts=hosts,
            ports=ports,
            script=rows_at_once * len(hosts),
            accounts=accounts,
            bus=bus,
        )
        self.machine.ports.table["open"][:, 0] = 1
        link(self.machine, FUNCTIONS)
        self._go_on = bound(advance, self.machine)
        self._topology = topology
        self._hosts = hosts
        self._room = rows_at_once
        self._ring = int(ports.rules[0]["ring"])

    def run(
        self,
        scripts: Sequence[NDArray[Any]],
        depth: int = 1,
        watch: Callable[[int, int], None] | None = None,
    ) -> None:
        """Carry out one script, of ``ROW``, per process, to the end of them all.

        ``depth``: descriptors of a process that may be outstanding; with more than one, all of its
        rows are for one port.  ``watch`` hears of rows done and rows in all.  Errors:
        ``SimulationError`` if a script waits for what cannot come.
        """
        if not 1 <= depth <= self._ring:
            raise SimulationError(
                f"from 1 to {self._ring} descriptors can be outstanding, not {depth}"
            )
        self.machine.scripted["depth"] = depth
        taken = np.zeros(len(scripts), np.int64)
        total = sum(len(script) for script in scripts)
        ready = [process for process, script in enumerate(scripts) if len(script)]
        running = len(ready)
        at_rest = True
        while running:
            self._give(ready, scripts, taken)
            if at_rest:
                self._go_on(_ALL_LOOK, 0)
                go_on(self._go_on, self.machine, self._topology, 0)
                at_rest = False
            most = portion(self._go_on, _EVENTS_AT_ONCE, _INTERPRETED_AT_ONCE)
            fired = self._go_on(len(ready), most)
            fired += go_on(self._go_on, self.machine, self._topology, most - fired)
            ended = int(self.machine.tally[0]["ended"])
            if ended == 0 and fired < most:
                raise SimulationError(self._stuck(scripts))
            stopped = self.machine.inbox["process"][:ended].tolist()
            ready = [process for process in stopped if taken[process] < len(scripts[process])]
            running -= ended - len(ready)
            if watch is not None:
                watch(int(self.machine.scripted["done"].sum()), total)

    def _give(
        self, ready: Sequence[int], scripts: Sequence[NDArray[Any]], taken: NDArray[np.int64]
    ) -> None:
        """The next rows of each script of ``ready``, which begin now."""
        machine = self.machine
        for place, process in enumerate(ready):
            rows = scripts[process][taken[process] : taken[process] + self._room]
            begin = process * self._room
            machine.script[begin : begin + len(rows)] = rows
            taken[process] += len(rows)
            machine.scripted[process]["next"] = begin
            machine.scripted[process]["last"] = begin + len(rows)
            request = np.zeros(1, OPERATION)[0]
            request["process"] = process
            request["operation"] = SLEEP
            request["node"] = self._hosts[process]
            machine.outbox[place] = request

    def _stuck(self, scripts: Sequence[NDArray[Any]]) -> str:
        waiting = [
            f"process {number} on node {self._hosts[number]} for "
            f"{'a report' if record['operation'] == REPORT else 'room at its port'}"
            for number, record in enumerate(self.machine.processes)
            if record["operation"] and len(scripts[number])
        ]
        more = f" and {len(waiting) - 4} more" if len(waiting) > 4 else ""
        now = int(self.machine.tally[0]["now"])
        return (
            f"nothing more will happen after {now / 1e6:.3f} us, but scripts wait: "
            f"{', '.join(waiting[:4])}{more}"
        )


def rows_of(count: int) -> NDArray[Any]:
    """``count`` rows that are still to be filled in."""
    return np.zeros(count, ROW)
