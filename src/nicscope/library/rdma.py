"""Questions about RDMA NICs of today: regions, paths, queue pairs, descriptors, registration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nicscope.config.quantities import COUNT_SPELLINGS, read_bytes, read_count, some_bytes
from nicscope.errors import StudyError
from nicscope.inputs import read_whole
from nicscope.library.command import (
    Bytes,
    Option,
    Registering,
    Text,
    as_given,
    byte_count,
    command,
    span,
)
from nicscope.library.progress import progress
from nicscope.library.traces import OneTrace, opened_with_names, opened_with_progress, words_of

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.costs import Limit
    from nicscope.library.traces import TraceLike
    from nicscope.reports.fit import ShownFit
    from nicscope.reports.odp import ShownDemand
    from nicscope.reports.rates import ShownConnections, ShownDescriptors, ShownPaths
    from nicscope.reports.registration import (
        ShownCaches,
        ShownHost,
        ShownPlans,
        ShownRegionSizes,
        ShownRegistrations,
        ShownThresholds,
    )


@command(
    "nicscope rdma plan --pool 789GiB --max-mr 512GiB --max-entries 24M --kv-block 2MiB "
    "--page-size 2MiB",
    "nicscope rdma plan --pool 1TiB --limits efa,mooncake",
    words="rdma plan",
    out="Folder for results.json, plans.parquet, regions.parquet and a figure.",
)
def plan(
    repeat: list[str],
    /,
    pool: Annotated[Text, Option("BYTES", "Memory to register.")],
    *,
    max_mr: Annotated[Text, Option("BYTES", "Largest region. Default: no limit.")] = None,
    max_entries: Annotated[
        Text, Option("N", "Most translation entries of a NIC, such as 24M. Default: no limit.")
    ] = None,
    limits: Annotated[
        Text,
        Option(
            "NAME|FILE,...",
            "Further limits, of NICs and libraries; the tightest of all hold.",
            offers="limits",
        ),
    ] = None,
    kv_block: Annotated[
        Text, Option("BYTES", "Block that must lie in one region, such as one of a KV cache.")
    ] = "64KiB",
    page_size: Annotated[
        Text,
        Option(
            "BYTES,...",
            "Page sizes that back the pool, each also what an entry maps.",
            ("--page", "--page-size"),
        ),
    ] = "4K,64K,2M,1G",
) -> ShownPlans:
    """Cut a memory pool into regions within a NIC's limits.

    The limits are bytes of a region, translation entries and alignment; what fits is shown, and
    what would have to change for the rest.
    """
    from nicscope.reports.registration import ShownPlans
    from nicscope.studies.registering import Wanted, plan_all

    tightest = _tightest(max_mr, max_entries, limits.split(",") if limits else [])
    wanted = Wanted(some_bytes("--pool", pool), some_bytes("--kv-block", kv_block), tightest)
    sizes = [some_bytes("--page-size", each) for each in page_size.split(",")]
    return ShownPlans(plan_all(wanted, sizes), repeat)


def _tightest(max_mr: str | None, max_entries: str | None, named: list[str]) -> dict[str, Limit]:
    """The smallest limit of each kind.  Errors: ``NicscopeError`` for one that is none."""
    from nicscope.config.costs import Evidence, Limit, Origin, load_limits

    given: dict[str, list[Limit]] = {"region_bytes": [], "entries": []}

    def add(name: str, most: int, option: str) -> None:
        given[name].append(Limit(most, Origin(Evidence.ASSUMED, f"given: {option}")))

    if max_mr is not None:
        add("region_bytes", some_bytes("--max-mr", max_mr), "--max-mr")
    if max_entries is not None:
        add("entries", _count("--max-entries", max_entries), "--max-entries")
    for each in named:
        for key, limit in load_limits(each).limits.items():
            given[key].append(limit)
    return {key: min(found, key=lambda limit: limit.most) for key, found in given.items() if found}


def _count(option: str, given: Any) -> int:
    many = given if isinstance(given, int) else read_count(str(given))
    if not many or many < 1:
        raise StudyError(f"{option} must be a number, {COUNT_SPELLINGS}; got {given!r}")
    return many


@command(
    "nicscope rdma path bundled:redis_server",
    "nicscope rdma path mine.parquet --iommu strict --page-size 4KiB,2MiB --iotlb 32,64,128",
    "nicscope rdma path mine.parquet --pcie gen3,gen4,gen5 --reads 32 --json",
    "nicscope rdma path mine.parquet --iommu strict,ats --atc 64,1024 --ordering relaxed,strict",
    words="rdma path",
    out="Folder for results.json, paths.parquet and a figure.",
)
def path(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    iommu: Annotated[
        Text,
        Option(
            "off|pt|strict|ats,...",
            "IOMMU: off, passed through, translating, or with a cache on the NIC (ats).",
        ),
    ] = "off,pt,strict",
    page_size: Annotated[
        Text, Option("BYTES,...", "Page sizes of the IOMMU's mappings: 4KiB, 2MiB, 1GiB.")
    ] = "4KiB,2MiB",
    iotlb: Annotated[Text, Option("N,...", "Entries of the IOTLB.")] = "64",
    walk_cache: Annotated[int, Option("N", "Entries of each level of the page-walk cache.")] = 32,
    walks: Annotated[Text, Option("N,...", "Page walks at once.")] = "1,4",
    atc: Annotated[Text, Option("N,...", "Translations that the NIC caches, with ats.")] = "64",
    pcie: Annotated[Text, Option("gen3|gen4|gen5,...", "PCIe generation, of 16 lanes.")] = "gen4",
    ordering: Annotated[
        Text,
        Option(
            "relaxed|strict,...",
            "Whether PCIe may reorder the NIC's writes to memory (relaxed ordering).",
        ),
    ] = "relaxed",
    reads: Annotated[
        int | None, Option("N", "Outstanding PCIe reads of the NIC. Default: no limit.")
    ] = None,
    read_bytes: Annotated[Text, Option("BYTES", "Bytes of each such read.")] = "512",
    costs: Annotated[Text, Option("NAME|FILE", "Costs of the path.", offers="paths")] = "connectx",
) -> ShownPaths:
    """Show whether PCIe, the IOMMU, ordering or reads limit a NIC."""
    from nicscope.config.costs import load_path_costs
    from nicscope.reports.rates import ShownPaths
    from nicscope.studies.rates import entries, hosts, measure_paths, window

    tried = hosts(iommu, page_size, iotlb, walks, pcie, atc, ordering)
    cached = entries("--walk-cache", str(walk_cache))
    under_way = window(reads, read_bytes)
    priced = load_path_costs(costs)
    with opened_with_progress(trace, "translating") as (requests, watch):
        return ShownPaths(measure_paths(requests, tried, cached, under_way, priced, watch), repeat)


NUMBERS = "N,...|LOW..HIGH"


@command(
    "nicscope rdma connections",
    "nicscope rdma connections --threads 96 --qps 96 --outstanding 1..64 --operation read,write",
    "nicscope rdma connections --threads 32 --qps 1,32 --outstanding 8 --doorbells context,own",
    "nicscope rdma connections --outstanding-sum 256,1024 --threads 16..96 --qps 96",
    words="rdma connections",
    out="Folder for results.json, connections.parquet and a figure.",
)
def connections(
    repeat: list[str],
    /,
    *,
    qps: Annotated[Text, Option(NUMBERS, "Queue pairs in all.")] = "16..16384",
    outstanding: Annotated[Text, Option(NUMBERS, "Outstanding operations of each thread.")] = "32",
    outstanding_sum: Annotated[
        Text,
        Option(NUMBERS, "Outstanding operations of all queue pairs together. Default: no limit."),
    ] = None,
    threads: Annotated[Text, Option(NUMBERS, "Threads that post.")] = "16",
    operation: Annotated[
        Text, Option("read|write|read,write", "Operation, of small messages.")
    ] = "read",
    read_window: Annotated[
        Text, Option(NUMBERS, "Outstanding reads of a queue pair. Default: the NIC's limit.")
    ] = None,
    doorbells: Annotated[
        Text,
        Option(
            "context|own",
            "Doorbell registers: shared by the queue pairs of a context, or "
            "one for each queue pair.",
        ),
    ] = "own",
    replacement: Annotated[
        Text, Option("random|lru", "Replacement of the NIC's context cache; a list compares both.")
    ] = "random",
    nic: Annotated[
        Text, Option("NAME|FILE", "Costs and cache sizes of the NIC.", offers="nics")
    ] = "connectx-6",
) -> ShownConnections:
    """Show how many queue pairs slow a NIC down.

    The rate is shown over queue pairs, threads and outstanding operations of each.  Under a limit
    on their sum it is shown for threads with equal parts of it, and for threads that take of it
    whatever is left.
    """
    from nicscope.config.costs import load_nic_costs
    from nicscope.reports.rates import ShownConnections
    from nicscope.studies import rates as study
    from nicscope.studies.sources import numbers

    priced = load_nic_costs(nic)
    every = study.ways_to_post(
        operation.split(","),
        numbers("--threads", threads, study.MOST_THREADS),
        numbers("--qps", qps, study.MOST_PAIRS),
        numbers("--outstanding", outstanding, study.MOST_OUTSTANDING),
        [priced.count("read_window", 0)]
        if read_window is None
        else numbers("--read-window", read_window, study.MOST_OUTSTANDING),
        doorbells.split(","),
        replacement.split(","),
        [None]
        if outstanding_sum is None
        else numbers("--outstanding-sum", outstanding_sum, study.MOST_SUM),
    )
    with progress("simulating", "runs") as watch:
        return ShownConnections(study.measure_all(every, priced, watch), repeat)


@command(
    "nicscope rdma descriptors bundled:redis_server",
    "nicscope rdma descriptors kv.parquet --engine nixl,mooncake --threads 1,4",
    "nicscope rdma descriptors conversation.jsonl --model llama-3-70b --tp 8 --slice whole",
    "nicscope rdma descriptors kv.parquet --nic efa-p5en --engine mooncake --threads 16 --json",
    words="rdma descriptors",
    out="Folder for results.json and descriptors.parquet.",
)
def descriptors(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    engine: Annotated[
        Text,
        Option(
            "NAME,...",
            "Transfer library: nixl makes a descriptor for each request, "
            "mooncake for each 64 KiB, joined for each run of adjoining "
            "requests.",
        ),
    ] = "nixl,mooncake,joined",
    threads: Annotated[Text, Option(NUMBERS, "Threads that post.")] = "1",
    nics: Annotated[Text, Option(NUMBERS, "NICs that share the work.")] = "1",
    qps: Annotated[Text, Option(NUMBERS, "Queue pairs of each NIC.")] = "2",
    nic: Annotated[
        Text, Option("NAME|FILE", "Costs and rates of the NIC.", offers="nics")
    ] = "connectx-7",
) -> ShownDescriptors:
    """Show how many descriptors a transfer library makes of requests.

    And what limits their transfer: posting, packets, PCIe or bytes.
    """
    from nicscope.config.costs import load_nic_costs
    from nicscope.reports.rates import ShownDescriptors
    from nicscope.studies.rates import MOST_OF_EACH, transfer_all, ways_through
    from nicscope.studies.sources import numbers

    counts = [
        numbers(option, text, MOST_OF_EACH)
        for option, text in (("--threads", threads), ("--nics", nics), ("--qps", qps))
    ]
    ways = ways_through(engine.split(","), *counts)
    priced = load_nic_costs(nic)
    with opened_with_progress(trace, "counting") as (requests, watch):
        return ShownDescriptors(transfer_all(requests, ways, priced, watch), repeat)


@command(
    "nicscope rdma explain --mr 24GiB --slices 1,3.5GiB --stack ucx:1.19 "
    "--hypothesis ksm,table,pool",
    "nicscope rdma explain --mr 24GiB --fast 9.24 --slow 6.00",
    words="rdma explain",
    out="Folder for results.json, predictions.parquet and a figure.",
)
def explain(
    repeat: list[str],
    /,
    mr: Annotated[Text, Option("BYTES", "Size of the registered pool.")],
    *,
    slices: Annotated[
        Text, Option("N|BYTES,...", "Regions of the pool: a number of equal ones, or their size.")
    ] = "1,3.5GiB",
    stack: Annotated[
        Text, Option("NAME[:VERSION]", "Library that registers, such as ucx:1.19; verbs for none.")
    ] = "ucx",
    hypothesis: Annotated[
        Text, Option("NAME|FILE,...", "Hypotheses to compare.", offers="hypotheses")
    ] = "ksm,table,pool",
    page_size: Annotated[
        Text, Option("BYTES", "Bytes that a translation entry of the NIC maps.")
    ] = "4K",
    fast: Annotated[
        float | None, Option("GB/s", "Bandwidth that you measured where it is fast.")
    ] = None,
    slow: Annotated[
        float | None, Option("GB/s", "Bandwidth that you measured where it is slow.")
    ] = None,
) -> ShownRegionSizes:
    """Compare reasons why a large memory region is slow.

    Each hypothesis predicts measurements; those on which they differ tell them apart.
    """
    from nicscope.config.costs import load_hypothesis
    from nicscope.reports.registration import ShownRegionSizes
    from nicscope.studies.registering import explain_sizes

    library, _, version = stack.partition(":")
    if not library or not all(map(str.isdecimal, version.split(".") if version else ())):
        raise StudyError("--stack must be a library and its version, such as ucx:1.19, or verbs")
    byte_count = some_bytes("--mr", mr)
    return ShownRegionSizes(
        explain_sizes(
            byte_count,
            [_slice(each, byte_count) for each in slices.split(",")],
            [load_hypothesis(each) for each in hypothesis.split(",")],
            page=some_bytes("--page-size", page_size),
            stack=library.lower(),
            version=version,
            fast_gb_s=fast,
            slow_gb_s=slow,
        ),
        repeat,
    )


def _slice(text: str, byte_count: int) -> int:
    """Bytes of a region: of so many equal ones where there is no unit."""
    if text.isdecimal() and 1 <= int(text) <= byte_count:
        return -(-byte_count // int(text))
    if text.isdecimal():
        raise StudyError(f"--slices: must be from 1 to {byte_count} regions, got {text}")
    return some_bytes("--slices", text)


MOST_COUNTER_FILE = 1 << 20  # bytes of counters


@command(
    "nicscope rdma fit counters.json --trace mine.parquet",
    "nicscope rdma fit counters.json --trace mine.parquet --tolerance 0.05 --json",
    words="rdma fit",
    out="Folder for results.json, caches.parquet and a figure.",
)
def fit(
    repeat: list[str],
    /,
    counters: Annotated[
        str | Path | dict[str, Any] | list[dict[str, Any]],
        Option(
            "COUNTERS",
            'A JSON file of hits and misses: {"hits": 900, "misses": 100}, or a list of '
            'such, each with its "page_size".',
            read=as_given,
            is_argument=True,
        ),
    ],
    trace: Annotated[
        TraceLike,
        Option(
            "TRACE",
            "Traffic that the counters counted.",
            offers="traces",
            read=as_given,
            words=words_of,
        ),
    ],
    *,
    tolerance: Annotated[
        float, Option("SHARE", "Error that the counted miss ratios may have, beside chance.")
    ] = 0.01,
    entries: Annotated[
        Text,
        Option(
            "LOW..HIGH",
            "Cache sizes to try. Default: 1..65536 for caches with sets.",
            read=span,
        ),
    ] = None,
    skip: Annotated[
        int, Option("N", "Requests before counting began, which warm the cache up.")
    ] = 0,
    line: Annotated[
        Text, Option("N,...", "Entries that the NIC fetches together; 8 are 64 bytes.")
    ] = "1,8",
) -> ShownFit:
    """Find a NIC's cache size and ways from its counters.

    They count hits and misses of known traffic, which is the trace.
    """
    from nicscope.reports.fit import ShownFit
    from nicscope.studies.fitting import fit as explain
    from nicscope.studies.fitting import read_counters

    is_given = isinstance(counters, dict | list)
    called = "counters" if is_given else str(counters)
    plain = counters if is_given else _read(called)
    read_counters(plain, called)
    [(name, opened)] = opened_with_names(trace)
    with progress("fitting", "rows") as watch:
        return ShownFit(
            explain(
                name,
                opened,
                called,
                plain,
                tolerance=tolerance,
                entries=entries,
                skip=skip,
                line=line,
                command=repeat,
                watch=watch,
            )
        )


def _read(path: str) -> Any:
    """What a JSON file holds.  Errors: ``StudyError`` naming it."""
    import json

    content = read_whole(path, MOST_COUNTER_FILE, StudyError)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise StudyError(f"{path}: is not JSON: {problem}") from problem


MOST_REGION_FILE = 1 << 26  # bytes of a list of regions
MOST_REGIONS = 1 << 24
_SWITCHES = {"no": False, "yes": True}
ORDERS = ("given", "ascending", "descending")


@command(
    "nicscope rdma register 1TiB --nics 8 --threads 1,8 --touched no,yes",
    "nicscope rdma register 500GiB --page 4K,2M --nics 8 --at-once no,yes --touched yes",
    "nicscope rdma register --regions buffers.txt --order descending --costs efa-gpu",
    "nicscope rdma register --regions tensors.csv --cache none,range --touched yes",
    words="rdma register",
    out="Folder for results.json, registrations.parquet and figures.",
)
def register(
    repeat: list[str],
    /,
    byte_count: Annotated[
        Text, Option("BYTES", "Size of the pool, such as 500GiB or 1TiB.", is_argument=True)
    ] = None,
    *,
    bytes_too: Annotated[
        Text, Option("BYTES", "Size of the pool, as an option.", ("--bytes",))
    ] = None,
    page: Annotated[
        Text,
        Option(
            "BYTES,...",
            "Page sizes of the host, each also what a translation entry maps.",
            ("--page-size", "--page"),
        ),
    ] = "4K,64K,2M,1G",
    regions: Annotated[
        Text,
        Option(
            "N|FILE",
            "Number of equal regions, or a file with a size on each line, or bytes and address.",
        ),
    ] = "1",
    order: Annotated[
        Text, Option("|".join(ORDERS), "Order in which a file's regions are registered.")
    ] = "given",
    nics: Annotated[Text, Option("N,...", "NICs at which the whole pool is registered.")] = "1",
    threads: Annotated[Text, Option("N,...", "Threads that touch and pin memory.")] = "1",
    at_once: Annotated[
        Text, Option("no|yes|no,yes", "Whether the NICs register at the same time.")
    ] = "no",
    touched: Annotated[
        Text, Option("no|yes|no,yes", "Whether the memory has been touched before.")
    ] = "no",
    cache: Annotated[
        Text,
        Option("none|exact|range,...", "How a library joins regions of a file with addresses."),
    ] = "none",
    costs: Registering = "connectx",
) -> ShownRegistrations:
    """Show how long registering memory takes, and what shortens it.

    By parts: touching, pinning, mapping for DMA, and the NIC's translation entries.
    """
    from nicscope.config.costs import load_registration_costs
    from nicscope.reports.registration import ShownRegistrations
    from nicscope.studies.registering import pools, register_all

    if None not in (byte_count, bytes_too):
        raise StudyError("BYTES and --bytes are the same; leave one of them out")
    size = byte_count or bytes_too
    lists = {each: _regions(size, regions, order, each) for each in cache.split(",")}
    ways = (
        [some_bytes("--page", each) for each in page.split(",")],
        [_number("--nics", each) for each in nics.split(",")],
        [_number("--threads", each) for each in threads.split(",")],
        [_switch("--at-once", each) for each in at_once.split(",")],
        [_switch("--touched", each) for each in touched.split(",")],
    )
    every = [pool for each, sizes in lists.items() for pool in pools(sizes, *ways, each)]
    return ShownRegistrations(register_all(every, load_registration_costs(costs)), repeat)


@command(
    "nicscope rdma copy",
    "nicscope rdma copy --page 4K,2M --reuse 1..1024 --nics 8",
    "nicscope rdma copy --costs mine/registration.toml",
    words="rdma copy",
    out="Folder for results.json and thresholds.parquet.",
)
def copy(
    repeat: list[str],
    /,
    *,
    page: Annotated[
        Text, Option("BYTES,...", "Page sizes of the host.", ("--page-size", "--page"))
    ] = "4K,2M",
    reuse: Annotated[
        Text, Option(NUMBERS, "Transfers from a buffer for each time that it is registered.")
    ] = "1,10,100",
    nics: Annotated[Text, Option("N,...", "NICs at which a buffer is registered.")] = "1",
    costs: Registering = "connectx",
) -> ShownThresholds:
    """Show below which size copying is cheaper than registering.

    Copying is into memory that is registered already (bcopy), registering is of the buffer itself
    (zcopy).
    """
    from nicscope.config.costs import load_registration_costs
    from nicscope.reports.registration import ShownThresholds
    from nicscope.studies.registering import MOST_REUSE, thresholds
    from nicscope.studies.sources import numbers

    sizes = [some_bytes("--page", each) for each in page.split(",")]
    times = numbers("--reuse", reuse, MOST_REUSE)
    many = [_number("--nics", each) for each in nics.split(",")]
    return ShownThresholds(thresholds(sizes, times, many, load_registration_costs(costs)), repeat)


def _number(option: str, text: str) -> int:
    if not text.isdecimal():
        raise StudyError(f"{option} must be whole numbers, got {text!r}")
    return int(text)


def _switch(option: str, text: str) -> bool:
    named = {"true": "yes", "false": "no"}.get(text, text)  # as Python's own are spelt
    if named not in _SWITCHES:
        raise StudyError(f"{option} must be no, yes, or no,yes; got {text!r}")
    return _SWITCHES[named]


def _regions(byte_count: str | None, regions: str, order: str, cache: str) -> list[int]:
    """Bytes of each region.  Errors: ``StudyError`` naming the line of a file that is no size."""
    if order not in ORDERS:
        raise StudyError(f"--order must be {', '.join(ORDERS)}; got {order!r}")
    if regions.isdecimal():
        if byte_count is None:
            raise StudyError("how much is registered? Give BYTES, or --regions FILE")
        if cache != "none":
            raise StudyError("--cache is of lines with addresses; give --regions FILE")
        return _equal(some_bytes("BYTES", byte_count), int(regions))
    if byte_count is not None:
        raise StudyError(f"{regions} says what is registered; leave {byte_count} out")
    from nicscope.studies.registering import read_regions, registered

    text = read_whole(regions, MOST_REGION_FILE, StudyError).decode(errors="replace")
    sizes = registered(read_regions(text, regions), cache, regions)
    if not sizes:
        raise StudyError(f"{regions}: names no region; give a size a line, or bytes and address")
    if order != ORDERS[0]:
        sizes.sort(reverse=order == "descending")
    return sizes


def _equal(byte_count: int, many: int) -> list[int]:
    if not 1 <= many <= min(byte_count, MOST_REGIONS):
        raise StudyError(f"--regions must be from 1 to {min(byte_count, MOST_REGIONS)}, got {many}")
    each, rest = divmod(byte_count, many)
    return [each + (place < rest) for place in range(many)]


@command(
    "nicscope rdma cache bundled:redis_server",
    "nicscope rdma cache mine.parquet --policy page,merge --entries 64..65536",
    "nicscope rdma cache mine.parquet --bytes 1GiB --json",
    "nicscope rdma cache conversation.jsonl --model llama-3-70b --tp 8",
    words="rdma cache",
    out="Folder for results.json, caches.parquet and a figure.",
)
def cache(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    policy: Annotated[
        Text,
        Option(
            "NAME,...",
            "Policy of the cache: exact and page drop what a new region "
            "overlaps, as libfabric does; merge joins them, as UCX does.",
        ),
    ] = "exact,page,merge",
    entries: Annotated[
        Text, Option("none|N,...|LOW..HIGH", "Regions that a process may keep registered.")
    ] = "none",
    align: Annotated[
        Text,
        Option(
            "BYTES", "Alignment that regions are widened to. Default: 1, 4096 and 64, by policy."
        ),
    ] = None,
    most_bytes: Annotated[
        Text,
        Option(
            "BYTES", "Memory that a process may keep registered. Default: no limit.", ("--bytes",)
        ),
    ] = None,
    costs: Registering = "connectx",
) -> ShownCaches:
    """Show hits, evictions and pinned bytes of registration caches.

    Each policy is one of a library's: UCX, libfabric, NCCL and others.
    """
    from nicscope.config.costs import load_registration_costs
    from nicscope.reports.registration import ShownCaches
    from nicscope.studies.registering import libraries, run_caches

    tried = libraries(policy, entries, align, most_bytes)
    priced = load_registration_costs(costs)
    with opened_with_progress(trace, "registering") as (requests, watch):
        return ShownCaches(run_caches(requests, tried, priced, watch), repeat)


FAULTS = ("4KiB", "64KiB", "request")  # what a fault brings, of which less than a page is left out


@command(
    "nicscope rdma odp bundled:redis_server",
    "nicscope rdma odp mine.parquet --fault-bytes 4KiB --prefetch none,async --ahead 16",
    "nicscope rdma odp mine.parquet --resident 1GiB,4GiB --untouched --json",
    words="rdma odp",
    out="Folder for results.json, odp.parquet and figures.",
)
def odp(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    fault_bytes: Annotated[
        Text,
        Option(
            "BYTES|request,...",
            "Memory that a fault maps: aligned pieces of this size, or the "
            "whole request. Default: 4KiB,64KiB,request, but none smaller "
            "than a page.",
        ),
    ] = None,
    prefetch: Annotated[
        Text,
        Option(
            "none|sync|async,...",
            "Whether the program advises the NIC of pages ahead, and whether it waits for them.",
        ),
    ] = "none,sync,async",
    ahead: Annotated[
        int, Option("N", "Requests between an asynchronous advice and the request it is for.")
    ] = 4,
    resident: Annotated[
        Text,
        Option("BYTES|none,...", "Memory of a node that may hold such pages; none for no limit."),
    ] = "none",
    page_size: Annotated[Text, Option("BYTES", "Page size of the host.")] = "4KiB",
    touched: Annotated[
        bool,
        Option(
            "", "Assume that nothing has touched the memory before the NIC does.", ("--untouched",)
        ),
    ] = True,
    costs: Registering = "connectx",
    faults: Annotated[Text, Option("NAME|FILE", "Costs of faults.", offers="faults")] = "connectx",
) -> ShownDemand:
    """Compare on-demand paging with registering memory.

    Shown are page faults, the requests that wait for one and for how long, and what prefetching
    saves.
    """
    from nicscope.config.costs import load_fault_costs, load_registration_costs
    from nicscope.reports.odp import ShownDemand
    from nicscope.studies.paging_on_demand import Costs, page_bytes, page_on_demand, ways

    page = page_bytes(page_size)
    pieces = fault_bytes or ",".join(one for one in FAULTS if page <= (read_bytes(one) or page))
    tried = ways(pieces, prefetch, ahead, resident, page)
    priced = Costs(load_registration_costs(costs), load_fault_costs(faults), page, touched)
    with opened_with_progress(trace, "paging") as (requests, watch):
        return ShownDemand(page_on_demand(requests, tried, priced, watch), repeat)


@command(
    "nicscope rdma calibrate",
    "nicscope rdma calibrate --out mine",
    words="rdma calibrate",
    out="Folder for registration.toml, which register takes, and the numbers.",
)
def calibrate(
    repeat: list[str],
    /,
    *,
    memory: Annotated[
        Bytes,
        Option(
            "BYTES",
            "Memory that each round measures on; no more than the process may lock.",
            read=byte_count,
        ),
    ] = "16MiB",
    seconds: Annotated[float, Option("S", "How long to measure, about.")] = 2.0,
    nic: Annotated[
        Text,
        Option(
            "NAME|FILE",
            "Costs to take the NIC's part from, as no NIC is asked.",
            offers="registrations",
        ),
    ] = "connectx",
) -> ShownHost:
    """Measure memory costs of this machine, for register and cache.

    Measured are touching, pinning, mapping and copying.  Pins no more than the process may lock
    (ulimit -l), and leaves nothing behind.  What it finds is for:
    nicscope rdma register 1TiB --nics 8 --costs mine/registration.toml
    """
    from nicscope.config.costs import load_registration_costs
    from nicscope.reports.registration import ShownHost
    from nicscope.studies.host_costs import calibrate_host as measure

    priced = load_registration_costs(nic)
    with progress("measuring", "ms") as watch:
        return ShownHost(measure(priced, memory, seconds, watch), repeat)
