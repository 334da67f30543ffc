"""Hosts on coherent buses, with an interface at each: what a machine of such nodes begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.memory.coherence.layout import Host, new_hosts
from nicscope.memory.coherence.watcher import Watcher, new_watchers
from nicscope.nic.coherent.layout import Interface, new_interfaces, nic_settings
from nicscope.nic.ways.state import watch_queues

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


class AtBuses(NamedTuple):
    """All nodes; the first axis of every array is the node."""

    hosts: Host
    agents: Watcher  # the interfaces' memories and block states, as the buses know them
    nics: Interface


def new_at_buses(
    nodes: int,
    host: Mapping[str, int],
    nic: Mapping[str, int],
    *,
    tags: int,
    memory: NDArray[np.uint8] | None = None,
    queues: bool = True,
) -> AtBuses:
    """``nodes`` equal nodes at rest; without ``queues`` their interfaces watch nothing.

    ``host`` and ``nic`` are what ``HOST_PARAMETERS`` and ``NIC_PARAMETERS`` name; ``memory`` is as
    ``new_hosts`` takes it.  Errors: ``ValueError``.
    """
    hosts = new_hosts(nodes, host, memory)
    settings = nic_settings(nic)
    block, room = int(hosts.config[0]["l2_line"][0]), hosts.memory.shape[1]
    if settings["memory_bytes"] % block or room % block:
        raise ValueError(f"memory_bytes is no multiple of a block of {block} bytes")
    nics = new_interfaces(nodes, nic, block, room, tags)
    agents = new_watchers(
        nodes,
        room // block,
        settings["memory_bytes"] // block,
        block,
        settings["read_window"],
        settings["dma_mbytes_s"],
    )
    for n in range(nodes if queues else 0):
        agent = Watcher(*(array[n] for array in agents))
        watch_queues(agent, Interface(*(array[n] for array in nics)))
    return AtBuses(hosts, agents, nics)
