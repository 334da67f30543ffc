"""Programs of miNI's figures timed with each cache of Table III, and with static tables.

A run keeps the interpreter to itself, so each has a process of its own: ``python -m
nicscope.studies.reproduce.traced.timed_runs PROGRAM`` times that program's runs: it answers each
line, a design, with a line, until its input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope import errors
from nicscope.studies.reproduce.keeping import Kept, key_of_traces
from nicscope.studies.reproduce.traced.measuring import Spec, reduced
from nicscope.studies.reproduce.traced.mini import AXES, POINTS, designs
from nicscope.studies.simulating import PS_PER_S, PS_PER_US, choose_runnable
from nicscope.studies.timing import program_of, time_design
from nicscope.studies.workers import Stopped, threaded
from nicscope.traces.programs.reader import read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.traced.program import Program as ProgramRows
    from nicscope.studies.reproduce.traced.programs import Application
    from nicscope.studies.reproduce.traced.workloads import Ran
    from nicscope.studies.reproduce.verdict import Row

    Work = Callable[[Path, Sequence[Spec], int], Iterator[tuple[Spec, "Timed"]]]


PLATFORM = "mini-cluster"
PAGE = 4096
STATIC_ENTRIES = 65536  # of the tables that the caches replace (Figure 3)
STATIC: Spec = ("vmmc-static", f"entries={STATIC_ENTRIES}")
PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
DELAY_US, PROCESSING_US = (0.0, 50.0), (5.0, 500.0)  # as printed
SLACK_US = 1e-6  # of adding floats
WORKERS = min(os.cpu_count() or 1, 2)  # at once: each has the memory of four hosts
WORKER = "nicscope.studies.reproduce.traced.timed_runs"


class Distribution(NamedTuple):
    """Times of a run's misses, in us."""

    many: int
    mean: float
    in_range: int  # how many lie in the range that the paper prints
    percentiles: tuple[float | None, ...]  # by ``PERCENTILES``; None of no misses


NONE = Distribution(0, 0.0, 0, (None,) * len(PERCENTILES))


def distribution(times_us: NDArray[np.float64], printed: tuple[float, float]) -> Distribution:
    """How ``times_us`` are distributed, and how many lie in the range that is ``printed``."""
    if not len(times_us):
        return NONE
    low, high = printed[0] - SLACK_US, printed[1] + SLACK_US
    return Distribution(
        len(times_us),
        float(times_us.mean()),
        int(((low <= times_us) & (times_us <= high)).sum()),
        tuple(np.percentile(times_us, PERCENTILES).tolist()),
    )


class Timed(NamedTuple):
    """What a run came to, on eight processors."""

    seconds: float
    lookups: int
    misses: int
    delays: Distribution
    processings: Distribution


class Program(NamedTuple):
    """All runs of a program."""

    alone_seconds: float  # on one processor: what its processes compute, all together
    static: Timed
    caches: Sequence[Timed]  # by ``POINTS``

    def rows(self) -> list[Row]:
        """A line of plain values for each cache, without the program's name."""
        static_s, alone_s = self.static.seconds, self.alone_seconds
        listed = []
        for point, run in zip(POINTS, self.caches, strict=True):
            row: Row = {
                **dict(zip(AXES, point, strict=True)),
                "seconds": run.seconds,
                "static_seconds": static_s,
                "alone_seconds": alone_s,
                "speed_up": alone_s / run.seconds,
                "static_speed_up": alone_s / static_s,
                "longer_percent": 100 * (run.seconds / static_s - 1),
                "lookups": run.lookups,
                "misses": run.misses,
                "misses_percent": 100 * run.misses / run.lookups if run.lookups else 0.0,
            }
            for kind, times in (("delay", run.delays), ("processing", run.processings)):
                row[f"{kind}_misses"] = times.many
                row[f"{kind}_in_range"] = times.in_range
                row[f"{kind}_mean_us"] = times.mean if times.many else None
                for share, time in zip(PERCENTILES, times.percentiles, strict=True):
                    row[f"{kind}_p{share}_us"] = time
            listed.append(row)
        return listed


def specs(reduction: int) -> list[Spec]:
    """Static tables, and each cache of Table III so many times smaller."""
    return [STATIC, *(reduced(designs(PAGE)[point], reduction) for point in POINTS)]


def time_cache(program: ProgramRows, spec: Spec) -> Timed:
    """What a run of ``program`` comes to.  Errors: as ``time_design``."""
    name, *assignments = spec
    [subject], _ = choose_runnable([name], PLATFORM, assignments)
    found = time_design(program, PAGE, subject, kinds=False)
    total, misses_us = found.total, found.outcome.misses_ps / PS_PER_US
    return Timed(
        found.elapsed_ps / PS_PER_S,
        total["lookups"] or 0,
        total["ni_misses"] or 0,
        distribution(misses_us[:, 0], DELAY_US),
        distribution(misses_us[:, 1], PROCESSING_US),
    )


def timed_apart(program: Path, asked: Sequence[Spec], workers: int) -> Iterator[tuple[Spec, Timed]]:
    """Yield each design with what the run of ``program`` comes to, in the order of finishing.

    Errors: those of ``time_cache``.  Whatever ends it ends the processes.
    """
    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        for _ in range(min(workers, len(asked))):
            idle.put(stack.enter_context(_process(program)))

        def work(spec: Spec, stop: Callable[[], bool]) -> Timed:
            if stop():
                raise Stopped
            process = idle.get()
            try:
                return _ask(process, spec)
            finally:
                idle.put(process)

        yield from threaded(asked, work, workers)


@contextlib.contextmanager
def _process(program: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", WORKER, str(program)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str], spec: Spec) -> Timed:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: its answer says so
        print(json.dumps(spec), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the process that timed {' '.join(spec)} ended")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        kind: type[Exception] = getattr(errors, answer["kind"])
        raise kind(answer["error"])
    return msgspec.convert(answer["timed"], Timed)


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

    programs = {}
    for one in applications:
        assert one.program is not None
        alone_ps = program_of(read_program(one.program)).compute_ps
        content = key_of_traces(["timed"], [(one.name, one.program)])
        keys = {spec: json.dumps([content, *spec]) for spec in asked}
        before = {spec: kept.get(key) for spec, key in keys.items()}
        found = {
            spec: msgspec.convert(told, Timed) for spec, told in before.items() if told is not None
        }
        over(len(found))
        todo = [spec for spec in asked if spec not in found]
        # Static tables run first: by them one sees what is wrong with a program.
        for spec, timed in work(one.program, todo, WORKERS) if todo else ():
            kept.put(keys[spec], msgspec.to_builtins(timed))
            found[spec] = timed
            over(1)
        static, *caches = (found[spec] for spec in asked)
        programs[one.name] = Program(alone_ps / PS_PER_S, static, caches)
    return programs


def answer_all(program: str) -> None:
    """Answer every line of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked ends this
    rows = program_of(read_program(program))
    for line in sys.stdin:
        try:
            timed = time_cache(rows, tuple(json.loads(line)))
            answer: dict[str, Any] = {"timed": msgspec.to_builtins(timed)}
        except errors.NicscopeError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    answer_all(sys.argv[1])
