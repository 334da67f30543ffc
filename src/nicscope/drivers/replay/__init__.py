"""Running the firmware over a recorded trace: counts, no time."""

from nicscope.drivers.replay.engine import Replayer, ReplayResult, alignments_for, replay
from nicscope.drivers.replay.rnic import follows_registrations, lowest_addresses, registers_ahead
from nicscope.nic.translate.book import COUNT_NAMES, KIND_NAMES

__all__ = [
    "COUNT_NAMES",
    "KIND_NAMES",
    "ReplayResult",
    "Replayer",
    "alignments_for",
    "follows_registrations",
    "lowest_addresses",
    "registers_ahead",
    "replay",
]
