"""A trace through translations: replay, curves of misses, sizes for a budget, grids of designs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nicscope.errors import StudyError
from nicscope.library.command import (
    Assignments,
    Kinds,
    Option,
    Scheduler,
    Text,
    Values,
    Workers,
    as_given,
    command,
    designs,
    each_given,
    platform_option,
    span,
    texts,
    whole,
    word,
)
from nicscope.library.progress import progress
from nicscope.library.traces import Traces, open_trace, opened_with_names, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.library.command import One, Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.comparison import ReplayReport
    from nicscope.reports.curve import ShownCurves
    from nicscope.reports.result import Report
    from nicscope.reports.sweep import ShownSweep
    from nicscope.studies.sweep.sweeping import Done
    from nicscope.studies.workers import Workers as Hired
    from nicscope.traces.reader import Trace


# Assumed: rows that take about as long as starting a process; less is done here.
FEW_ROWS = 1 << 24


def check_alone(skip: int, workers: int | None, scheduler: str | None) -> None:
    """Errors: ``StudyError`` for several workers with ``skip``, which needs one process."""
    if skip and (scheduler is not None or (workers or 1) > 1):
        raise StudyError("--skip counts requests of all nodes, so one process does; --workers 1")


@contextlib.contextmanager
def workers_for(
    traces: Sequence[Trace], workers: int | None, scheduler: str | None, *, alone: bool = False
) -> Iterator[Hired | None]:
    """Workers for ``traces`` during the block; None: this process alone.

    ``workers`` None is a process for each processor, if there is much to do and it need not be
    done ``alone``.  Errors:
    ``StudyError`` if a trace is no folder and workers were asked for, for fewer than 1 or too
    many, or if the cluster at ``scheduler`` cannot be had.
    """
    from nicscope.studies.workers import LocalWorkers, connected, worker_count
    from nicscope.traces.folders import FolderTrace

    asked = workers is not None or scheduler is not None
    hands = worker_count(whole("workers", workers), scheduler)
    files = [trace for trace in traces if not isinstance(trace, FolderTrace)]
    if files and asked:
        raise StudyError(
            f"{files[0].name}: is one file, which one process reads; 'nicscope trace split' makes "
            "a folder, whose nodes are shared out among workers"
        )
    if scheduler is not None:
        with connected(scheduler) as cluster:
            yield cluster
        return
    few = workers is None and sum(trace.rows for trace in traces) < FEW_ROWS
    if files or few or alone or hands == 1:
        yield None
        return
    with LocalWorkers(hands) as local:
        yield local


@command(
    "nicscope replay bundled:redis_server",
    "nicscope replay mine.parquet --design utlb --set entries=1024 --json",
    "nicscope replay mine.parquet --design utlb --design mini --out results",
    "nicscope replay kv.parquet --design rnic --registered 200GiB --page-size 2MiB",
    "nicscope replay mine.parquet --design rnic --contexts 512 --work-requests 1024",
    "nicscope replay folder --design utlb --workers 8",
    "nicscope replay conversation.jsonl --model llama-3-70b --tp 8 --design rnic --page-size 2MiB",
    out="Folder for results.json, tables and figures.",
)
def replay(
    repeat: list[str],
    /,
    trace: Annotated[
        TraceLike,
        Option(
            "TRACE",
            "A trace (Parquet), a folder of files that are one, or bundled:NAME for one that "
            "comes with nicscope.",
            offers="traces",
            read=as_given,
            words=words_of,
            is_argument=True,
            reads_services=True,
        ),
    ],
    designs: Annotated[
        Values,
        designs("Design to replay on; may be repeated. Default: every design of the catalog."),
    ] = None,
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("Platform that prices every design. Default: each design's own."),
    ] = None,
    *,
    assignments: Assignments = None,
    registered: Annotated[
        Text,
        Option(
            "BYTES",
            "RDMA NICs: bytes that each process registers, from its lowest "
            "address on. Default: what it touches.",
        ),
    ] = None,
    page_size: Annotated[
        Text, Option("BYTES", "Page size for every design. Default: the trace's.")
    ] = None,
    counters: Annotated[
        Text,
        Option(
            "neohost|freebsd|rdma",
            "Show the counts of RDMA NICs under the names of this tool, too.",
        ),
    ] = None,
    contexts: Annotated[
        int | None,
        Option("N", "RDMA NICs: contexts of queue pairs that a NIC keeps; count their misses."),
    ] = None,
    work_requests: Annotated[
        int | None, Option("N", "Likewise work requests that it keeps, once fetched.")
    ] = None,
    tx_depth: Annotated[
        int | None, Option("N", "Outstanding requests of each connection. Default: 16.")
    ] = None,
    context_replacement: Annotated[
        Text, Option("lru|random", "What leaves for another context or work request.")
    ] = "lru",
    kinds: Kinds = True,
    workers: Workers = None,
    scheduler: Scheduler = None,
    **_settings: One,
) -> ReplayReport:
    """Count misses, pins and interrupts of a trace on each design.

    Without a platform these are counts; with one, also their time.  NIC and host memory are told.
    """
    from nicscope.reports.comparison import ReplayReport
    from nicscope.studies.connection_replay import sizes_of
    from nicscope.studies.replaying import choose_subjects, compare, tool_named

    given = {"registered": registered, "page_size": page_size}
    overrides = [*assignments, *(f"{name}={text}" for name, text in given.items() if text)]
    subjects = choose_subjects(designs, platform, overrides)
    tool = None if counters is None else tool_named(counters, [one.design for one in subjects])
    sizes = sizes_of(contexts, work_requests, tx_depth, context_replacement)
    requests = open_trace(trace)
    with (
        workers_for([requests], workers, scheduler) as hired,
        progress("replaying", "rows") as watch,
    ):
        return ReplayReport(
            compare(
                requests,
                subjects,
                kinds=kinds,
                overrides=overrides,
                command=repeat,
                watch=watch,
                tool=tool,
                workers=hired,
                sizes=sizes,
            )
        )


@command(
    "nicscope curve bundled:redis_server",
    "nicscope curve mine.parquet --ways 1,4 --line 1,8 --entries 64..8192",
    "nicscope curve mine.parquet --by process --page-size 2MiB --json",
    "nicscope curve huge.parquet --sample 0.01 --out results",
    "nicscope curve conversation.jsonl --model llama-3-70b --tp 8 --page-size 2MiB",
    out="Folder for results.json, curves.parquet and figures.",
)
def curve(
    repeat: list[str],
    /,
    trace: Traces,
    *,
    ways: Annotated[
        Text, Option("N,...", "Ways of the set-associative caches. Default: 1,2,4,8.")
    ] = None,
    line: Annotated[Text, Option("N,...", "Pages of a cache line.")] = "1",
    entries: Annotated[
        Text,
        Option(
            "LOW..HIGH",
            "Entries of the caches, at most 67108864. Default: 256..65536, or"
            " as the trace's pages suggest.",
            read=span,
        ),
    ] = None,
    by: Annotated[
        Text,
        Option(
            "trace|node|process",
            "Draw a curve for the trace, each node, or each process as if it had the NIC alone.",
        ),
    ] = "trace",
    sample: Annotated[
        float | None,
        Option(
            "RATE",
            "Estimate from this share of the pages, with an interval; fully "
            "associative caches only.",
        ),
    ] = None,
    seed: Annotated[int | None, Option("N", "Seed of the sample.")] = None,
    skip: Annotated[
        int, Option("N", "Fill the caches with the first N requests, and do not count those.")
    ] = 0,
    offset: Annotated[
        bool, Option("", "Do not offset the set index by process.", ("--no-offset",))
    ] = True,
    page_size: Annotated[
        Text, Option("BYTES", "Page size, such as 2MiB. Default: the trace's.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> ShownCurves:
    """Show the misses of every size of translation cache.

    One pass over the trace gives them all exactly.
    """
    from nicscope.studies.curves import ask

    question = ask(
        ways=ways,
        line=line,
        entries=entries,
        by=by,
        sample=sample,
        seed=seed,
        offset=offset,
        page_size=page_size,
        skip=skip,
    )
    from nicscope.reports.curve import ShownCurves
    from nicscope.studies.curves import report

    traces = opened_with_names(trace, folders=True)
    check_alone(skip, workers, scheduler)
    with (
        workers_for([one for _, one in traces], workers, scheduler, alone=bool(skip)) as hired,
        progress("measuring", "rows") as watch,
    ):
        return ShownCurves(report(traces, question, watch, hired), repeat)


@command(
    "nicscope size bundled:redis_server --nic-memory 128KiB --platform utlb-prototype",
    "nicscope size mine.parquet --nic-memory 64KiB --pin-memory 4MiB --platform "
    "utlb-prototype --target-us 2.5 --out results",
    "nicscope size mine.parquet --nic-memory 1M --only page-sizes --page-size 4K,2M,1G",
    "nicscope size mooncake_conversation.jsonl --model llama-3-70b --tp 8 --page 4k,2M,1G "
    "--target-miss 1%",
    out="Folder for results.json, sizes.parquet and a figure.",
)
def size(
    repeat: list[str],
    /,
    trace: Traces,
    nic_memory: Annotated[
        Text, Option("BYTES", "NIC memory for translation on each node, such as 128KiB.")
    ] = None,
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("Rank designs by their cost on this platform. Default: by their misses."),
    ] = None,
    *,
    target_miss: Annotated[
        Text,
        Option(
            "SHARE",
            "Instead of --nic-memory: find the fewest entries with this share of "
            "misses, such as 1%.",
        ),
    ] = None,
    skip: Annotated[
        int, Option("N", "With --target-miss: leave the misses of the first N requests out.")
    ] = 0,
    pin_memory: Annotated[
        Text, Option("BYTES", "Memory that each host may pin, such as 4MiB. Default: all.")
    ] = None,
    target_us: Annotated[
        float | None, Option("US", "Find the least NIC memory with this cost per lookup.")
    ] = None,
    page_size: Annotated[
        Text,
        Option(
            "BYTES,...",
            "Page sizes to compare, such as 4KiB,2MiB,1GiB.",
            ("--page", "--page-size"),
        ),
    ] = None,
    only: Annotated[
        str | Sequence[str],
        Option(
            "page-sizes|FAMILY",
            "Restrict the answer to page sizes, or to a family of designs "
            "such as utlb; may be repeated.",
            read=each_given,
            is_repeated=True,
        ),
    ] = (),
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> Report:
    """Find how much NIC memory your traffic needs, and for what design.

    With --nic-memory the best design of each family within that memory; with --target-miss the
    fewest entries that miss no more often.
    """
    from nicscope.studies.size_targets import ask_target
    from nicscope.studies.sizing import ask

    if target_miss is not None:
        others = {
            "--nic-memory": nic_memory,
            "--pin-memory": pin_memory,
            "--platform": platform,
            "--target-us": target_us,
            "--only": only,
        }
        for name, given in others.items():
            if given:
                raise StudyError(f"{name} is not for --target-miss; leave one of both out")
        target = ask_target(target_miss, page_size, skip)
        check_alone(skip, workers, scheduler)
    elif nic_memory is None:
        raise StudyError("give --nic-memory BYTES, or --target-miss SHARE such as 1%")
    elif skip:
        raise StudyError("--skip goes with --target-miss; give that, or leave it out")
    else:
        question = ask(
            nic_memory,
            pin_memory=pin_memory,
            platform=platform,
            target_us=target_us,
            page_sizes=page_size,
            only=only,
        )
    traces = opened_with_names(trace, as_given=True, folders=True)
    opened = [one for _, one in traces]
    with (
        workers_for(opened, workers, scheduler, alone=bool(skip)) as hired,
        progress("sizing" if target_miss is None else "measuring", "rows") as watch,
    ):
        if target_miss is None:
            from nicscope.reports.size import ShownSizes
            from nicscope.studies.size_search import report

            return ShownSizes(report(traces, question, watch, hired), repeat)
        from nicscope.reports.size import ShownTargets
        from nicscope.studies.size_targets import targets

        return ShownTargets(targets(traces, target, watch, hired), repeat)


def axes(_what: str, grid: Mapping[str, Word] | Iterable[str] | None) -> list[str]:
    """The axes of ``grid`` as ``--grid`` takes them."""
    if not isinstance(grid, Mapping):
        return texts(grid)
    every = {key: [None] if values is None else values for key, values in grid.items()}
    return [f"{key}={word(key, values)}" for key, values in every.items()]


@command(
    "nicscope sweep bundled:redis_server --design utlb --grid entries=1024,4096,16384 "
    "--grid pin_limit=512,2048,none --grid replacement=lru,mru --out grid.parquet",
    "nicscope sweep mine.parquet --design utlb --grid prefetch=1,4,16 "
    "--grid costs.interrupt=5us,10us --out grid.parquet --workers 8",
    "nicscope sweep /shared/mine.parquet --design mini --grid line=8,64 --out grid.parquet "
    "--scheduler tcp://10.0.0.1:8786",
)
def sweep(
    repeat: list[str],
    /,
    trace: Traces,
    design: Annotated[
        str | Path | Design,
        Option("NAME|FILE", "Design whose settings are varied.", offers="designs", read=as_given),
    ],
    grid: Annotated[
        Values,
        Option(
            "KEY=V1,V2,...",
            "Values of a setting, of scheme, platform or costs.NAME; may be repeated.",
            read=axes,
            is_repeated=True,
        ),
    ] = (),
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("Platform that prices all points. Default: the design's own."),
    ] = None,
    *,
    out: Annotated[
        Text,
        Option(
            "FILE",
            "The table, as its ending says: .parquet, or .csv (.zst, .gz); a device, a FIFO "
            "or - (standard output) gets CSV. Until it is complete, a journal lies beside a file.",
            is_required=True,
        ),
    ] = None,
    workers: Annotated[
        int | None, Option("N", "Threads. Default: one per processor.", is_of_result=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        Option(
            "tcp://HOST:PORT",
            "Dask cluster to run on; its workers must see the traces under the same paths.",
            is_of_result=False,
        ),
    ] = None,
    kinds: Kinds = True,
    many: Annotated[
        bool,
        Option(
            "", "Run even if there are a million points or more.", ("--yes",), is_of_result=False
        ),
    ] = False,
    begun: Callable[[Done], None] = lambda _: None,
) -> ShownSweep:
    """Replay traces through every design of a grid, as one table.

    Stopped or killed, the same command continues where it was.
    """
    from nicscope.studies.sweep.grid import ask
    from nicscope.studies.workers import worker_count

    points = ask(design, platform, grid, many=many)
    hands = worker_count(workers, scheduler)
    from nicscope.reports.sweep import ShownSweep
    from nicscope.studies.sweep.sweeping import Sweep
    from nicscope.studies.sweep.sweeping import sweep as run
    from nicscope.studies.sweep.table import Table, in_memory, table_output

    with contextlib.ExitStack() as stack:
        output = stack.enter_context(in_memory() if out is None else table_output(Path(out)))
        what = Sweep(points, opened_with_names(trace), output.path, kinds=kinds)
        cluster: Any = None
        if scheduler is not None:
            from nicscope.studies.sweep.sweeping import CONTINUES
            from nicscope.studies.workers import connected

            cluster = stack.enter_context(connected(scheduler, CONTINUES))
        watch = stack.enter_context(progress("sweeping", "designs"))
        done = run(what, hands, cluster, watch, begun, output)
        return ShownSweep(what, Table(output.readable), repeat, done)
