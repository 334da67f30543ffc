"""Running the firmware over a recorded trace: counts, no time."""

from nicscope.drivers.replay.counts import COUNT_NAMES, KIND_NAMES
from nicscope.drivers.replay.engine import Replayer, ReplayResult, replay

__all__ = ["COUNT_NAMES", "KIND_NAMES", "ReplayResult", "Replayer", "replay"]
