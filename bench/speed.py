"""Did nicscope get slower?  Its speed over that of what stays as it is, held against speed.toml.

    python bench/speed.py [--only WORD] [--write]

A ratio is CPU seconds of what stands beside nicscope over those of nicscope, run in turns: the
median of some rounds, and half their range.  A row that is off by more than a fifth is measured
again, twice at most.  If it is slower by that each time, it is lost (exit status 1); if it is
faster by that each time, the figure is to be raised.  ``--write`` puts what it measures into
speed.toml.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from speed_rows import Row

COMMITTED = Path(__file__).with_suffix(".toml")
HEAD = """\
# How often nicscope does its work while what stands beside it does its own, in CPU time: what
# `make speed` holds its ratios against.  Written by `python bench/speed.py --write`.
"""
ROUNDS = 5
REPETITIONS = 3
OFF = 0.2
LINE = "{:33}{:13}{:>7}{:>8}{:>11}{:>7}"


def here() -> str:
    """What this runs on, as far as figures depend on it."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(": ")[2] if names else model
    return f"{model}, Python {sys.version_info.major}.{sys.version_info.minor}"


def judged(ratios: Sequence[float], committed: float) -> str:
    """``lost`` or ``gained`` if each of the ratios is off by more than a fifth, else nothing."""
    if all(ratio < (1 - OFF) * committed for ratio in ratios):
        return "lost"
    if all(ratio > (1 + OFF) * committed for ratio in ratios):
        return "gained"
    return ""


def measure(row: Row) -> tuple[float, float]:
    """The ratio of a row and its spread."""
    ratios = []
    for _ in range(ROUNDS):
        own = row.own()
        ratios.append(row.other() / own)
    return statistics.median(ratios), (max(ratios) - min(ratios)) / 2


def check(rows: Sequence[Row], committed: Mapping[str, float]) -> int:
    """Print a line for each measurement, and what is lost or gained; the exit status."""
    print(LINE.format("", "beside", "ratio", "spread", "committed", "share"))
    found: dict[str, list[float]] = {row.name: [] for row in rows}
    left = list(rows)
    for repetition in range(REPETITIONS):
        if repetition and left:
            print(f"once more, as off by more than {OFF:.0%}:")
        for row in left:
            ratio, spread = measure(row)
            found[row.name].append(ratio)
            aim = committed[row.name]
            numbers = (f"{number:.3g}" for number in (ratio, spread, aim))
            print(LINE.format(row.name, row.beside, *numbers, f"{ratio / aim:.2f}"), flush=True)
        left = [row for row in left if judged(found[row.name], committed[row.name])]
    for row in left:
        ratio, aim = statistics.median(found[row.name]), committed[row.name]
        if ratio < aim:
            print(f"lost: {row.name}, {ratio / aim:.2f} of the committed figure")
        else:
            print(f"gained: {row.name}, raise the committed figure from {aim:.3g} to {ratio:.3g}")
    return int(any(statistics.median(found[row.name]) < committed[row.name] for row in left))


def propose(rows: Sequence[Row], figures: dict[str, dict[str, Any]]) -> None:
    """Write the figures with those of ``rows`` measured anew."""
    today = datetime.datetime.now(datetime.UTC).date()
    for row in rows:
        ratio = statistics.median(measure(row)[0] for _ in range(REPETITIONS))
        print(f"{row.name:33}{ratio:7.3g}", flush=True)
        figures[row.name] = {"ratio": float(f"{ratio:.3g}"), "date": today, "on": here()}
    line = '"{}" = {{ ratio = {ratio}, date = {date}, on = "{on}" }}'
    lines = [line.format(name, **figure) for name, figure in figures.items()]
    COMMITTED.write_text(HEAD + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="rows with this in their name")
    parser.add_argument("--write", action="store_true", help="write what is measured to speed.toml")
    arguments = parser.parse_args()
    began = time.perf_counter()
    import speed_rows

    every = speed_rows.rows()
    ready = time.perf_counter()
    rows = [row for row in every if arguments.only in row.name]
    figures = tomllib.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    if arguments.write:
        propose(rows, {row.name: figures[row.name] for row in every if row.name in figures})
        return
    names = {row.name for row in every}
    if odd := names ^ figures.keys():
        sys.exit(f"speed: speed.toml and speed_rows.py do not both have {sorted(odd)}: --write")
    status = check(rows, {name: figure["ratio"] for name, figure in figures.items()})
    if others := {figures[row.name]["on"] for row in rows} - {here()}:
        print(f"committed figures are of {', '.join(sorted(others))}; this is {here()}")
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(
        f"CPU time, medians of {ROUNDS} rounds; {ready - began:.0f} s to get ready and "
        f"{time.perf_counter() - ready:.0f} s to measure; load {load}"
    )
    sys.exit(status)


if __name__ == "__main__":
    main()
