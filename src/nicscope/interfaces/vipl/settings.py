"""A VIA platform as the machine of ports has it: costs and parameters by the names of ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.evidence import Evidence, Origin
from nicscope.config.machine import MACHINE
from nicscope.drivers.simulate.bus.parameters import word_of
from nicscope.errors import SimulationError, did_you_mean
from nicscope.interfaces.via.settings import read_settings
from nicscope.memory.coherence.layout import host_settings
from nicscope.nic.coherent.layout import nic_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.config.machine import Parameter
    from nicscope.config.platform import Platform, UnitCost
    from nicscope.interfaces.via.settings import Settings

# What ports call what VIPL's library and its kernel agent take.
SAME = {"post": "vipl_post", "poll": "vipl_poll", "system_call": "ka_call"}
# Of VI-MSG's own firmware and engines: this NIC's are the platform's.
UNUSED = (
    "vimsg_token",
    "vimsg_translate",
    "vimsg_send_frame",
    "vimsg_receive_frame",
    "vimsg_complete",
    "read_mbytes_s",
)


def settings_of(platform: Platform, changes: Mapping[str, int] | None = None) -> Settings:
    """The platform's with ``changes`` by name.  Errors: as ``read_settings``."""
    for name in changes or {}:
        if name in UNUSED:
            raise SimulationError(
                f"{name} is of VI-MSG's own machine, and this NIC serves ports: change what the "
                f"platform states of it{did_you_mean('send_queue', platform.costs)}"
            )
    settings = read_settings(platform, changes)
    try:
        host_settings(settings.host)
        nic_settings(settings.nic)
    except ValueError as error:
        raise SimulationError(str(error)) from None
    return settings


def on_ports(platform: Platform, settings: Settings) -> Platform:
    """``platform`` with ``settings`` in place, where the machine of ports looks for them."""
    times = {name: settings.costs[theirs] for name, theirs in SAME.items()}
    times["interrupt"] = settings.ka_interrupt
    costs = dict(platform.costs)
    for name, ps in times.items():
        costs[name] = _cost(platform, name, ps)
    page = settings.costs["ka_register_page"]
    costs["user_pin"] = msgspec.structs.replace(
        _cost(platform, "user_pin", page), points=((1, page), (2, 2 * page))
    )
    machine = dict(platform.machine)
    for part, words in ((settings.host, str), (settings.nic, word_of)):
        for name, value in part.items():
            word = words(name)
            if word in MACHINE:
                machine[word] = _parameter(machine[word], value)
            else:
                costs[word] = _cost(platform, word, value)
    return msgspec.structs.replace(platform, costs=costs, machine=machine)


def _cost(platform: Platform, name: str, ps: int) -> UnitCost:
    """That cost, with its origin if it is as the platform has it."""
    stated = platform.costs[name]
    if not stated.points and stated.low_ps == stated.high_ps == ps:
        return stated
    theirs = SAME.get(name)
    origin = platform.costs[theirs].origin if theirs else _set(name)
    return msgspec.structs.replace(stated, origin=origin, low_ps=ps, high_ps=ps, points=())


def _parameter(stated: Parameter, value: int) -> Parameter:
    if stated.value == value:
        return stated
    return msgspec.structs.replace(stated, value=value, origin=_set(stated.name))


def _set(name: str) -> Origin:
    return Origin(Evidence.ASSUMED, f"settings: {name}")
