"""The distant functions themselves, from the modules that have them."""

from __future__ import annotations

from nicscope.drivers.simulate.bus import (
    accessing,
    errands,
    fetching,
    granting,
    moving,
    payloads,
    registering,
    rooms,
    telling,
)
from nicscope.drivers.simulate.bus.calls import fire_bus  # noqa: F401  declared before counted
from nicscope.drivers.simulate.ports import (
    checking,
    handling,
    interrupting,
    leaving,
    misses,
    network,
    posting,
    resuming,
    scanning,
    scripted,
    thread,
    trapping,
)
from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.drivers.simulate.traced import following
from nicscope.host import close, deregistering, dropping, library, pages
from nicscope.host.calls import HOST
from nicscope.nic.ports.calls import FIRMWARE
from nicscope.nic.ports.linked import MODULES

_MODULES = (
    accessing,
    errands,
    fetching,
    granting,
    moving,
    payloads,
    registering,
    rooms,
    telling,
    checking,
    handling,
    interrupting,
    leaving,
    misses,
    network,
    posting,
    resuming,
    scanning,
    scripted,
    thread,
    trapping,
    following,
    close,
    deregistering,
    dropping,
    library,
    pages,
    *MODULES,
)
FUNCTIONS = tuple(
    each for declared in (FIRMWARE, HOST, DRIVER) for each in declared.found_in(*_MODULES)
)
