"""Nodes: a host with its caches and bus, the interface's blocks, and the interface itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.drivers.simulate.bus.need import bytes_at_buses
from nicscope.drivers.simulate.bus.parameters import unfitted
from nicscope.errors import SimulationError
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.layout import Host
from nicscope.memory.coherence.nodes import host_of, watcher_of
from nicscope.memory.coherence.watcher import Watcher
from nicscope.nic.coherent.layout import Interface
from nicscope.nic.ways.hosts import AtBuses, new_at_buses
from nicscope.nic.ways.state import nic_of
from nicscope.room import check_room

if TYPE_CHECKING:
    from collections.abc import Mapping


class Node(NamedTuple):
    """One of them."""

    host: Host
    agent: Watcher  # the interface's memory and block states, as the bus knows them
    nic: Interface


def new_machine(
    nodes: int,
    host: Mapping[str, int] | None = None,
    nic: Mapping[str, int] | None = None,
    *,
    tags: int = 64,
) -> AtBuses:
    """``nodes`` equal nodes at rest.  What is not in ``host`` and ``nic`` is as before any fit.

    ``tags`` regions may be registered at a time.
    Errors: SimulationError.
    """
    of_host, of_nic = unfitted().host | dict(host or {}), unfitted().nic | dict(nic or {})
    need = bytes_at_buses(nodes, of_host, of_nic, tags)
    check_room(need, f"a cluster of {nodes:,} nodes", "ask for fewer nodes, less memory or caches")
    try:
        return new_at_buses(nodes, of_host, of_nic, tags=tags)
    except ValueError as error:
        raise SimulationError(str(error)) from error


def node_view(machine: AtBuses, n: int) -> Node:
    """Node ``n``, its arrays seen without their first axis, for Python."""
    return Node(
        Host(*(array[n] for array in machine.hosts)),
        Watcher(*(array[n] for array in machine.agents)),
        Interface(*(array[n] for array in machine.nics)),
    )


@step
def node_of(machine, n):
    """The same in kernels."""
    return Node(host_of(machine.hosts, n), watcher_of(machine.agents, n), nic_of(machine.nics, n))


@step
def charge(node, component, start, end):
    """``end``, after what lies between was booked on ``component``."""
    node.nic.times[component] += end - start
    return end
