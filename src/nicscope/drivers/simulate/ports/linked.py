"""The distant functions themselves, from the modules that have them."""

from __future__ import annotations

from nicscope.drivers.simulate.bus import accessing, granting, moving, payloads
from nicscope.drivers.simulate.bus.calls import fire_bus  # noqa: F401  declared before counted
from nicscope.drivers.simulate.ports import (
    admitting,
    checking,
    closing,
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
    translating,
    trapping,
)
from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.nic.ports.calls import FIRMWARE
from nicscope.nic.ports.linked import MODULES

_MODULES = (
    accessing,
    granting,
    moving,
    payloads,
    admitting,
    checking,
    closing,
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
    translating,
    trapping,
    *MODULES,
)
FUNCTIONS = FIRMWARE.found_in(*_MODULES) + DRIVER.found_in(*_MODULES)
