"""miNI's Figures 5 to 7 and what its misses take: eight programs with each cache of Table III.

A timed run keeps the interpreter to itself, so each runs in another process: ``python -m
nicscope.studies.reproduce.traced.mini`` answers each line, a program and a design, with a line,
until its input ends.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import signal
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope import errors
from nicscope.studies.reproduce.keeping import Kept, key_of_traces
from nicscope.studies.reproduce.traced.measuring import (
    Findings,
    Shown,
    Spec,
    Study,
    per_lookup,
    reduced,
)
from nicscope.studies.simulating import (
    PS_PER_S,
    PS_PER_US,
    choose_runnable,
    program_of,
    time_design,
)
from nicscope.studies.workers import Stopped, threaded
from nicscope.traces.programs.reader import read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.traced.program import Program as ProgramRows
    from nicscope.studies.reproduce.traced.programs import Application, Ran
    from nicscope.studies.reproduce.verdict import Outcome, Row

    Rows = Mapping[str, Sequence[Row]]  # of each program, by ``POINTS``
    Grid = NDArray[np.float64]  # by size, line and ways
    Work = Callable[[Path, Sequence[Spec], int], Iterator[tuple[Spec, "Timed"]]]


CACHE_ENTRIES = (8192, 16384, 32768)
LINES = (8, 16, 64, 128)  # entries
WAYS = (2, 4, 8)
AXES = ("cache_entries", "line_entries", "ways")
POINTS = tuple(product(CACHE_ENTRIES, LINES, WAYS))
OF_SIZE = len(LINES) * len(WAYS)  # points
ENDS = tuple(1 + OF_SIZE * (size + 1) for size in range(len(CACHE_ENTRIES)))  # behind static tables
SHAPE = (len(CACHE_ENTRIES), len(LINES), len(WAYS))
C8, C16, C32 = range(3)
L8, L16, L64, L128 = range(4)
A2, A4, A8 = range(3)
PARTS = ("send_cold", "send_noncold", "receive_cold", "receive_noncold")
ALL = "misses_percent"
SMALL = ("WaterNsquared", "WaterSpatial", "Ocean", "Raytrace", "Volrend")
LARGE = ("FFT", "LUContiguous", "Radix")
EIGHT = (*SMALL, *LARGE)
BEST = (16384, 64, 4)


def designs(page_size: int) -> Mapping[Hashable, Spec]:  # noqa: ARG001 - no limit in pages
    """A design for each point of the sweep."""
    return {
        (entries, line, ways): ("mini", f"entries={entries}", f"line={line}", f"ways={ways}")
        for entries, line, ways in POINTS
    }


def miss_rows(found: Findings) -> list[Row]:
    """One row per point; the four parts add up to all misses."""
    listed = []
    for point in POINTS:
        counts = {}
        for path in ("send", "receive"):
            cold = found.total(point, f"ni_misses_{path}_compulsory")
            counts[f"{path}_cold_percent"] = cold
            counts[f"{path}_noncold_percent"] = found.total(point, f"ni_misses_{path}") - cold
        counts[ALL] = found.total(point, "ni_misses")
        lookups = found.measured.lookups
        shares = {name: 100 * per_lookup(count, lookups) for name, count in counts.items()}
        listed.append({**dict(zip(AXES, point, strict=True)), **shares})
    return listed


PLATFORM = "mini-cluster"
PAGE = 4096
STATIC_ENTRIES = 65536  # of the tables that the caches replace (Figure 3)
STATIC: Spec = ("vmmc-static", f"entries={STATIC_ENTRIES}")
PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
DELAY_US, PROCESSING_US = (0.0, 50.0), (5.0, 500.0)  # as printed
SLACK_US = 1e-6  # of adding floats
WORKERS = min(os.cpu_count() or 1, 2)  # at once: each has up to 0.4 GB
WORKER = "nicscope.studies.reproduce.traced.mini"


class Distribution(NamedTuple):
    """Times of a run's misses, in us."""

    many: int
    mean: float
    in_range: int  # how many lie in the range that the paper prints
    percentiles: tuple[float | None, ...]  # by ``PERCENTILES``; None of no misses


NO_MISSES = Distribution(0, 0.0, 0, (None,) * len(PERCENTILES))


def distribution(times_us: NDArray[np.float64], printed: tuple[float, float]) -> Distribution:
    """How ``times_us`` are distributed, and how many lie in the range that is ``printed``."""
    if not len(times_us):
        return NO_MISSES
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
    first_misses: int  # of lines that were not looked up before
    delays: Distribution
    processings: Distribution


class TimedProgram(NamedTuple):
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
        total["ni_misses_compulsory"] or 0,
        distribution(misses_us[:, 0], DELAY_US),
        distribution(misses_us[:, 1], PROCESSING_US),
    )


@contextlib.contextmanager
def timing_apart() -> Iterator[Work]:
    """Yield what times programs in other processes, which begin with the first and then stay.

    It yields each design with what the run comes to, in the order of finishing.  Errors: those of
    ``time_cache``, and ``TraceError`` for a program that cannot be read.  Whatever ends the block
    ends the processes.
    """
    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        begun = 0

        def work(
            program: Path, asked: Sequence[Spec], workers: int
        ) -> Iterator[tuple[Spec, Timed]]:
            nonlocal begun
            for _ in range(begun, min(workers, len(asked))):
                idle.put(stack.enter_context(_process()))
                begun += 1

            def one(spec: Spec, stop: Callable[[], bool]) -> Timed:
                if stop():
                    raise Stopped
                process = idle.get()
                try:
                    return _ask(process, program, spec)
                finally:
                    idle.put(process)

            yield from threaded(asked, one, workers)

        yield work


@contextlib.contextmanager
def _process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", WORKER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str], program: Path, spec: Spec) -> Timed:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: its answer says so
        print(json.dumps([str(program), spec]), file=process.stdin, flush=True)
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
    work: Work | None = None,
) -> Mapping[str, TimedProgram]:
    """All runs of each application; ``work`` does them, by default in processes of their own.

    What ``kept`` has is not run again; a run is kept by what its program trace holds and by its
    design as soon as it is over.  Where each line misses once, a larger cache with such lines and
    as many ways makes the same run: its sets are parts of the smaller one's, so that what hits
    there hits here.  ``watch`` hears how many runs are over of how many.
    Errors: ``TraceError`` for a program trace that cannot be read, and those of ``time_cache``.
    """
    if work is None:
        with timing_apart() as work:
            return time_programs(applications, ran, watch, kept, work)
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
        smaller = dict(zip(asked[1 + OF_SIZE :], asked[1:], strict=False))
        # Static tables run first: by them one sees what is wrong with a program.
        for begin, end in zip((0, *ENDS), ENDS, strict=False):
            for spec in asked[begin:end]:
                run = found.get(smaller.get(spec, ()))
                if spec not in found and run is not None and run.misses == run.first_misses:
                    found[spec] = run
                    over(1)
            todo = [spec for spec in asked[begin:end] if spec not in found]
            for spec, timed in work(one.program, todo, WORKERS) if todo else ():
                kept.put(keys[spec], msgspec.to_builtins(timed))
                found[spec] = timed
                over(1)
        static, *caches = (found[spec] for spec in asked)
        programs[one.name] = TimedProgram(alone_ps / PS_PER_S, static, caches)
    return programs


def answer_all() -> None:
    """Answer every line of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked ends this
    read = functools.lru_cache(1)(lambda program: program_of(read_program(program)))
    for line in sys.stdin:
        program, spec = json.loads(line)
        try:
            timed = time_cache(read(program), tuple(spec))
            answer: dict[str, Any] = {"timed": msgspec.to_builtins(timed)}
        except errors.NicscopeError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps(answer), flush=True)


def timed_rows(found: Findings) -> list[Row]:
    """One row per cache, of timed runs."""
    assert found.measured.timed is not None
    return found.measured.timed


def stated(fill: Callable[[Outcome, Rows], None]) -> Callable[[Outcome, Shown], None]:
    """Have ``fill`` hold its statements, which mean nothing but at the paper's sizes."""

    def state(outcome: Outcome, shown: Shown) -> None:
        if shown.are_the_papers:
            fill(outcome, shown.by_application())

    return state


def grid(rows: Sequence[Row], measure: str) -> Grid:
    """A measure of a program by size, line and ways."""
    return np.array([row[measure] for row in rows], dtype=np.float64).reshape(SHAPE)


def cache_of(place: int | np.intp) -> str:
    """The cache at a place of ``POINTS``, as the paper names it: C16 L64 A4."""
    entries, line, ways = POINTS[place]
    return f"C{entries >> 10} L{line} A{ways}"


def listed(numbers: Mapping[str, float], form: str) -> str:
    """Of each program its number."""
    return ", ".join(f"{name} {form.format(number)}" for name, number in numbers.items())


MOST = 5  # of the eight
ABOUT_40, AS_FAR_BELOW = 44.0, 36.0  # per 100 lookups
UNDER_2 = 2.5  # which is printed as 2
TWICE = 2.0


def figure5(outcome: Outcome, rows: Rows) -> None:
    """Every statement of Figure 5: miss ratios."""
    ratios = {name: grid(rows[name], ALL) for name in EIGHT}
    highest = {name: float(each.max()) for name, each in ratios.items()}
    worst = max(highest, key=highest.__getitem__)
    told = f"{worst} {highest[worst]:.1f} % in {cache_of(ratios[worst].argmax())}"
    outcome.shape("nothing-over-40", highest[worst] <= ABOUT_40, told)
    outcome.shape("forty-is-reached", highest[worst] >= AS_FAR_BELOW, told)
    for name in SMALL:
        told = f"{ratios[name].min():.2g} to {highest[name]:.2g} %"
        outcome.shape(f"small-{name.lower()}", highest[name] < UNDER_2, told)
    means = {name: float(each.mean()) for name, each in ratios.items()}
    outcome.shape(
        "large-group-misses-more",
        min(means[name] for name in LARGE) > max(means[name] for name in SMALL),
        listed(means, "{:.2g} %"),
    )
    by_line = {name: each.mean(axis=(0, 2)) for name, each in ratios.items()}
    _most(outcome, "longer-lines-help", by_line, lambda line: (np.diff(line) < 0).all(), ".2g")
    by_ways = {name: each.mean(axis=(0, 1)) for name, each in ratios.items()}
    _most(outcome, "four-ways-help", by_ways, lambda ways: ways[A4] < ways[A2], ".3g")

    rest = [f"{part}_percent" for part in PARTS if part.endswith("noncold")]
    not_cold = sum((grid(rows["Ocean"], part) for part in rest), np.zeros(SHAPE))
    short, long = not_cold[:, L16], not_cold[:, L128]
    told = "; ".join(
        f"C{entries >> 10} {', '.join(f'{a:.2g} to {b:.2g}' for a, b in zip(*pair, strict=True))} %"
        for entries, *pair in zip(CACHE_ENTRIES, short, long, strict=True)
    )
    doubled = long > TWICE * short
    outcome.shape("ocean-conflicts-in-long-lines", bool(doubled[[C8, C16]].all()), told)
    outcome.shape("ocean-is-well-with-32k", not doubled[C32, A4], told)
    for name, called in (("FFT", "fft"), ("LUContiguous", "lu")):
        half, whole = ratios[name][C16, L128], ratios[name][C32, L128]
        outcome.shape(
            f"{called}-halves-at-32k",
            bool((half > TWICE * whole).all()),
            "; ".join(
                f"A{ways} {a:.3g} to {b:.3g} %"
                for ways, a, b in zip(WAYS, half, whole, strict=True)
            ),
        )

    every = slice(None)
    for name, form, *taken in (
        (
            "size-matters-with-long-lines",
            "{:.0f} % with lines of 128, {:.0f} % with lines of 8",
            ((C8, L128, A4), (C32, L128, A4)),
            ((C8, L8, A4), (C32, L8, A4)),
        ),
        (
            "eight-ways-help-less",
            "{:.2g} % to 4, {:.2g} % to 8",
            ((every, every, A2), (every, every, A4)),
            ((every, every, A4), (every, every, A8)),
        ),
        (
            "ways-matter-in-small-caches",
            "{:.2g} % of 8 K entries, {:.2g} % of 32 K",
            ((C8, every, A2), (C8, every, A4)),
            ((C32, every, A2), (C32, every, A4)),
        ),
    ):
        more, less = (_taken(ratios, *ends) for ends in taken)
        outcome.shape(name, more > less, form.format(100 * more, 100 * less))


def _most(
    outcome: Outcome, name: str, means: Mapping[str, Grid], helps: Callable[[Grid], Any], form: str
) -> None:
    """The statement holds if ``helps`` does of most programs."""
    better = [one for one, each in means.items() if helps(each)]
    told = "; ".join(
        f"{one} {', '.join(f'{number:{form}}' for number in each)} %" for one, each in means.items()
    )
    outcome.shape(name, len(better) >= MOST, f"{len(better)} of 8; {told}")


def _taken(ratios: Mapping[str, Grid], begin: tuple[Any, ...], end: tuple[Any, ...]) -> float:
    """The share of misses that is taken away from ``begin`` to ``end``, on the mean.

    What has none at first takes no part.
    """
    shares = []
    for each in ratios.values():
        before, after = np.ravel(each[begin]), np.ravel(each[end])
        misses = before > 0
        if misses.any():
            shares.append(np.mean(1 - after[misses] / before[misses]))
    return float(np.mean(shares)) if shares else 0.0


OVER_100_PERCENT = 2.0
CLOSE, CLOSE_OF_FEW = -0.8, -0.5
SIMILAR = 5.0  # percent longer
OF_THE_BEST = 0.9
BOUND = 3.0  # percent longer
EXCEPTION = "Radix"
LARGEST = 16384  # entries of the caches beside which it is best
NEAR = 1.02


def figure6(outcome: Outcome, rows: Rows) -> None:
    """Every statement of Figure 6: speed-ups."""
    ups = {name: grid(each, "speed_up") for name, each in rows.items()}
    for name in LARGE:
        low, high = ups[name].min(), ups[name].max()
        outcome.shape(
            f"{name.lower()}-varies",
            bool(high > OVER_100_PERCENT * low),
            f"{low:.2f} in {cache_of(ups[name].argmin())} to {high:.2f} in "
            f"{cache_of(ups[name].argmax())}",
        )
    found = {name: rank_correlation(grid(each, ALL), ups[name]) for name, each in rows.items()}
    for shape, names, close in (
        ("speedup-follows-misses", LARGE, CLOSE),
        ("speedup-follows-few-misses", SMALL, CLOSE_OF_FEW),
    ):
        own = {name: found[name] for name in names}
        outcome.shape(shape, max(own.values()) <= close, listed(own, "{:.2f}"))
    # From the lowest to the highest mean by size, by line and by ways.
    changes = {
        name: [float(np.ptp(ups[name].mean(axis=rest))) for rest in ((1, 2), (0, 2), (0, 1))]
        for name in LARGE
    }
    outcome.shape(
        "line-matters-most",
        all(line > max(size, ways) for size, line, ways in changes.values()),
        "; ".join(
            f"{name} by size {size:.2f}, line {line:.2f}, ways {ways:.2f}"
            for name, (size, line, ways) in changes.items()
        ),
    )
    for name in SMALL:
        longer = float(grid(rows[name], "longer_percent")[C8].min())
        told = f"{longer:+.2f} % of time"
        outcome.shape(f"{name.lower()}-is-content-with-8k", longer <= SIMILAR, told)
    shares = {name: float(np.median(ups[name]) / ups[name].max()) for name in SMALL}
    outcome.shape(
        "the-rest-is-not-sensitive",
        min(shares.values()) >= OF_THE_BEST,
        listed({name: 100 * share for name, share in shares.items()}, "{:.1f} % of the best"),
    )


def rank_correlation(first: Grid, second: Grid) -> float:
    """Spearman's, those that are equal having their mean rank; 0 where one of both is constant."""

    def ranks(values: Grid) -> Grid:
        _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        found: Grid = ((ends - counts + ends - 1) / 2)[which]
        return found

    one, other = ranks(first.ravel()), ranks(second.ravel())
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def figure7(outcome: Outcome, rows: Rows) -> None:
    """Every statement of Figure 7: execution times beside static tables."""
    longer = {name: grid(each, "longer_percent") for name, each in rows.items()}
    least = {name: float(each.min()) for name, each in longer.items()}
    for name in EIGHT:
        told = f"{least[name]:+.2f} % in {cache_of(longer[name].argmin())}"
        if name == EXCEPTION:
            outcome.shape("radix-is-the-exception", least[name] > BOUND, told)
        else:
            outcome.shape(f"{name.lower()}-within-3", least[name] <= BOUND, told)
    outcome.shape("some-are-faster", min(least.values()) < 0, listed(least, "{:+.2f} %"))
    means = np.mean([each.ravel() for each in longer.values()], axis=0) / 100 + 1
    small = [place for place, point in enumerate(POINTS) if point[0] <= LARGEST]
    smallest = min(small, key=means.__getitem__)
    ours = means[POINTS.index(BEST)]
    outcome.shape(
        "c16-l64-a4-is-best",
        bool(ours <= NEAR * means[smallest]),
        f"{ours:.3f} of the time with static tables; {means[smallest]:.3f} in {cache_of(smallest)}",
    )


USUALLY = 0.9
DELAYS_APART, PROCESSINGS_APART = 0.1, 0.25  # from their middle
DIFFER = 1.1


def miss_penalty_of_programs(outcome: Outcome, rows: Rows) -> None:
    """Every statement of delay and processing."""
    delays, within = (
        {name: _in_range(each, kind) for name, each in rows.items()}
        for kind in ("delay", "processing")
    )
    outcome.shape(
        "delay-is-usually-under-50",
        min(delays.values()) >= USUALLY,
        listed({name: 100 * share for name, share in delays.items()}, "{:.1f} %"),
    )
    told = []
    for name, each in rows.items():
        ends = [
            [row[f"processing_p{end}_us"] for row in each if row["processing_misses"]]
            for end in (0, 100)
        ]
        span = f"{min(ends[0]):.1f} to {max(ends[1]):.1f} us" if ends[0] else "no misses"
        told.append(f"{name} {span}")
    outcome.shape("processing-within-5-to-500", min(within.values()) == 1, "; ".join(told))
    for kind, apart in (("delay", DELAYS_APART), ("processing", PROCESSINGS_APART)):
        off = {name: _apart(each, kind) for name, each in rows.items()}
        outcome.shape(
            f"{kind}-whatever-the-cache",
            max(off.values()) <= apart,
            listed({name: 100 * share for name, share in off.items()}, "to {:.0f} %"),
        )
    best = {name: each[POINTS.index(BEST)] for name, each in rows.items()}
    means = {
        name: (row["delay_mean_us"] or 0.0) + (row["processing_mean_us"] or 0.0)
        for name, row in best.items()
        if row["misses"]
    }
    outcome.shape(
        "programs-differ",
        bool(means) and max(means.values()) >= DIFFER * min(means.values()),
        listed(means, "{:.1f} us"),
    )


def _in_range(rows: Sequence[Row], kind: str) -> float:
    """Of all misses of a program's caches, how many lie in the printed range; all of none."""
    many = sum(row[f"{kind}_misses"] for row in rows)
    return sum(row[f"{kind}_in_range"] for row in rows) / many if many else 1.0


def _apart(rows: Sequence[Row], kind: str) -> float:
    """How far the mean of a cache is at most from the middle of all means, as a share of it."""
    means = np.array([row[f"{kind}_mean_us"] for row in rows if row[f"{kind}_misses"]])
    if not len(means):
        return 0.0
    middle = (means.min() + means.max()) / 2
    return float((means.max() - middle) / middle) if middle else 0.0


FIGURE5 = Study(designs=designs, rows=miss_rows, state=stated(figure5))
FIGURE6 = Study(rows=timed_rows, state=stated(figure6))
FIGURE7 = Study(rows=timed_rows, state=stated(figure7))
MISS_PENALTY_OF_PROGRAMS = Study(rows=timed_rows, state=stated(miss_penalty_of_programs))


if __name__ == "__main__":
    answer_all()
