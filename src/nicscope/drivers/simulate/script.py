"""Traffic without decisions: runs of messages through the compiled driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.delivery import DELIVERY_COSTS
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import give_script, machine_bytes, new_machine
from nicscope.drivers.simulate.growth import go_on
from nicscope.drivers.simulate.machine import COPYING
from nicscope.drivers.simulate.other_master import place_masters
from nicscope.drivers.simulate.store import no_store
from nicscope.errors import SimulationError
from nicscope.kernel.entering import bound, portion
from nicscope.room import check_room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.other_master import OtherMaster
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.fabric.topology import Topology

_AT_REST = -1  # every node has yet to look
_EVENTS_AT_ONCE = 1 << 20  # a few times a second
_INTERPRETED_AT_ONCE = 1 << 12  # as compiled code is taken up between two calls only


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
    check_room(need, f"a script on {nodes:,} nodes", "keep fewer records or messages")
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
    give_script(machine, _by_sender(runs))
    _begin_copies(machine, copies)
    place_masters(machine.nodes, masters)
    entry = bound(advance, machine)
    begun = _AT_REST
    while True:
        most = portion(entry, _EVENTS_AT_ONCE, _INTERPRETED_AT_ONCE)
        fired = entry(begun, most)
        fired += go_on(entry, machine, topology, most - fired)
        if fired != most:
            break
        begun = 0
        progress(int(machine.tally[0]["messages"]), total)
    tally = machine.tally[0]
    if tally["messages"] != total:
        raise RuntimeError(f"{total - tally['messages']} messages never arrived")
    return Outcome(
        messages=machine.messages[: tally["messages"]],
        log=machine.log[: tally["log"]],
        counters=machine.nodes,
        end_ps=int(tally["now"]),
        events=int(tally["events"]),
    )


def _by_sender(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.sender)


def _begin_copies(machine: Machine, copies: Sequence[Copy]) -> None:
    for copy in copies:
        machine.nodes[copy.node]["cpu"] = COPYING
        machine.copy_flows[copy.node]["total"] = copy.byte_count


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
