"""The papers' programs, at which sizes and where they run, and traces as applications.

``SMALL`` sizes are another experiment than the paper's: the caches and pin limits that a study sets
are made smaller with them, by the workload's ``reduction``.  ``PAPER`` sizes are the paper's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import StudyError, TraceError, printable
from nicscope.inputs import STDIN
from nicscope.kernel import store
from nicscope.kernel.fingerprint import package_stamp
from nicscope.studies.applications import (
    PHASES,
    placed,
    run_application,
    write_application_program,
    write_requests,
)
from nicscope.studies.workers import Alone, LocalWorkers, Task, worker_count
from nicscope.traces.programs.schema import ENDING as PROGRAM_ENDING
from nicscope.traces.reader import Trace, open_trace
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.verdict import Item


SMALL, PAPER, NONE = "small", "paper", "none"
SIZES = (SMALL, PAPER, NONE)


class Program(NamedTuple):
    """A program of a paper's tables, and its two sizes."""

    label: str  # as the paper has it in its tables
    name: str  # as ``nicscope apps`` has it
    small: str
    paper: str
    inputs: Mapping[str, int] = {}  # what else a small one is asked for

    def size(self, programs: str) -> str:
        """How large it is among ``programs``."""
        return self.paper if programs == PAPER else self.small


class Workload(NamedTuple):
    """The programs of a paper and where they run."""

    programs: tuple[Program, ...]
    nodes: int
    processes: int  # of each node
    reduction: int  # the paper's caches and pin limits over those beside ``SMALL`` sizes
    # Whether their requests are GeNIMA's, where nobody at the other end takes part: what its
    # interface looks up is in their traces then, and their programs are kept beside them.
    is_direct: bool = False


WORKLOADS = {
    # About a quarter of the pages that a node uses at the paper's sizes, of Raytrace an eleventh.
    "utlb": Workload(
        (
            Program("Barnes", "barnes", "8K", "32K"),
            Program("FFT", "fft", "1M", "4M", {"forth_and_back": 1}),
            Program("LU", "lu", "2K", "4K"),
            Program("Radix", "radix", "1M", "4M"),
            Program("Raytrace", "raytrace", "64", "256", {"primitives": 27_000}),
            Program("Volrend", "volrend", "128", "256", {"slices": 64}),
            Program("Water", "water-spatial", "2744", "15625", {"steps": 1}),
        ),
        nodes=4,
        processes=4,
        reduction=4,
    ),
    # No size is printed but "the largest problem set size permitted by the 2-GByte address space"
    # (V), on hosts of 512 MB.  So: the largest of a program's own steps (powers of two; of four for
    # FFT's points; cubes for Water; the original images) that takes no more than 2 GB, that no
    # node's static table of 65,536 entries is too small for (Figure 3), and that runs here in two
    # minutes.  The next step would be: FFT 64M and LU 8K too many entries, Radix 64M, Ocean 2050,
    # Water, Raytrace and Volrend too long.
    "mini": Workload(
        (
            Program("FFT", "fft", "1M", "16M"),
            Program("LUContiguous", "lu", "1K", "4K"),
            Program("Ocean", "ocean", "130", "1026"),
            Program("Radix", "radix", "1M", "32M"),
            Program("Raytrace", "raytrace", "64", "256"),
            Program("Volrend", "volrend", "64", "256"),
            Program("WaterNsquared", "water-nsquared", "512", "8000"),
            Program("WaterSpatial", "water-spatial", "1000", "15625"),
        ),
        nodes=4,
        processes=2,
        reduction=8,
        is_direct=True,  # GeNIMA is what the paper runs on (V, [23])
    ),
}


class Ran(NamedTuple):
    """Programs of a paper that were run for its studies."""

    programs: str  # SMALL or PAPER
    reduction: int  # of caches and pin limits

    @property
    def are_the_papers(self) -> bool:
        """Whether they have the paper's problem sizes."""
        return self.programs == PAPER


def ran(paper: str, programs: str) -> Ran:
    """What is known of the programs of ``paper`` before they run."""
    return Ran(programs, 1 if programs == PAPER else WORKLOADS[paper].reduction)


ENDING = ".parquet"
ENDINGS = (ENDING, ".jsonl")  # the latter of public traces


class Application(NamedTuple):
    """A trace under the name of its row or column."""

    name: str
    trace: Trace
    command: str | None = None  # that makes the same trace, of a program that was run for it
    program: Path | None = None  # what its processes did and waited for, where that is timed


def trace_files(given: Path) -> list[Path]:
    """The traces in the folder ``given``, by name; a file is its own.

    Errors: ``TraceError`` if there is no such folder or no trace in it.
    """
    if str(given) == STDIN:
        return [given]
    if not given.exists():
        raise TraceError(f"{given}: no such folder; name one that holds traces")
    if not given.is_dir():
        return [given]
    try:
        names = sorted(given.iterdir())
    except OSError as error:
        raise TraceError(f"{given}: cannot be read: {error.strerror}") from error
    found = [path for path in names if path.suffix in ENDINGS and not path.name.startswith(".")]
    if not found:
        raise TraceError(
            f"{given}: holds no traces (*{ENDING}); convert or record some, or name another folder"
        )
    return found


def open_applications(files: Sequence[Path]) -> list[Application]:
    """An application for each of ``files``, named as its file, in their order.

    Errors: ``TraceError`` naming the first file that cannot be read, ``StudyError`` if two files
    have the same name.
    """
    found: dict[str, Application] = {}
    for path in files:
        name = "stdin" if str(path) == STDIN else printable(path.stem)
        if name in found:
            raise StudyError(f"{path}: there is another {name!r} already; rename one of them")
        found[name] = Application(name, open_trace(path))
    return list(found.values())


def claimed(application: Application, problems: Item) -> str | None:
    """The paper's application that the trace's metadata says it is; None: another program.

    Its ``origin`` must name ``application`` and ``problem`` as ``problems`` prints them: the same
    program at another size makes other traffic.
    """
    origin = application.trace.metadata.origin
    program, problem = origin.get("application"), origin.get("problem")
    printed: Mapping[str, list[str]] = problems.printed
    for name, size in zip(printed["app"], printed["problem"], strict=True):
        if program == name and problem == size:
            return name
    return None


FORMAT = 1
FOLDER = "programs"
KEPT_S = 30 * 24 * 3600  # after which a trace that nobody has asked for goes


def run_programs(
    workload: Workload,
    programs: str,
    folder: Path,
    watch: Callable[[int, int], None] | None = None,
) -> list[Application]:
    """The programs of ``workload`` as traces in ``folder``; those that are there are not run again.

    At the paper's sizes up to ``AT_ONCE`` run in worker processes; small ones, which take seconds,
    run here one after another.  ``watch`` hears how many steps are done of how many.
    Errors: those of ``run_application``.
    """
    asked = [_Asked(one, workload, programs) for one in workload.programs]
    there = [each.kept(folder) for each in asked]
    tasks = [
        Task(_record, (each, folder), PHASES)
        for each, kept in zip(asked, there, strict=True)
        if kept is None
    ]
    hands = min(len(tasks), worker_count(None, None), AT_ONCE) if programs == PAPER else 1
    if hands > 1:
        with LocalWorkers(hands) as workers:
            workers.results(sorted(tasks, key=_labour, reverse=True), watch)
    else:
        Alone().results(tasks, watch)
    listed = []
    for each, kept in zip(asked, there, strict=True):
        trace = open_trace(each.path(folder)) if kept is None else kept
        program = program_beside(each.path(folder)) if workload.is_direct else None
        listed.append(Application(each.program.label, trace, each.command, program))
    return listed


def _record(asked: _Asked, folder: Path, done: Callable[[int], None]) -> None:
    """Run a program and keep its trace; ``done`` hears of each phase."""
    asked.run(folder, lambda _done, _total: done(1))


AT_ONCE = 4  # programs: one takes up to 2 GB
# The programs that take longest at the papers' sizes, the longest last, so that it is begun first
# and no worker is left alone with it in the end.
LONGEST = ("water-spatial", "barnes", "radix", "volrend", "lu", "water-nsquared", "raytrace")


def _labour(task: Task) -> int:
    name = task.arguments[0].program.name
    return LONGEST.index(name) if name in LONGEST else -1


class _Asked(NamedTuple):
    """A program at one of its sizes."""

    program: Program
    workload: Workload
    programs: str

    @property
    def command(self) -> str:
        """What records the same trace."""
        size = self.program.size(self.programs)
        told = f"nicscope apps run {self.program.name} --size {size}"
        return f"{told} --nodes {self.workload.nodes} --processes {self.workload.processes}"

    def path(self, folder: Path) -> Path:
        """Where its trace is kept: by all that it depends on."""
        from importlib.metadata import version

        inputs = {} if self.programs == PAPER else dict(self.program.inputs)
        libraries = version("numpy"), version("numba")
        what = [self.command, inputs, self.workload.is_direct]
        made_from = [FORMAT, *what, package_stamp(), *libraries]
        digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
        size = self.program.size(self.programs)
        return folder / f"{self.program.name}-{size}-{digest[:32]}{ENDING}"

    def run(self, folder: Path, step: Callable[[int, int], None]) -> None:
        """Run it and keep its trace."""
        size = self.program.size(self.programs)
        placement = placed(self.workload.nodes, self.workload.processes)
        inputs = self.program.inputs
        run = run_application(
            self.program.name,
            size,
            placement,
            watch=step,
            is_direct=self.workload.is_direct,
            inputs=inputs,
        )
        path = self.path(folder)
        if self.workload.is_direct:
            write_application_program(run, program_beside(path))
            run = run._replace(columns=both_ends(run.columns))
        write_requests(run, path)
        for old in folder.glob(f"*{ENDING}"):  # that nobody has asked for in a long time
            with contextlib.suppress(OSError):
                if time.time() - old.stat().st_mtime > KEPT_S:
                    old.unlink()

    def kept(self, folder: Path) -> Trace | None:
        """The trace that is there; None if none is that can be read, or its program is not."""
        path = self.path(folder)
        beside = [program_beside(path)] if self.workload.is_direct else []
        try:
            for each in (*beside, path):
                os.utime(each)  # asked for last, dropped last
            return open_trace(path)
        except (TraceError, OSError):
            return None


def program_beside(path: Path) -> Path:
    """Where the program of the trace at ``path`` is: what its processes did and waited for."""
    return path.with_name(path.name.removesuffix(ENDING) + PROGRAM_ENDING)


@contextlib.contextmanager
def traces_folder() -> Iterator[Path]:
    """Yield the folder where traces of programs are kept; one for this run where none can be."""
    entries = store.folder()  # of compiled code, in the folder of all that is kept between runs
    kept = None
    with contextlib.suppress(OSError):
        kept = None if entries is None else store.own_folder(entries.parent / FOLDER)
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="nicscope-programs-") as made:
        yield Path(made)


# What is looked up at the other end: a read is served on its send path, a write on its receive one.
EXPORTER = 0  # a process of each node
SERVED_AS = {Op.READ: Op.SERVE_READ, Op.WRITE: Op.SERVE_WRITE}


def both_ends(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The requests of a run, and after each what its peer's interface looks up for it.

    ``columns``: as ``ApplicationRun`` has them, of a run that is direct: all are reads and writes.
    At home a page is looked up for the first process of its node, which exports the memory that all
    of them share: GeNIMA (V, [23]: "to avoid asynchronous protocol processing") has no protocol
    process.
    """
    answers = np.zeros(len(Op), np.uint8)
    for asking, serving in SERVED_AS.items():
        answers[asking] = serving
    served = {
        **columns,
        "node": columns["peer"],
        "peer": columns["node"],
        "pid": np.full_like(columns["pid"], EXPORTER),
        "op": answers[columns["op"]],
    }
    return {name: np.stack([columns[name], served[name]], axis=1).ravel() for name in columns}
