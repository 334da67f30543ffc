"""What a VIA cluster's machine is like and what it costs: a platform, and changes by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.cost_name import COSTS
from nicscope.config.delivery import Way
from nicscope.config.evidence import Evidence, Origin
from nicscope.config.machine import MACHINE, OF_VIA, VIA_COSTS
from nicscope.config.scheme import Scheme
from nicscope.drivers.simulate.bus.parameters import ON_NIC, machine_parameters, word_of
from nicscope.errors import SimulationError, did_you_mean
from nicscope.memory.coherence.layout import host_settings
from nicscope.nic.coherent.layout import FALL_BACK, nic_settings
from nicscope.nic.transport import MOST_WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.config.design import Design
    from nicscope.config.machine import Parameter
    from nicscope.config.platform import Platform
    from nicscope.config.unit_cost import UnitCost

PAGE = 4096
AT_LEAST_1 = ("mtu", "max_transfer", *VIA_COSTS)


class Settings(msgspec.Struct, frozen=True):
    """A platform with changes in place, and what of it the messaging asks for."""

    platform: Platform
    host: dict[str, int]  # parameters of the host and of the interface
    nic: dict[str, int]
    mtu: int
    max_transfer: int
    retry_timeout: int  # ps
    retries: int
    window: int
    read_mbytes_s: int  # at which the interface reads blocks that the host wrote; 0: the bus's


def settings_of(platform: Platform, changes: Mapping[str, int] | None = None) -> Settings:
    """The platform's with ``changes`` by name, times in ps; of a table of costs for each page.

    The platform states all that VIA takes.  Errors: ``SimulationError`` for an unknown name, or a
    value that makes no machine.
    """
    changed = platform
    for name, value in (changes or {}).items():
        changed = _changed(changed, name, value)
    host, nic = machine_parameters(changed)
    own = {name: changed.machine[name].value for name in OF_VIA}
    own |= {name: changed.costs[name].high_ps for name in VIA_COSTS}
    for name in AT_LEAST_1:
        if own[name] < 1:
            raise SimulationError(f"{name} must be at least 1, got {own[name]!r}")
    if not 1 <= own["window"] <= MOST_WINDOW:
        raise SimulationError(
            f"window must be from 1 to {MOST_WINDOW} frames, got {own['window']!r}"
        )
    if own["max_transfer"] + PAGE > nic["staging_bytes"] // 2:
        raise SimulationError(
            f"half of staging_bytes, {nic['staging_bytes']}, must hold max_transfer, "
            f"{own['max_transfer']}, and {PAGE} bytes more; give more or transfer less"
        )
    try:
        host_settings(host)
        nic_settings(nic)
    except ValueError as error:
        raise SimulationError(str(error)) from None
    return Settings(changed, host, nic, **own)


def is_postponed(settings: Settings, design: Design) -> bool:
    """Whether memory for which the NIC has no room is registered later (``when_full`` 2).

    Errors: ``SimulationError`` where no room is ever given back.
    """
    if design.way != Way.EDT or settings.nic["when_full"] == FALL_BACK:
        return False
    if design.scheme is not Scheme.STATIC:
        raise SimulationError(
            f"when_full 2 waits until memory is deregistered, and {design.name} keeps that pinned; "
            "via-static does not"
        )
    return True


def falling_back(settings: Settings) -> Platform:
    """The platform for a machine whose library waits: what finds no room there goes past it."""
    return _changed(settings.platform, "when_full", FALL_BACK)


def _changed(platform: Platform, name: str, value: int) -> Platform:
    """The platform with another value for what it states under that name."""
    word = name if name in platform.machine or name in platform.costs else _on_nic(name)
    if word not in platform.machine and word not in platform.costs:
        known = {*platform.costs, *platform.machine}
        raise SimulationError(f"no setting {name!r}{did_you_mean(name, known)}")
    if value < 0:
        raise SimulationError(f"{name} must not be negative")
    if word in MACHINE:
        machine = platform.machine | {word: _parameter(platform.machine[word], value)}
        return msgspec.structs.replace(platform, machine=machine)
    return msgspec.structs.replace(
        platform, costs=platform.costs | {word: _cost(platform.costs[word], value)}
    )


def _on_nic(name: str) -> str:
    """The word of a parameter of the interface, which may be said to be that, or not."""
    return word_of(name.removeprefix(ON_NIC))


def _cost(stated: UnitCost, ps: int) -> UnitCost:
    origin = Origin(Evidence.ASSUMED, f"settings: {stated.name}")
    if COSTS[stated.name].size_of is not None:
        points = (1, ps), (2, 2 * ps)
        return msgspec.structs.replace(stated, origin=origin, points=points)
    return msgspec.structs.replace(stated, origin=origin, low_ps=ps, high_ps=ps)


def _parameter(stated: Parameter, value: int) -> Parameter:
    origin = Origin(Evidence.ASSUMED, f"settings: {stated.name}")
    return msgspec.structs.replace(stated, value=value, origin=origin)
