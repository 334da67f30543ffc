"""How long translation misses took, of which a distribution is told."""

from __future__ import annotations

from nicscope.kernel.decorators import routine


@routine
def log_miss(machine, delay, processing):
    """Keep the times (ps) of one miss: until somebody attended to it, and until it was served."""
    traced = machine.traced
    place = traced.rules[0].misses
    traced.rules[0].misses += 1
    if place < traced.misses.shape[0]:
        traced.misses[place, 0] = delay
        traced.misses[place, 1] = processing
