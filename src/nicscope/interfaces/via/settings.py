"""What a VIA cluster's machine is like and what its messaging costs: a platform, and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.platform import load_platform, platform_names
from nicscope.errors import PlatformError, SimulationError, did_you_mean
from nicscope.memory.coherence.parameters import HOST_PARAMETERS, Parameter
from nicscope.nic.coherent.parameters import NIC_PARAMETERS
from nicscope.nic.transport import MOST_WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.config.platform import Platform

VIA_COSTS = (
    "vipl_post",
    "vipl_poll",
    "ka_call",
    "ka_register_page",
    "vimsg_token",
    "vimsg_translate",
    "vimsg_send_frame",
    "vimsg_receive_frame",
    "vimsg_complete",
)
# Times of the machine that a platform may state; what it does not, the machine has of its own.
MACHINE_TIMES = (
    "l1_latency",
    "l2_latency",
    "bus_cycle",
    "memory_latency",
    "cache_supply",
    "device_latency",
    "flush_instruction",
    "reaction",
    "dma_init",
    "dma_interrupt",
)
OWN = {
    "mtu": Parameter(1500, "bytes", "published", "EDT, 7.2: of a message in a frame"),
    "max_transfer": Parameter(65536, "bytes", "assumed", "of a message; the paper stops at 4 KB"),
    "window": Parameter(
        32, "frames", "assumed", "of a VI on their way; as the other interfaces' transport"
    ),
    "retry_timeout": Parameter(100_000_000, "ps", "assumed", "without an acknowledgement"),
    "retries": Parameter(7, "times", "assumed", "before a connection is lost"),
    "ka_interrupt": Parameter(
        10_000_000,
        "ps",
        "assumed",
        "as UTLB's, 6.2: until the kernel agent serves the NIC, for an RDMA that needs the host "
        "(PIO, CNI, flushed DMA)",
    ),
    "read_mbytes_s": Parameter(
        0,
        "MB/s",
        "assumed",
        "of blocks that the NIC reads because the host wrote them; 0: the bus's.  Only the DMA "
        "engine, and EDT's write-back as one (EDT, 4), have the DMA's",
    ),
}
MACHINE_DEFAULTS = {"memory_bytes": 1 << 21}  # of a host
NIC_DEFAULTS = {
    "staging_bytes": 1 << 18,  # half for what is sent, half for what is received
    "dma_window": 1,  # the engine asks for a block when it has the one before; assumed
}
_ON_NIC = "nic_"  # prefix of a parameter of the interface that a host has as well


class Settings(msgspec.Struct, frozen=True):
    """Parameters of the host and of the interface, costs (ps), and the messaging's own."""

    platform: str
    host: dict[str, int]
    nic: dict[str, int]
    costs: dict[str, int]
    mtu: int
    max_transfer: int
    retry_timeout: int
    retries: int
    window: int
    ka_interrupt: int
    read_mbytes_s: int


def read_settings(platform: Platform, changes: Mapping[str, int] | None = None) -> Settings:
    """Settings of that platform with ``changes`` by name.

    Errors: ``PlatformError`` if it states no VIA costs, ``SimulationError`` for an unknown name.
    """
    absent = [name for name in VIA_COSTS if name not in platform.costs]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise PlatformError(
            f"platform {platform.name!r} states no {absent[0]}{more}, so VIA cannot be simulated "
            f"on it; it can on {', '.join(_platforms_of_via())}"
        )
    costs = {name: platform.costs[name].high_ps for name in VIA_COSTS}
    host, nic, own = dict(MACHINE_DEFAULTS), dict(NIC_DEFAULTS), _values(OWN)
    for name in MACHINE_TIMES:
        if name in platform.costs:
            (host if name in HOST_PARAMETERS else nic)[name] = platform.costs[name].high_ps
    for name, value in (changes or {}).items():
        if name in costs:
            costs[name] = value
        elif name in own:
            own[name] = value
        elif name in HOST_PARAMETERS:
            host[name] = value
        elif name.removeprefix(_ON_NIC) in NIC_PARAMETERS:
            nic[name.removeprefix(_ON_NIC)] = value
        else:
            known = {*costs, *own, *HOST_PARAMETERS, *NIC_PARAMETERS}
            raise SimulationError(f"no setting {name!r}{did_you_mean(name, known)}")
    for name in ("mtu", "max_transfer", "retry_timeout"):
        if own[name] < 1:
            raise SimulationError(f"{name} must be at least 1, got {own[name]!r}")
    if not 1 <= own["window"] <= MOST_WINDOW:
        raise SimulationError(
            f"window must be from 1 to {MOST_WINDOW} frames, got {own['window']!r}"
        )
    if own["max_transfer"] + 4096 > nic["staging_bytes"] // 2:
        raise SimulationError(
            f"half of staging_bytes, {nic['staging_bytes']}, must hold max_transfer, "
            f"{own['max_transfer']}, and 4096 bytes more; give more or transfer less"
        )
    for name in (*costs, "retries", "ka_interrupt", "read_mbytes_s"):
        if {**costs, **own}[name] < 0:
            raise SimulationError(f"{name} must not be negative")
    return Settings(platform.name, host, nic, costs, **own)


def _values(parameters: Mapping[str, Parameter]) -> dict[str, int]:
    return {name: parameter.value for name, parameter in parameters.items()}


def _platforms_of_via() -> list[str]:
    every = (load_platform(name) for name in platform_names())
    return [one.name for one in every if all(name in one.costs for name in VIA_COSTS)]
