"""What programs call: endpoints of the published systems, as awaitables.

    from nicscope.interfaces import Cluster, Faults, vmmc

Each name is imported when it is first asked for, so that nothing heavy is loaded for the others.
What several interfaces call alike (``Endpoint``, ``Message``, ``Process``) is in each one's module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nicscope.config.design import Delivery, Design, Transport, load_design
    from nicscope.config.platform import Platform, load_platform
    from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
    from nicscope.drivers.simulate.processor import OtherMaster
    from nicscope.errors import (
        DesignError,
        NicscopeError,
        PlatformError,
        RoomError,
        SimulationError,
        StuckError,
        WaitTimeoutError,
    )
    from nicscope.fabric.topology import Topology, crossbar, pair, redundant, routed, trunk
    from nicscope.interfaces import mini, trapeze, unet, via, vmmc
    from nicscope.interfaces.active_messages import ActiveMessages
    from nicscope.interfaces.mini import BufferHandle, Region, Remote, Stored
    from nicscope.interfaces.options import Cluster
    from nicscope.interfaces.ports.cluster import PortCluster
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.run_report import RunReport
    from nicscope.interfaces.trapeze import NO_TAG, HostBuffer, PageMap, PagePool
    from nicscope.interfaces.unet import AtmCircuits, EthernetPorts, TagForm
    from nicscope.interfaces.via import (
        Control,
        Descriptors,
        Error,
        Host,
        Nic,
        Reliability,
        Return,
        State,
        Status,
        VipError,
    )
    from nicscope.interfaces.vmmc import (
        Completion,
        Exported,
        Imported,
        Notification,
        PinnedPage,
        Transfer,
    )

MODULES = ("mini", "trapeze", "unet", "via", "vmmc")
FROM = {
    "nicscope.config.design": ("Delivery", "Design", "Transport", "load_design"),
    "nicscope.config.platform": ("Platform", "load_platform"),
    "nicscope.drivers.simulate.processor": ("OtherMaster",),
    "nicscope.drivers.simulate.ports.build": ("Faults", "HostSize", "PortSize"),
    "nicscope.errors": (
        *("DesignError", "NicscopeError", "PlatformError", "RoomError", "SimulationError"),
        *("StuckError", "WaitTimeoutError"),
    ),
    "nicscope.fabric.topology": ("Topology", "crossbar", "pair", "redundant", "routed", "trunk"),
    "nicscope.interfaces.mini": ("BufferHandle", "Region", "Remote", "Stored"),
    "nicscope.interfaces.ports.memory": ("Buffer",),
    "nicscope.interfaces.ports.cluster": ("PortCluster",),
    "nicscope.interfaces.run_report": ("RunReport",),
    "nicscope.interfaces.options": ("Cluster",),
    "nicscope.interfaces.trapeze": ("NO_TAG", "HostBuffer", "PageMap", "PagePool"),
    "nicscope.interfaces.unet": ("AtmCircuits", "EthernetPorts", "TagForm"),
    "nicscope.interfaces.active_messages": ("ActiveMessages",),
    "nicscope.interfaces.via": (
        *("Control", "Descriptors", "Error", "Host", "Nic", "Reliability", "Return", "State"),
        *("Status", "VipError"),
    ),
    "nicscope.interfaces.vmmc": (
        *("Completion", "Exported", "Imported", "Notification", "PinnedPage", "Transfer"),
    ),
}
HOME = {name: module for module, names in FROM.items() for name in names}

__all__ = [
    "NO_TAG",
    "ActiveMessages",
    "AtmCircuits",
    "Buffer",
    "BufferHandle",
    "Cluster",
    "Completion",
    "Control",
    "Delivery",
    "Descriptors",
    "Design",
    "DesignError",
    "Error",
    "EthernetPorts",
    "Exported",
    "Faults",
    "Host",
    "HostBuffer",
    "HostSize",
    "Imported",
    "Nic",
    "NicscopeError",
    "Notification",
    "OtherMaster",
    "PageMap",
    "PagePool",
    "PinnedPage",
    "Platform",
    "PlatformError",
    "PortCluster",
    "PortSize",
    "Region",
    "Reliability",
    "Remote",
    "Return",
    "RoomError",
    "RunReport",
    "SimulationError",
    "State",
    "Status",
    "Stored",
    "StuckError",
    "TagForm",
    "Topology",
    "Transfer",
    "Transport",
    "VipError",
    "WaitTimeoutError",
    "crossbar",
    "load_design",
    "load_platform",
    "mini",
    "pair",
    "redundant",
    "routed",
    "trapeze",
    "trunk",
    "unet",
    "via",
    "vmmc",
]


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
