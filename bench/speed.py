"""Did nicscope get slower?  Its speed over that of what stays as it is, held against speed.toml.

    python bench/speed.py [--only WORD] [--write]

A ratio is CPU seconds of what stands beside nicscope over those of nicscope, run in turns: the
median of some rounds, and half their range.  A row that is off by more than a fifth is measured
again, twice at most.  If it is slower by that each time, it is lost (exit status 1); if it is
faster by that each time, the figure is to be raised.  Figures are those of one kind of processor
and one Python: on another, what is measured is only printed.  ``--write`` puts what it measures
into speed.toml.
"""

from __future__ import annotations

import argparse
import datetime
import os
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
# `make speed` holds its ratios against.  Written by `python bench/speed.py --write`, where nothing
# else runs.
"""
ROUNDS = 7
REPETITIONS = 3
OFF = 0.2
LINE = "{:33}{:13}{:>7}{:>8}{:>11}{:>7}"


def here() -> str:
    """What figures depend on: the compiler's name of the processor, and Python."""
    from llvmlite import binding

    return (
        f"{binding.get_host_cpu_name()}, Python {sys.version_info.major}.{sys.version_info.minor}"
    )


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
            aim = committed.get(row.name)
            beside = ("", "") if aim is None else (f"{aim:.3g}", f"{ratio / aim:.2f}")
            numbers = (f"{ratio:.3g}", f"{spread:.2g}", *beside)
            print(LINE.format(row.name, row.beside, *numbers).rstrip(), flush=True)
        left = [
            row
            for row in left
            if row.name in committed and judged(found[row.name], committed[row.name])
        ]
    for row in left:
        ratio, aim = statistics.median(found[row.name]), committed[row.name]
        if ratio < aim:
            print(f"lost: {row.name}, {ratio / aim:.2f} of the committed figure")
        else:
            print(f"gained: {row.name}, raise the committed figure from {aim:.3g} to {ratio:.3g}")
    return int(any(statistics.median(found[row.name]) < committed[row.name] for row in left))


def propose(rows: Sequence[Row], figures: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Write ``figures`` with those of ``rows`` measured anew, here."""
    today = datetime.datetime.now(datetime.UTC).date()
    for row in rows:
        ratio = statistics.median(measure(row)[0] for _ in range(REPETITIONS))
        print(f"{row.name:33}{ratio:7.3g}", flush=True)
        new = {"ratio": float(f"{ratio:.3g}"), "date": today}
        figures.setdefault(here(), {})[row.name] = new
    text = HEAD
    for place, ratios in figures.items():
        text += f'\n["{place}"]\n'
        for name, figure in ratios.items():
            text += '"{}" = {{ ratio = {ratio}, date = {date} }}\n'.format(name, **figure)
    COMMITTED.write_text(text)


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
    figures = tomllib.loads(COMMITTED.read_text())
    if arguments.write:
        propose(rows, figures)
        return
    committed = {name: figure["ratio"] for name, figure in figures.get(here(), {}).items()}
    if committed and committed.keys() != {row.name for row in every}:
        odd = sorted(committed.keys() ^ {row.name for row in every})
        sys.exit(f"speed: not in both speed.toml and speed_rows.py: {', '.join(odd)}")
    status = check(rows, committed)
    if not committed:
        print(f"nothing judged: no figures for {here()}, python bench/speed.py --write adds them")
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(
        f"CPU time, medians of {ROUNDS} rounds; {ready - began:.0f} s to get ready and "
        f"{time.perf_counter() - ready:.0f} s to measure; load {load}"
    )
    sys.exit(status)


if __name__ == "__main__":
    main()
