"""What a VIA cluster's machine is like and what its messaging costs: a platform, and changes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec

from nicscope.config.delivery import Way
from nicscope.config.machine import OF_VIA
from nicscope.drivers.simulate.bus.parameters import ON_NIC, machine_parameters
from nicscope.errors import SimulationError, did_you_mean
from nicscope.interfaces.ways import VI_MSG, Combination, check_runs
from nicscope.nic.transport import MOST_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nicscope.config.platform import Platform

# What VI-MSG's own machine calls what ports have by other names, or in other shares.
OWN_COSTS: dict[str, Callable[[Mapping[str, int]], int]] = {
    "vipl_post": lambda of: of["post"],
    "vipl_poll": lambda of: of["poll"],
    "ka_call": lambda of: of["system_call"],
    "ka_interrupt": lambda of: of["interrupt"],
    "ka_register_page": lambda of: of["user_pin"],
    "vimsg_token": lambda of: of["send_queue"] - of["ni_table_read"],
    "vimsg_translate": lambda of: of["ni_table_read"],
    "vimsg_send_frame": lambda of: 3 * of["firmware_start"] + of["firmware_finish"],
    "vimsg_receive_frame": lambda of: 3 * of["firmware_start"] + of["firmware_finish"],
    "vimsg_complete": lambda of: of["receive_queue"],
    "retry_timeout": lambda of: of["retry_timeout"],
}
AS_PORTS = {  # what may be changed by the name that ports have for it as well
    "post": "vipl_post",
    "poll": "vipl_poll",
    "system_call": "ka_call",
    "interrupt": "ka_interrupt",
    "user_pin": "ka_register_page",
}
APART = ("ka_interrupt", "retry_timeout")  # of the costs: fields of ``Settings`` by themselves


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

    Errors: ``PlatformError`` if it does not state all that VIA takes, ``SimulationError`` for an
    unknown name.
    """
    check_runs(Combination(VI_MSG, platform, Way.EDT))  # its prices are those of every way
    host, nic = machine_parameters(platform)
    stated = {name: int(cost.each(Fraction(1))[1]) for name, cost in platform.costs.items()}
    costs = {name: cost(stated) for name, cost in OWN_COSTS.items()}
    own = {name: platform.machine[name].value for name in OF_VIA}
    own |= {name: costs.pop(name) for name in APART}
    for said, value in (changes or {}).items():
        name = AS_PORTS.get(said, said)
        if name in costs:
            costs[name] = value
        elif name in own:
            own[name] = value
        elif name in host:
            host[name] = value
        elif name.removeprefix(ON_NIC) in nic:
            nic[name.removeprefix(ON_NIC)] = value
        else:
            known = {*costs, *own, *host, *nic}
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
