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
STEP_PS = 50_000


def lost_to_gaps(ends: Sequence[Costs]) -> float:
    """Share of time between hostTx transfers in a steady stream of 8 KB, with the log."""
    transfers = cold_start(ends, logging=True).of(Engine.HOST_TX)
    steady = transfers[transfers["packet"] >= STEADY]
    busy = int((steady["end"] - steady["start"])[:-1].sum())
    return 1 - busy / int(steady["start"][-1] - steady["start"][0])


def fit_firmware_log(ends: Sequence[Costs], share: float) -> int:
    """Cost (ps) of logging a transfer whose ``lost_to_gaps`` comes nearest to ``share``.

    All are tried: more logging loses more, but in leaps and now and then a little less.
    """

    def missed(cost: int) -> float:
        return abs(lost_to_gaps([{**end, "firmware_log": cost} for end in ends]) - share)

    return min(range(0, LONGEST_LOG_PS, STEP_PS), key=missed)
