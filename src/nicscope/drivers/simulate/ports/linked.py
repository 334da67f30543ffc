"""The distant functions themselves, from the modules that have them."""

from __future__ import annotations

from nicscope.drivers.simulate.bus import (
    arbitration,
    completion_writes,
    moves,
    payloads,
    transactions,
)
from nicscope.drivers.simulate.ports import (
    interrupts,
    misses,
    network,
    posting,
    scripted,
    thread,
)
from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.drivers.simulate.traced import follower
from nicscope.host import library, pages, release
from nicscope.host.calls import HOST
from nicscope.nic.ports.calls import FIRMWARE
from nicscope.nic.ports.linked import MODULES

_MODULES = (
    follower,
    arbitration,
    interrupts,
    library,
    misses,
    moves,
    network,
    pages,
    payloads,
    posting,
    release,
    scripted,
    completion_writes,
    thread,
    transactions,
    *MODULES,
)
FUNCTIONS = tuple(
    each for declared in (FIRMWARE, HOST, DRIVER) for each in declared.found_in(*_MODULES)
)
