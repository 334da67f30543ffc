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
from nicscope.drivers.simulate.ports.calls import follow_outcome  # noqa: F401  likewise
from nicscope.nic.ports.calls import PORTS
from nicscope.nic.ports.linked import FIRMWARE

FUNCTIONS = PORTS.found_in(
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
    *FIRMWARE,
)
