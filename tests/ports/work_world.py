"""Processes whose ports have one peer, joined by hand as a library of such ports does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import port_world as world

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.machine import REGISTER
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.drivers.simulate.ports.connecting import connect_ports
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.nic.ports.layout import AS_ALL, DONE, MAY_FETCH, MAY_WRITE, ONE

if TYPE_CHECKING:
    from nicscope.interfaces.ports.process import Process

PAGE = world.PAGE
SEGMENTS = 8
RECEIVES = 16
REGIONS = 8
SIZE = PortSize(
    connections=4, segments=SEGMENTS, receives=RECEIVES, regions=REGIONS, queues=2, entries=16
)
DOMAIN = 7
UNIT = 1500


def cluster_of(design: Any = "vmmc-static", way: str | None = None, **how: Any) -> PortCluster[Any]:
    """Two nodes with such ports; ``way``: into the NIC, unless the design's."""
    chosen = load_design(design) if isinstance(design, str) else design
    if way is not None:
        chosen = with_settings(chosen, {"way": way})
    return PortCluster(chosen, size=how.pop("size", SIZE), **how)


def have_queues(process: Process, longest: int = 1 << 16) -> None:
    """Have the process's port take one receive for each message."""
    port = process._ports.table[process.node, process.port]
    port["takes"] = ONE
    port["domain"] = DOMAIN
    port["rights"] = MAY_WRITE | MAY_FETCH
    port["longest"] = longest


def connect(process: Process, level: int = AS_ALL, unit: int = UNIT) -> None:
    """Connect it with process 0 of the other node, both of which have queues."""
    connect_ports(process._ports, (process.node, 1), (1 - process.node, 1), level, unit)


async def register(process: Process, key: int, address: int, length: int) -> None:
    """Register memory of the process: it is pinned, and its port may use it by ``key``."""
    said = await process._driven.ask(REGISTER, peer=process.port, address=address, payload=length)
    assert said.address == DONE
    region = process._ports.work.regions[process.node, key % REGIONS]
    region["key"], region["address"], region["length"] = key, address, length
    region["space"], region["domain"] = process.number, DOMAIN
    region["rights"] = MAY_WRITE | MAY_FETCH


def troubles(process: Process) -> list[int]:
    """What the process's port has had of errors that no descriptor tells of."""
    port = process._ports.table[process.node, process.port]
    kept = process._ports.work.troubles[process.node, process.port]
    return [int(each) for each in kept[: port["troubles"]]]
