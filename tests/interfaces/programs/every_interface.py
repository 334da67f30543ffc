"""One cluster of each interface, and one wait on each that nobody ends."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import NamedTuple

from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.ports.cluster import PortCluster


class Face(NamedTuple):
    """An interface: its cluster, what its programs open, and how they wait in vain."""

    cluster: object
    open: object  # from what a program is given to what its calls are made on
    wait: object  # at most so many us
    call: str  # that wait, as a program calls it


async def same(given):
    return given


async def unet_endpoint(process):
    return await process.open()


async def nic(host):
    return await host.open_nic()


FACES = {
    "U-Net": Face(
        unet.Cluster,
        unet_endpoint,
        lambda end, us=None: end.receive(timeout_us=us),
        "endpoint.receive()",
    ),
    "VMMC": Face(
        vmmc.Cluster,
        same,
        lambda end, us=None: end.notification(timeout_us=us),
        "endpoint.notification()",
    ),
    "miNI": Face(
        mini.Cluster, same, lambda end, us=None: end.stored(timeout_us=us), "endpoint.stored()"
    ),
    "Trapeze": Face(
        lambda **how: trapeze.Cluster("p6-natoma", **how),
        same,
        lambda end, us=None: end.receive(timeout_us=us),
        "endpoint.receive()",
    ),
    "VIA": Face(
        via.Cluster, nic, lambda end, us=None: end.connect_wait("x", us), "nic.connect_wait()"
    ),
    "ports": Face(
        lambda **how: PortCluster("utlb", "utlb-prototype", **how),
        same,
        lambda end, us=None: end.arrival(timeout_us=us),
        "process.arrival()",
    ),
}


def place(function, text):
    """``FILE:LINE`` of the line of ``function`` that holds ``text``."""
    lines, first = inspect.getsourcelines(function)
    at = next(i for i, line in enumerate(lines) if text in line)
    file = Path(inspect.getsourcefile(function))
    near = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{near}:{first + at}"
