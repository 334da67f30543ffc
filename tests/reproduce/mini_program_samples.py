"""Runs of the eight programs in which every statement of miNI's Figures 5, 6 and 7 holds."""

import numpy as np

from nicscope.studies.reproduce.traced.mini import (
    EIGHT,
    LARGE,
    PARTS,
    PERCENTILES,
    POINTS,
    Distribution,
    Timed,
    TimedProgram,
)

LOOKUPS = 100_000
BY_LINE = {8: 1.0, 16: 0.6, 64: 0.3, 128: 0.2}
BY_WAYS = {2: 1.1, 4: 1.0, 8: 0.99}
HIGHEST = 39.0
STATIC_S = 10.0
ALONE_S = 60.0
ADDED = {"FFT": 90.0, "LUContiguous": 90.0, "Radix": 90.0}  # s, where all of 40 in 100 miss


def cold_percent(name, entries, line, ways):
    """Misses that are cold: most of them."""
    highest = HIGHEST if name in LARGE else 1.5
    small = 1 - (ways < 4) * 0.02 if entries == 32768 else 1.0
    size = 1.0 if entries == 8192 else 0.9
    if line == 128 and entries == 32768:
        size = 0.3
    return highest * BY_LINE[line] * BY_WAYS[ways] * size * small / 1.1


def not_cold_percent(name, entries, line):
    """Others: Ocean's, of small caches with long lines."""
    if name != "Ocean" or entries == 32768:
        return 0.0
    return 0.05 if line >= 64 else 0.02


def row(name, entries, line, ways):
    """A row of Figure 5."""
    cold = cold_percent(name, entries, line, ways)
    rest = not_cold_percent(name, entries, line)
    parts = dict.fromkeys((f"{part}_percent" for part in PARTS), 0.0)
    parts |= {"send_cold_percent": cold / 2, "receive_cold_percent": cold / 2}
    parts |= {"send_noncold_percent": rest, "misses_percent": cold + rest}
    return {"cache_entries": entries, "line_entries": line, "ways": ways, **parts}


def figure_5_rows():
    """Of each program."""
    return {name: [row(name, *point) for point in POINTS] for name in EIGHT}


def alike(us, misses=10, beyond=0, last=None):
    """Misses that all take ``us``, but the last; ``beyond`` are outside the printed range."""
    percentiles = [us] * (len(PERCENTILES) - 1)
    return Distribution(misses, us, misses - beyond, (*percentiles, us if last is None else last))


def timed(seconds, percent, delay=25.0, processing=80.0):
    """A run whose misses all take as long."""
    misses = round(percent * LOOKUPS / 100)
    return Timed(
        seconds,
        LOOKUPS,
        misses,
        misses // 2,
        alike(delay, misses),
        alike(processing, misses),
    )


def program(name):
    """All runs of a program: what they take follows what misses."""
    caches = []
    for point in POINTS:
        percent = row(name, *point)["misses_percent"]
        longer = ADDED.get(name, 10.0) * percent / 100
        if name != "Radix" and point[1:] == (64, 4):
            longer = -0.01
        if name == "Radix":
            longer += 0.5
        own = 100.0 if name in LARGE else 80.0
        caches.append(timed(STATIC_S + longer, percent, processing=own))
    return TimedProgram(ALONE_S, timed(STATIC_S, 0.0), caches)


def eight_programs():
    """All of them."""
    return {name: program(name) for name in EIGHT}


def changed(one, *, where=None, **fields):
    """``one`` with fields of the runs at ``where`` (places of ``POINTS``; None: all) changed."""
    places = range(len(POINTS)) if where is None else where
    caches = [
        run._replace(**fields) if place in places else run for place, run in enumerate(one.caches)
    ]
    return one._replace(caches=caches)


def slower(one, factor):
    """``one`` with every cache's time multiplied."""
    factors = np.broadcast_to(factor, len(POINTS))
    return one._replace(
        caches=[
            run._replace(seconds=run.seconds * float(by))
            for run, by in zip(one.caches, factors, strict=True)
        ]
    )
