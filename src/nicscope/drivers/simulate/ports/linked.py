"""The distant functions themselves, from the modules that have them."""

from __future__ import annotations

from nicscope.drivers.simulate.bus import (
    accessing,
    granting,
    moving,
    payloads,
    telling,
    transactions,
)
from nicscope.drivers.simulate.bus.state import fire_bus  # noqa: F401  declared before counted
from nicscope.drivers.simulate.ports import (
    interrupting,
    misses,
    network,
    posting,
    resuming,
    scripted,
    thread,
)
from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.drivers.simulate.traced import following
from nicscope.host import library, pages, release
from nicscope.host.calls import HOST
from nicscope.nic.ports.calls import FIRMWARE
from nicscope.nic.ports.linked import MODULES

_MODULES = (
    accessing,
    following,
    granting,
    interrupting,
    library,
    misses,
    moving,
    network,
    pages,
    payloads,
    posting,
    release,
    resuming,
    scripted,
    telling,
    thread,
    transactions,
    *MODULES,
)
FUNCTIONS = tuple(
    each for declared in (FIRMWARE, HOST, DRIVER) for each in declared.found_in(*_MODULES)
)
