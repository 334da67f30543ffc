"""A cluster before its first event: every array of a simulation, sized and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.clock import NEVER
from nicscope.config.design import CELL_WORDS, DELIVERY_COSTS
from nicscope.drivers.simulate.agenda import new_agenda
from nicscope.drivers.simulate.bus.build import buffers_of
from nicscope.drivers.simulate.bus.state import FETCHING, NO_WAY, Bus, no_bus
from nicscope.drivers.simulate.flow import FLOW
from nicscope.drivers.simulate.machine import Machine
from nicscope.drivers.simulate.observe import ACCOUNTS, LOG, MESSAGE
from nicscope.drivers.simulate.ports.build import Faults, no_ports
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.records import (
    CHAIN,
    CHAINED,
    COSTS,
    KINDS,
    NODE,
    OPERATION,
    ROW,
    RUN,
    SCRIPTED,
    TALLY,
)
from nicscope.drivers.simulate.store import PLACE, Store, new_store, store_shapes
from nicscope.drivers.simulate.traced.state import Traced, no_traced
from nicscope.drivers.simulate.wire import new_wire
from nicscope.fabric.paths import NOBODY, new_paths
from nicscope.kernel.distant import link, new_calls
from nicscope.kernel.records import records
from nicscope.memory_limit import bytes_of
from nicscope.nic.delivery import CONTROL_BYTES, ENDPOINT, NO_TASK, PACKET
from nicscope.nic.ways.state import EDT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.config.design import Delivery
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.store import Store
    from nicscope.drivers.simulate.traced.state import Traced
    from nicscope.fabric.topology import Topology

PAIR_BYTES = 128  # of the paths between two nodes that talk
NODE_BYTES = 4096  # of a node's records
_CONFIGURED = (
    "eager",
    "minpulse_send",
    "minpulse_receive",
    "send_buffers",
    "receive_buffers",
    "send_ring",
    "receive_ring",
    "logging",
    "control_bytes",
    "by_message",
)


def new_machine(
    costs: Sequence[Mapping[str, int]],
    delivery: Delivery,
    topology: Topology,
    store: Store,
    keep_messages: int,
    keep_log: int,
    hosts: Sequence[int] = (),
    runs: int = 1,
    ports: Ports | None = None,
    script: int = 0,
    accounts: bool = False,
    bus: Bus | None = None,
    faults: Faults | None = None,
    traced: Traced | None = None,
) -> Machine:
    """The cluster of ``topology`` at time 0.

    ``hosts`` are the nodes of the processes, rising; ``runs`` is the length of the script that
    CPUs without processes send, ``script`` the room for the rows of scripted processes.  With
    ``accounts`` the time of node 0 is parted by what went on.  With a ``bus`` the hosts have
    caches, and their memory is the bytes behind these.  ``faults`` befall packets that no port
    minds: those of ``ports`` are said with these.  ``traced``: what is kept of processes that
    follow a program trace.
    """
    n = topology.nodes
    senders = 2 * n if topology.delay_ps else n
    machine = Machine(
        tally=records(1, TALLY),
        agenda=new_agenda(senders * KINDS),
        costs=records(senders, COSTS),
        nodes=records(senders, NODE),
        endpoints=records(senders, ENDPOINT),
        pci_flows=records(n, FLOW),
        link_flows=records(senders, FLOW),
        copy_flows=records(n, FLOW),
        sends=records((n, delivery.send_ring), PACKET),
        arrivals=records((n, delivery.receive_ring), PACKET),
        inboxes=records((n, delivery.receive_ring), PACKET),
        paths=new_paths(topology),
        runs=records(runs, RUN),
        messages=records(keep_messages, MESSAGE),
        log=records(keep_log, LOG),
        processes=records(len(hosts), OPERATION),
        outbox=records(len(hosts) * CHAIN, OPERATION),
        inbox=records(len(hosts), OPERATION),
        chained=records(len(hosts), CHAINED),
        chains=records((len(hosts), CHAIN), OPERATION),
        inlined=np.zeros((len(hosts), CHAIN, CONTROL_BYTES), np.uint8),
        due=np.zeros(len(hosts), np.int64),
        begun=np.zeros(len(hosts), np.int64),
        script=records(script, ROW),
        scripted=records(len(hosts), SCRIPTED),
        traced=no_traced() if traced is None else traced,
        account=np.zeros(ACCOUNTS if accounts else 0, np.int64),
        store=store,
        ports=no_ports(n, faults, topology.links) if ports is None else ports,
        bus=no_bus() if bus is None else bus,
        wire=new_wire(n, topology.delay_ps, store.send_buffers.shape[2]),
        calls=new_calls(len(FUNCTIONS)),
    )
    for name in DELIVERY_COSTS:
        machine.costs[name][:n] = [each[name] for each in costs]
    for name in CELL_WORDS:
        machine.costs[name][:n] = [each.get(name, 0) for each in costs]
    machine.endpoints["policy"] = int(delivery.policy)
    for name in _CONFIGURED:
        machine.endpoints[name] = int(getattr(delivery, name))
    machine.pci_flows["rate"] = 1  # of no transfer: its counter is read all the same
    machine.tally["until"] = NEVER - 1
    machine.nodes["task"] = NO_TASK
    machine.nodes["fetching"] = -1
    machine.nodes["source"] = NOBODY
    machine.nodes["cpu_process"] = machine.nodes["other_process"] = -1
    machine.nodes["processors"] = 1
    machine.nodes["other_until"] = NEVER
    machine.endpoints["attached"] = 1  # never taken where no bytes move
    machine.endpoints["tags"] = store.payload_table.shape[1]
    machine.processes["node"] = hosts
    machine.chained["main"] = np.arange(len(hosts))
    machine.ports.rules["registers"] = (machine.bus.rules["way"] == EDT).any()
    machine.ports.rules["tells"] = (machine.bus.rules["way"] != NO_WAY).any()
    machine.ports.rules["exchanges"] = (machine.bus.rules["way"] == NO_WAY).all()
    machine.ports.rules["rooms"] = machine.bus.rooms.size > 0
    machine.ports.rules["fetches"] = np.isin(machine.bus.rules["way"], FETCHING).any()
    machine.ports.rules["maps"] &= topology.leads is not None
    places = np.arange(n)
    machine.nodes["first_process"][:n] = np.searchsorted(hosts, places, side="left")
    machine.nodes["last_process"][:n] = np.searchsorted(hosts, places, side="right")
    return machine


def new_linked_machine(
    costs: Sequence[Mapping[str, int]],
    delivery: Delivery,
    topology: Topology,
    hosts: Sequence[int],
    *,
    host_bytes: int = 0,
    tags: int = 0,
    ports: Ports | None = None,
    bus: Bus | None = None,
    **kept: Any,
) -> Machine:
    """The same with its bytes, and with all that serves ``ports`` and a ``bus``.

    With ``ports``, whose paged memory is the hosts', their NICs serve those; with a ``bus``, before
    that memory or, without ports, its own, what they send and receive crosses it.  ``kept``: as of
    ``new_machine``.
    """
    store = new_store(
        topology.nodes,
        len(hosts),
        host_bytes,
        (delivery.send_ring, delivery.receive_ring),
        (delivery.send_buffers, delivery.receive_buffers),
        delivery.max_payload,
        tags,
    )
    if ports is not None:
        store = store._replace(host=ports.memory.bytes)
    elif bus is not None:
        store = store._replace(host=bus.hosts.memory)
    if bus is not None:
        sent, received = buffers_of(bus, delivery)
        store = store._replace(send_buffers=sent, receive_buffers=received)
    kept = {"keep_messages": 0, "keep_log": 0, **kept}
    machine = new_machine(
        costs, delivery, topology, store, hosts=hosts, ports=ports, bus=bus, **kept
    )
    if ports is not None or bus is not None:
        link(machine, FUNCTIONS)
    return machine


def machine_bytes(
    delivery: Delivery,
    nodes: int,
    processes: int,
    *,
    host_bytes: int = 0,
    tags: int = 0,
    keep_log: int = 0,
    keep_messages: int = 0,
    script: int = 0,
) -> int:
    """Bytes that ``new_store`` and ``new_machine`` take at most, ports aside."""
    rings = (delivery.send_ring, delivery.receive_ring)
    buffers = (delivery.send_buffers, delivery.receive_buffers)
    store = store_shapes(nodes, processes, host_bytes, rings, buffers, delivery.max_payload, tags)
    return (
        bytes_of(store)
        + nodes * (rings[0] + 2 * rings[1]) * PACKET.itemsize
        + nodes**2 * PAIR_BYTES
        + nodes * NODE_BYTES
        + processes * (2 * OPERATION.itemsize + SCRIPTED.itemsize + 4 * PLACE.itemsize)
        + processes * CHAIN * (2 * OPERATION.itemsize + CONTROL_BYTES)
        + keep_log * LOG.itemsize
        + keep_messages * MESSAGE.itemsize
        + script * ROW.itemsize
    )
