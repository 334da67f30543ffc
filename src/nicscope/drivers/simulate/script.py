"""Traffic without programs: runs of messages, and rows of requests, through the compiled driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.design import DELIVERY_COSTS, Delivery
from nicscope.drivers.simulate.advance import EventLoop
from nicscope.drivers.simulate.build import machine_bytes, new_linked_machine, new_machine
from nicscope.drivers.simulate.processor import OtherMaster, place_masters
from nicscope.drivers.simulate.records import COPYING, OPERATION, REPORT, ROW, SLEEP
from nicscope.drivers.simulate.store import no_store
from nicscope.errors import SimulationError
from nicscope.memory_limit import check_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.fabric.topology import Topology


class Run(msgspec.Struct, frozen=True):
    """``count`` messages of ``payload`` bytes, starts at least ``gap_ps`` apart."""

    sender: int
    destination: int
    payload: int
    count: int = 1
    gap_ps: int = 0


class Copy(msgspec.Struct, frozen=True):
    """A CPU that copies ``byte_count`` bytes of memory from time 0 on, instead of sending."""

    node: int
    byte_count: int


class Outcome(msgspec.Struct, frozen=True):
    """What a script did.  Arrays are whole unless the caller bounded them."""

    messages: NDArray[Any]  # MESSAGE; the first ``keep_messages`` of them
    log: NDArray[Any]  # LOG; the first ``keep_log`` records, in order of ``end``
    counters: NDArray[Any]  # NODE, shape (nodes,)
    end_ps: int  # when the last thing happened
    events: int


def simulate_script(
    costs: Sequence[Mapping[str, int]],
    delivery: Delivery,
    topology: Topology,
    runs: Sequence[Run],
    *,
    copies: Sequence[Copy] = (),
    masters: Sequence[OtherMaster] = (),
    faults: Faults | None = None,
    keep_messages: int = 1 << 20,
    keep_log: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Outcome:
    """Run ``runs`` to the end; ``costs`` are ``delivery_costs`` of each node.

    ``progress`` hears messages done and messages in all, a few times a second.  Errors:
    ``SimulationError`` for traffic that cannot be (payload too large, unknown node, ...).
    """
    _check(costs, delivery, topology, runs, copies)
    total = sum(run.count for run in runs)
    kept = min(keep_messages, total)
    nodes = topology.nodes
    need = machine_bytes(delivery, nodes, 0, keep_log=keep_log, keep_messages=kept)
    check_memory(need, f"a script on {nodes:,} nodes", "keep fewer records or messages")
    machine = new_machine(
        costs,
        delivery,
        topology,
        no_store(topology.nodes),
        kept,
        keep_log,
        runs=len(runs),
        faults=faults,
    )
    give_script(machine, sorted(runs, key=lambda run: run.sender))
    for copy in copies:
        machine.nodes[copy.node]["cpu"] = COPYING
        machine.copy_flows[copy.node]["total"] = copy.byte_count
    place_masters(machine.nodes, masters)
    loop = EventLoop(machine, topology)
    loop.look()
    while loop.fire(0, most := loop.portion()) == most:
        progress(int(machine.tally[0]["messages"]), total)
    tally = machine.tally[0]
    if tally["messages"] != total:
        raise RuntimeError(f"{total - tally['messages']} messages never arrived")
    return Outcome(
        messages=machine.messages[: tally["messages"]],
        log=machine.log[: tally["log"]],
        counters=machine.nodes[: topology.nodes],
        end_ps=int(tally["now"]),
        events=int(tally["events"]),
    )


def give_script(machine: Machine, runs: Sequence[Run]) -> None:
    """Has the CPUs send ``runs``, which are sorted by sender."""
    nodes, rows = machine.nodes, machine.runs
    for row, run in zip(rows, runs, strict=True):
        row["destination"] = run.destination
        row["payload"] = run.payload
        row["count"] = run.count
        row["gap"] = run.gap_ps
    senders = np.array([run.sender for run in runs], np.int64)
    places = np.arange(len(nodes))
    nodes["run"] = np.searchsorted(senders, places, side="left")
    nodes["last_run"] = np.searchsorted(senders, places, side="right")
    begins = nodes["run"] < nodes["last_run"]
    nodes["run_left"][begins] = rows["count"][nodes["run"][begins]]


def _check(
    costs: Sequence[Mapping[str, int]],
    delivery: Delivery,
    topology: Topology,
    runs: Sequence[Run],
    copies: Sequence[Copy],
) -> None:
    """Refuse, with ``SimulationError``, what the compiled driver could not run."""
    if len(costs) != topology.nodes:
        raise SimulationError(f"{topology.nodes} nodes need as many costs, got {len(costs)}")
    for node, each in enumerate(costs):
        _check_costs(node, each)
    for run in runs:
        if (run.sender, run.destination) not in topology.paths:
            raise SimulationError(
                f"no path from node {run.sender} to node {run.destination} in {topology.name!r}"
            )
        if not 0 <= run.payload <= delivery.max_payload:
            raise SimulationError(
                f"payload must be from 0 to the largest, {delivery.max_payload} bytes, "
                f"got {run.payload}"
            )
        if run.count < 1:
            raise SimulationError(f"count must be at least 1, got {run.count}")
        if run.gap_ps < 0:
            raise SimulationError(f"gap must not be negative, got {run.gap_ps} ps")
    for copy in copies:
        if not 0 <= copy.node < topology.nodes or copy.byte_count < 1:
            raise SimulationError(f"no copy of {copy.byte_count} bytes at node {copy.node}")
    if len({copy.node for copy in copies}) < len(copies):
        raise SimulationError("a node can copy once; add the bytes up")


def _check_costs(node: int, costs: Mapping[str, int]) -> None:
    for name in DELIVERY_COSTS:
        is_rate = name.endswith("per_byte") and name != "nic_memory_per_byte"
        if costs[name] < (1 if is_rate else 0):
            raise SimulationError(f"node {node}: {name} must be more, got {costs[name]} ps")
    memory = costs["nic_memory_per_byte"]
    for name in ("pci_read_per_byte", "pci_write_per_byte"):
        for cost in (name, name.replace("_per", "_contended_per")):
            if costs[cost] <= memory:
                raise SimulationError(
                    f"node {node}: the PCI would take all of NIC memory: {cost} is "
                    f"{costs[cost]} ps/B, which must be more than nic_memory_per_byte, {memory}"
                )


ROWS_AT_ONCE = 1 << 15  # of one process


class Scripted(EventLoop):
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
        script = rows_at_once * len(hosts)
        super().__init__(
            new_linked_machine(
                costs,
                delivery,
                topology,
                hosts,
                ports=ports,
                bus=bus,
                script=script,
                accounts=accounts,
            ),
            topology,
        )
        self.machine.ports.table["open"][:, 0] = 1
        self._hosts = hosts
        self._room = rows_at_once
        self._ring = int(ports.rules[0]["ring"])

    def run(
        self,
        scripts: Sequence[NDArray[Any]],
        depth: int = 1,
        watch: Callable[[int, int], None] | None = None,
    ) -> None:
        """Carries out one script, of ``ROW``, per process, until all have ended.

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
                self.look()
                at_rest = False
            most = self.portion()
            fired = self.fire(len(ready), most)
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
        """Begins the next rows of each script of ``ready``."""
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
        return (
            f"nothing more will happen after {self.now / 1e6:.3f} us, but scripts wait: "
            f"{', '.join(waiting[:4])}{more}"
        )


def rows_of(count: int) -> NDArray[Any]:
    """``count`` rows that are still to be filled in."""
    return np.zeros(count, ROW)
