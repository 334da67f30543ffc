"""What a coherent host and its interface are like on a platform, in the units of the kernels."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.machine import MACHINE, unstated_machine
from nicscope.config.platform import load_platform
from nicscope.errors import PlatformError
from nicscope.memory.coherence.layout import HOST_PARAMETERS
from nicscope.nic.coherent.layout import NIC_PARAMETERS

if TYPE_CHECKING:
    from nicscope.config.platform import Platform

UNFITTED = "edt-table1"  # what the paper prints, and assumptions: nothing chosen by a result
ON_NIC = "nic_"  # before a parameter of the interface that a host has as well


class Parameters(NamedTuple):
    """Values by the names of ``HOST_PARAMETERS`` and of ``NIC_PARAMETERS``: ps, bytes, cycles."""

    host: dict[str, int]
    nic: dict[str, int]


def machine_parameters(platform: Platform) -> Parameters:
    """What ``platform`` states of them.  Errors: ``PlatformError`` naming what it does not."""
    absent = unstated_machine(platform)
    if absent:
        raise PlatformError(
            f"platform {platform.name!r} states no {', '.join(absent)}: it is no coherent host "
            f"with an interface; {UNFITTED!r} states all of them"
        )
    return Parameters(
        {name: _value(platform, name) for name in HOST_PARAMETERS},
        {name: _value(platform, word_of(name)) for name in NIC_PARAMETERS},
    )


def word_of(name: str) -> str:
    """What a platform calls the interface's parameter ``name``."""
    return ON_NIC + name if ON_NIC + name in MACHINE else name


@cache
def unfitted() -> Parameters:
    """The parameters of ``UNFITTED``; not to be changed."""
    return machine_parameters(load_platform(UNFITTED))


def _value(platform: Platform, name: str) -> int:
    return platform.machine[name].value if name in MACHINE else platform.costs[name].high_ps
