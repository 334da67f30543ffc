"""A bus without NIC firmware: CPUs and engines carry out given rows in sequence, for tests.

What moves between a host's memory and its NIC is told here, with no firmware, network or program
around it: for what is counted or timed of the bus itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.config.design import DELIVERY_COSTS, POLICIES
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.bus.arbitration import TO_PUBLISH
from nicscope.drivers.simulate.bus.moves import register_frame, start_move
from nicscope.drivers.simulate.bus.state import RESTING, new_bus, unfitted
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.records import ACCESS, CHAIN, COMPUTE, OPERATION
from nicscope.drivers.simulate.store import no_store
from nicscope.errors import SimulationError
from nicscope.fabric.topology import crossbar
from nicscope.kernel.distant import link
from nicscope.kernel.entry import bound
from nicscope.kernel.records import records
from nicscope.memory.coherence import processor
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import INTERVENTION
from nicscope.nic.ways.state import FETCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_TIMES = dict.fromkeys(DELIVERY_COSTS, 1)  # of firmware that has nothing to do
_LOOK = -1  # in place of a number of operations: every node looks first
_ALL = 1 << 40  # events
_MANY = 1 << 12


def asked(
    operation: int,
    kind: int = 0,
    address: int | NDArray[np.int64] = 0,
    count: int = 0,
    place: int = 0,
    way: int = 0,
    duration: int = 0,
) -> NDArray[Any]:
    """One row of ``OPERATION`` for a CPU to carry out at each of the addresses in turn.

    ``kind``: of an access, or the part of a ``way`` whose ``place`` is in the NIC's memory.
    """
    rows = records(np.size(address), OPERATION)
    rows["operation"], rows["tag"], rows["address"] = operation, kind, address
    rows["payload"], rows["packet"] = count, place
    rows["peer"], rows["duration"] = way, duration
    return rows


class BusAlone:
    """Hosts with caches and an interface at each bus; the CPU of each serves one process."""

    def __init__(
        self,
        host: Mapping[str, int] | None = None,
        nic: Mapping[str, int] | None = None,
        *,
        nodes: int = 1,
        tags: int = 64,
        window_bytes: int = 1 << 16,
        other_bytes: int = 0,
        rows: int = 0,
        memory: NDArray[np.uint8] | None = None,
    ) -> None:
        """What is not in ``host`` and ``nic`` is as before any fit; the rest as ``new_bus`` has it.

        Errors: ``SimulationError``.
        """
        self.bus = new_bus(
            nodes,
            nodes,
            unfitted().host | dict(host or {}),
            unfitted().nic | dict(nic or {}),
            window_bytes=window_bytes,
            other_bytes=other_bytes,
            rows=rows,
            memory=memory,
            tags=tags,
        )
        topology = crossbar(nodes)
        policy, store = POLICIES["adaptive"], no_store(nodes)
        self.machine = new_machine(
            [_TIMES] * nodes, policy, topology, store, 0, 0, range(nodes), bus=self.bus
        )
        link(self.machine, FUNCTIONS)
        self._run_events = bound(advance, self.machine)
        self._page = int(self.machine.ports.memory.config[0]["page_size"])
        # What firmware there is posts its receives, in a few ps, before all that follows.
        self._run_events(_LOOK, _ALL)
        self.machine.tally[0]["now"] = 0

    @property
    def now(self) -> int:
        """The virtual time (ps)."""
        return int(self.machine.tally[0]["now"])

    # --- what a CPU does -----------------------------------------------------------------

    def begin(self, rows: NDArray[Any], node: int = 0) -> None:
        """Have the CPU of ``node`` do these one after the other, up to ``CHAIN`` of them."""
        outbox = self.machine.outbox[: len(rows)]
        outbox[:] = rows
        outbox["process"] = outbox["node"] = node
        outbox["time"][0] = len(rows) - 1
        self._run_events(1, 0)

    def run_until_done(self) -> int | None:
        """Runs until the CPU's last row has ended; returns when, or None if no event is left."""
        self._run_events(0, _ALL)
        return self.now if self.machine.tally[0]["ended"] else None

    def do(self, rows: NDArray[Any], node: int = 0) -> int:
        """Carries out all rows in sequence, however many; returns when they have ended.

        Errors: ``SimulationError`` if something waits for what cannot come.
        """
        for first in range(0, len(rows), CHAIN):
            self.begin(rows[first : first + CHAIN], node)
            if self.run_until_done() is None:
                raise SimulationError(f"nothing more happens after {self.now} ps, but a CPU waits")
        return self.now

    def pause(self, duration: int, node: int = 0) -> int:
        """Computes for ``duration`` (ps); returns when that has ended."""
        return self.do(asked(COMPUTE, duration=duration), node)

    def store(self, address: int, raw: bytes, node: int = 0) -> int:
        """Stores ``raw`` word by word through the caches; returns when that has ended."""
        self.bus.windows[node][: len(raw)] = np.frombuffer(raw, np.uint8)
        return self.do(asked(ACCESS, processor.STORE, address, len(raw)), node)

    def publish(self, way: int, address: int, count: int, place: int, node: int = 0) -> int:
        """The CPU's part of sending, or of posting a receive; returns when it has ended."""
        return self.do(asked(ACCESS, TO_PUBLISH, address, count, place, way), node)

    # --- what an interface does ----------------------------------------------------------

    def fetch(self, way: int, address: int, count: int, place: int, node: int = 0) -> int:
        """When the NIC has the bytes, at ``place`` or where it keeps them (``fetched_to``)."""
        self.start(ENGINE_OUT, way, FETCH, address, place, count, self.now, node)
        return self.rest(ENGINE_OUT, node)

    def start(
        self,
        master: int,
        way: int,
        call: int,
        address: int,
        place: int,
        count: int,
        when: int,
        node: int = 0,
    ) -> None:
        """Have an engine that rests move these bytes from ``when`` on, beside all else."""
        start_move(self.machine, node, master, way, call, address, place, count, when)

    def rest(self, master: int, node: int = 0) -> int:
        """Runs until the move of ``master`` has ended, returns when; other events happen meanwhile.

        Errors: ``SimulationError`` if it waits for what cannot come.
        """
        while self.bus.timing[node, master]["state"] != RESTING:
            if self.fire() == 0:
                raise SimulationError(f"nothing more happens after {self.now} ps, but a move waits")
        return int(self.bus.timing[node, master]["ended"])

    def register(self, address: int, count: int, node: int = 0) -> int:
        """Pages of the range of which the NIC keeps copies from now on, as if they were pinned.

        The others found no room on it.  The first page of a host is never kept.
        """
        nic = self.bus.ways.nics.registers[node, 0]
        before = int(nic["registrations"])
        for page in self._pages(address, count):
            register_frame(self.machine, node, page)
        return int(nic["registrations"]) - before

    def _pages(self, address: int, count: int) -> range:
        return range(address // self._page, (address + count - 1) // self._page + 1)

    # --- what is seen of it --------------------------------------------------------------

    def fire(self, events: int = 1) -> int:
        """Fires at most ``events`` events; returns how many there were."""
        return int(self._run_events(0, events))

    def counts(self, node: int = 0) -> NDArray[np.int64]:
        """Transactions, by master and kind."""
        counts: NDArray[np.int64] = self.bus.hosts.counts[node]
        return counts

    def transactions(self, node: int = 0) -> int:
        """All transactions but interventions, which answer others."""
        counts = self.counts(node)
        return int(counts.sum() - counts[:, INTERVENTION].sum())
