"""How much of the bus a steady stream leaves idle, and what logging must cost for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.calibrate.cold_start import cold_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.delivery_measures import Costs

STEADY = 20  # packet: beyond 800 us, which is the tenth
LONGEST_LOG_PS = 4_000_000
STEP_PS = 10_000


def lost_to_gaps(ends: Sequence[Costs]) -> float:
    """Share of time between hostTx transfers in a steady stream of 8 KB, with the log."""
    transfers = cold_start(ends, logging=True).of(Engine.HOST_TX)
    steady = transfers[transfers["packet"] >= STEADY]
    busy = int((steady["end"] - steady["start"])[:-1].sum())
    return 1 - busy / int(steady["start"][-1] - steady["start"][0])


def fit_firmware_log(ends: Sequence[Costs], share: float) -> int:
    """Cost (ps) of logging a transfer at which ``lost_to_gaps`` first reaches ``share``."""
    low, high = 0, LONGEST_LOG_PS // STEP_PS
    while low < high:
        middle = (low + high) // 2
        logged = [{**end, "firmware_log": middle * STEP_PS} for end in ends]
        if lost_to_gaps(logged) < share:
            low = middle + 1
        else:
            high = middle
    return low * STEP_PS
