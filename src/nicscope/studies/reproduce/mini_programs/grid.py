"""All runs of miNI's Figures 6 and 7: each program with 36 caches and with static tables."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from nicscope.studies.reproduce.keeping import Kept, key_of_traces
from nicscope.studies.reproduce.mini_programs.runs import Program, Timed
from nicscope.studies.reproduce.mini_programs.timing import specs
from nicscope.studies.reproduce.mini_programs.worker import timed_apart
from nicscope.studies.simulating import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from nicscope.studies.reproduce.traced.applications import Application
    from nicscope.studies.reproduce.traced.measuring import Spec
    from nicscope.studies.reproduce.traced.workloads import Ran

    Work = Callable[[Path, Sequence[Spec], int], Iterator[tuple[Spec, Timed]]]

WORKERS = min(os.cpu_count() or 1, 2)  # at once: each has the memory of four hosts


def time_programs(
    applications: Sequence[Application],
    ran: Ran,
    watch: Callable[[int, int], None] | None = None,
    kept: Kept | None = None,
    work: Work = timed_apart,
) -> Mapping[str, Program]:
    """All runs of each application.

    What ``kept`` has is not run again; a run is kept by what its program trace holds and by its
    design as soon as it is over.  ``watch`` hears how many runs are over of how many.
    Errors: ``TraceError`` for a program trace that cannot be read, and those of ``time_cache``.
    """
    kept = Kept() if kept is None else kept
    asked = specs(ran.reduction)
    done, every = 0, len(asked) * len(applications)

    def over(runs: int) -> None:
        nonlocal done
        done += runs
        if watch is not None:
            watch(done, every)

    return {one.name: _time(one, asked, kept, over, work) for one in applications}


def _time(
    one: Application, asked: Sequence[Spec], kept: Kept, over: Callable[[int], None], work: Work
) -> Program:
    from nicscope.studies.timing import program_of
    from nicscope.traces.programs.reader import read_program

    assert one.program is not None
    alone_ps = program_of(read_program(one.program)).compute_ps
    content = key_of_traces(["timed"], [(one.name, one.program)])
    before = {spec: kept.get(_key(content, spec)) for spec in asked}
    found = {spec: Timed.of_json(told) for spec, told in before.items() if told is not None}
    over(len(found))
    todo = [spec for spec in asked if spec not in found]
    # Static tables run first: by them one sees what is wrong with a program.
    for spec, timed in work(one.program, todo, WORKERS) if todo else ():
        kept.put(_key(content, spec), timed.to_json())
        found[spec] = timed
        over(1)
    static, *caches = (found[spec] for spec in asked)
    return Program(alone_ps / PS_PER_S, static, caches)


def _key(content: str | None, spec: Spec) -> str:
    return json.dumps([content, *spec])
