"""How far a long run is, on a terminal: the virtual time that it has reached, and how fast."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

from nicscope.interfaces.run_report import is_listened_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.drivers.simulate.programs import Simulation

PATIENCE_S = 2.0  # before anything is said
PACE_S = 0.5  # between two looks
JOIN_S = 2.0  # at most, for the line to be taken away
PS_PER_US = 1_000_000
CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def run_progress(simulation: Simulation) -> Iterator[None]:
    """Say on a terminal's error stream how far the run is, once it has taken ``PATIENCE_S``.

    Nothing is said where there is no terminal, or where whoever runs the program tells of it.
    """
    if not sys.stderr.isatty() or is_listened_to():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_tell, args=(simulation, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(JOIN_S)


def _tell(simulation: Simulation, over: threading.Event) -> None:
    """Write one line over the last until the run is ``over``, and take it away then."""
    stream, begin = sys.stderr, time.monotonic()
    before, since, waiting, said = 0, begin, PATIENCE_S, False
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
        while not over.wait(waiting):
            waiting = PACE_S
            events, now = int(simulation.machine.tally[0]["events"]), time.monotonic()
            line = line_of(simulation.now, (events - before) / max(now - since, 1e-9), now - begin)
            before, since, said = events, now, True
            stream.write(CLEAR + line)
            stream.flush()
        if said:
            stream.write(CLEAR)
            stream.flush()


def line_of(now_ps: int, events_per_s: float, seconds: float) -> str:
    """The line: ``now_ps`` of virtual time after so many seconds."""
    return (
        f"nicscope: running: {now_ps / PS_PER_US:,.0f} us of virtual time, "
        f"{events_per_s:,.0f} events/s, {seconds:.0f} s so far"
    )
