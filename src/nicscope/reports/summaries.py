"""Summaries of one to three sentences for each kind of result, with its tables' numbers.

A number is spelt as the tables spell it, so whoever reads on finds it again.  What has no price is
said to have none, and prices of different machines are not compared without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.wording import in_words, listed, significant, whole

if TYPE_CHECKING:
    from nicscope.studies.programs import ProgramRuns
    from nicscope.studies.reproduce.verdict import Reproduction
    from nicscope.studies.simulating import Simulated, TraceSimulation


PS_PER_US = 10**6
PLACES = ("first", "second", "third")  # of runs, one sentence each


def of_simulation(found: TraceSimulation) -> list[str]:
    """Time per request, and its largest part."""
    ordered = sorted(found.found, key=lambda each: _request_ps(each))
    first, last = ordered[0], ordered[-1]
    lasts = f"{_us(last, last.busy_ps)} us, {_most(last)}"
    if len(ordered) == 1:
        return [f"A request takes {lasts}, under {_name(last)}."]
    sentences = [
        f"A request takes least under {_name(first)}, {_us(first, first.busy_ps)} us, "
        f"{_most(first)}; and most under {_name(last)}, {lasts}."
    ]
    if len({each.platform for each in ordered}) > 1:
        sentences.append("They are on several machines; --platform NAME takes one for all.")
    return sentences


def _name(each: Simulated) -> str:
    return each.design.name


def _request_ps(each: Simulated) -> float:
    return each.busy_ps / max(each.requests, 1)


def _us(each: Simulated, ps: int) -> str:
    return significant(ps / (PS_PER_US * max(each.requests, 1)))


def _most(each: Simulated) -> str:
    part, ps = max(each.times_ps.items(), key=lambda item: item[1])
    return f"of which {_us(each, ps)} go to '{part}', the largest part"


def of_program(found: ProgramRuns) -> list[str]:
    """What arrived and how long that took, for each run."""
    sentences = []
    for place, run in zip(PLACES, found.runs, strict=False):
        work = run.total
        where = "On" if len(found.runs) == 1 else f"In the {place} run, on"
        told = (
            f"{where} {run.platform}, {in_words(work.messages_in, 'message')} with "
            f"{whole(work.bytes_in)} bytes came in within {run.elapsed_us:,.1f} us of virtual time"
        )
        if work.lookups is not None and work.misses is not None and work.lookups.total:
            looked, missed = work.lookups.total, work.misses.total
            told += f"; of {whole(looked)} lookups on NICs {whole(missed)} missed"
        sentences.append(f"{told}.")
    if len(found.runs) > len(PLACES):
        sentences.append("Tables of all runs follow.")
    return sentences


def of_reproduction(found: Reproduction) -> list[str]:
    """How many printed numbers and statements come out."""
    counts = found.summary()
    parts = []
    if counts.points:
        parts.append(f"{counts.ok} of {counts.points} printed numbers come out within tolerance")
    if counts.shapes:
        parts.append(f"{counts.shapes_ok} of {counts.shapes} statements hold")
    if not parts:
        if not found.tables:
            return []
        names = listed([f"{table.paper}/{table.id}" for table in found.tables])
        return [f"{names} over traces that are not the papers' own: there is nothing to check."]
    told = f"{' and '.join(parts)}; what is arithmetic on printed numbers alone is not counted."
    missed = f"{counts.known_misses} misses are known and explained below, {counts.new_misses} new."
    return [f"{told[0].upper()}{told[1:]}", missed]
