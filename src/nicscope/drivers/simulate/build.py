"""A cluster at rest: every array of a simulation, sized and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.agenda import new_agenda
from nicscope.drivers.simulate.flow import FLOW
from nicscope.drivers.simulate.log import LOG, MESSAGE
from nicscope.drivers.simulate.machine import COSTS, KINDS, NODE, RUN, TALLY, Machine
from nicscope.fabric.paths import NOBODY, new_paths
from nicscope.jit import records
from nicscope.nic.delivery import ENDPOINT, NO_TASK, PACKET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.simulate.script import Run
    from nicscope.fabric.topology import Topology

_CONFIGURED = (
    "eager",
    "minpulse_send",
    "minpulse_receive",
    "send_buffers",
    "receive_buffers",
    "send_ring",
    "receive_ring",
    "logging",
)


def new_machine(
    costs: Sequence[Mapping[str, int]],
    delivery: Delivery,
    topology: Topology,
    runs: Sequence[Run],
    keep_messages: int,
    keep_log: int,
) -> Machine:
    """The cluster of ``topology`` at time 0; ``runs`` stand in order of their sender."""
    n = topology.nodes
    machine = Machine(
        tally=records(1, TALLY),
        agenda=new_agenda(n * KINDS),
        costs=records(n, COSTS),
        nodes=records(n, NODE),
        endpoints=records(n, ENDPOINT),
        pci_flows=records(n, FLOW),
        link_flows=records(n, FLOW),
        copy_flows=records(n, FLOW),
        sends=records((n, delivery.send_ring), PACKET),
        arrivals=records((n, delivery.receive_ring), PACKET),
        inboxes=records((n, delivery.receive_ring), PACKET),
        paths=new_paths(topology),
        runs=records(max(1, len(runs)), RUN),
        messages=records(keep_messages, MESSAGE),
        log=records(keep_log, LOG),
    )
    for name in COSTS.names or ():
        machine.costs[name] = [each[name] for each in costs]
    machine.endpoints["policy"] = int(delivery.policy)
    for name in _CONFIGURED:
        machine.endpoints[name] = int(getattr(delivery, name))
    machine.pci_flows["rate"] = 1  # of no transfer: its counter is read all the same
    machine.nodes["task"] = NO_TASK
    machine.nodes["fetching"] = -1
    machine.nodes["source"] = NOBODY
    _hand_out(machine.nodes, machine.runs, runs)
    return machine


def _hand_out(nodes: NDArray[Any], rows: NDArray[Any], runs: Sequence[Run]) -> None:
    """Give each node its stretch of the script."""
    for row, run in zip(rows, runs, strict=False):
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
