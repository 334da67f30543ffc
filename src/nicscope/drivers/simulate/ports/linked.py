"""The distant functions themselves, from the modules that have them."""

from __future__ import annotations

from nicscope.drivers.simulate.bus import accessing, granting, moving
from nicscope.drivers.simulate.bus.calls import fire_bus  # noqa: F401  declared before counted
from nicscope.drivers.simulate.ports import (
    admitting,
    ahead,
    checking,
    choose,
    closing,
    durations,
    finishing,
    handles,
    handling,
    holding,
    interrupting,
    leaving,
    misses,
    placing,
    posting,
    reliable,
    reporting,
    resuming,
    scanning,
    scripted,
    serve,
    thread,
    translating,
    trapping,
)
from nicscope.drivers.simulate.ports.calls import PORTS

FUNCTIONS = PORTS.found_in(
    accessing,
    granting,
    moving,
    admitting,
    ahead,
    checking,
    choose,
    closing,
    durations,
    finishing,
    handles,
    handling,
    holding,
    interrupting,
    leaving,
    misses,
    placing,
    posting,
    reliable,
    reporting,
    resuming,
    scanning,
    scripted,
    serve,
    thread,
    translating,
    trapping,
)
