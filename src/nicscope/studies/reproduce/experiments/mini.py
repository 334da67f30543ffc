"""miNI's NIC memory (II, V.A), and what misses do to latency and bandwidth (V.B, V.C)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.config.design import Design, load_design, with_settings
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.errors import SimulationError
from nicscope.interfaces.mini import Cluster, Endpoint
from nicscope.interfaces.ports.nic_memory import LOOKUP, nic_structures, total_by_group
from nicscope.studies.handle_misses import PAGE, ROUND_TRIPS, by_page, measure
from nicscope.studies.reproduce.experiments.utlb import requests_at
from nicscope.studies.reproduce.verdict import Item, Outcome, rising

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


KB, MB = 1024, 2**20  # bytes; the paper's own 64 GB example takes binary units
TABLES = (2**15, 2**16)  # two tables: their difference is what entries alone take


def nic_memory_bytes(name: str, *settings: str) -> dict[str, int]:
    """Bytes per structure on the NIC of a node with one process."""
    from nicscope.drivers.replay import replay

    one_page = requests_at(nodes=[0], pids=[0], pages=[0], page_counts=[1])
    (result,) = replay([one_page], [with_settings(load_design(name), settings)], kinds=False)
    return dict(result.nic_memory_bytes)


def extrapolation(outcome: Outcome, item: Item) -> None:
    """MiNI II and V.A: a static table for 64 GB of host memory, from what ours takes per page.

    Extend the bytes per entry of our static table to every page of the host memory.
    """
    printed = item.printed
    small, large = (
        sum(nic_memory_bytes("vmmc-static", f"entries={entries}").values()) for entries in TABLES
    )
    per_entry = Fraction(large - small, TABLES[1] - TABLES[0])
    table = float(per_entry * printed["host_memory_gbytes"] * 2**30 / PAGE / MB)
    outcome.measure(item, static_table=table)
    outcome.shape(
        "thirty-two-or-sixty-four",
        abs(table - printed["static_table_mbytes_section_2"])
        < abs(table - printed["static_table_mbytes_section_5"]),
        f"{float(per_entry):g} bytes for each 4 KB page: {table:g} MB",
    )


def figure3(outcome: Outcome, item: Item) -> None:
    """MiNI Figure 3: NIC memory of the best cache against the static table it replaces.

    Lay both structures out and add up their bytes.
    """
    printed, entries = item.printed, item.derived["static_table_entries"]
    memories = nic_memory_bytes("mini"), nic_memory_bytes("vmmc-static", f"entries={entries}")
    cache_kb, static_kb = (sum(memory.values()) / KB for memory in memories)
    cache, static = (
        ", ".join(f"{name} {size}" for name, size in memory.items()) for memory in memories
    )
    outcome.measure(item, best_cache_memory=cache_kb)
    outcome.shape(
        "static-table-over-256",
        static_kb >= printed["static_table_kbytes_over"],
        f"{static_kb:.1f} KB: {static} bytes",
    )
    outcome.shape(
        "cache-under-a-third",
        cache_kb < static_kb / 3,
        f"{cache_kb:.1f} of {static_kb:.1f} KB: {cache} bytes",
    )
    before, after = printed["lookup_kbytes"]
    reduction = 100 * (1 - after / before)
    outcome.shape(
        "eighty-is-seventy-five",
        reduction < printed["lookup_reduction_percent_abstract_over"],
        f"{before} to {after} KB is {reduction:.1f} % less",
    )


FEW, MANY = 10, 10_000  # buffers
SMALL, LARGE = 2**20, 64 * 2**20  # bytes of communication memory
SPACE = 2**14 + 1024  # pages


def node_memory(outcome: Outcome, item: Item) -> None:
    """MiNI V.A: the NIC memory of running nodes, with static tables and with handle lookup.

    Run a node of either kind, and dynamic ones with much more to look up.
    """
    low, high = item.printed["code_kbytes"]
    code = (low + high) / 2 * KB
    clusters = static, dynamic = running("vmmc-static"), running("mini")
    before, after = (total(cluster, LOOKUP) for cluster in clusters)
    outcome.measure(item, lookup_reduction=100 * (1 - after / before))
    whole = [total(cluster) + code for cluster in clusters]
    outcome.shape(
        "total-shrinks",
        whole[1] <= whole[0] * 2 / 3,
        f"{whole[0] / KB:.0f} to {whole[1] / KB:.0f} KB, {code / KB:.0f} of it code; "
        f"lookups {before / KB:.0f} to {after / KB:.0f} KB",
    )

    sizes = {
        f"{buffers} buffers, {byte_count // 2**20} MB": total(running("mini", buffers, byte_count))
        for buffers, byte_count in ((FEW, SMALL), (MANY, SMALL), (FEW, LARGE))
    }
    # What a static table says that has room for ``LARGE`` bytes.
    design = with_settings(load_design("vmmc-static"), [f"entries={LARGE // PAGE}"])
    refused = None
    try:
        running(design, FEW, LARGE + SMALL)
    except SimulationError as refusal:
        refused = str(refusal)
    outcome.shape(
        "independent-of-buffers",
        len(set(sizes.values())) == 1 and refused is not None,
        "; ".join(f"{name}: {size / KB:.0f} KB" for name, size in sizes.items())
        + f"; a static table of {LARGE // PAGE} pages: {refused or 'took them'}",
    )

    # The groups add up to the structures, and no two of these share a byte.
    overlaps, off, many = 0, 0, 0
    for cluster in (static, dynamic):
        assert cluster.simulation is not None
        found = nic_structures(cluster.simulation.machine, 0)
        many += len(found)
        off += sum(each.byte_count for each in found.values()) - total(cluster)
        spans = sorted(
            (array.ctypes.data, array.ctypes.data + array.nbytes)
            for each in found.values()
            for array in each.arrays
        )
        overlaps += sum(first[1] > second[0] for first, second in pairwise(spans))
    outcome.shape(
        "account-is-whole",
        off == 0 and overlaps == 0,
        f"{many} structures of two nodes: {overlaps} overlaps, {off} bytes unaccounted for",
    )


def total(cluster: Cluster, group: str | None = None) -> int:
    """Bytes of a node's NIC, or of a group of its structures."""
    assert cluster.simulation is not None
    totals = total_by_group(cluster.simulation.machine, 0)
    return sum(totals.values()) if group is None else totals[group]


def running(design: str | Design, buffers: int = FEW, byte_count: int = SMALL) -> Cluster:
    """A cluster that has used ``buffers`` buffers of ``byte_count`` bytes in all."""
    cluster = Cluster(
        design, host=HostSize(frames=-(-byte_count // PAGE) + 1024, pages_per_space=SPACE)
    )

    async def owner(end: Endpoint) -> None:
        arena = end.allocate(byte_count)
        each = byte_count // buffers
        for i in range(buffers):
            await end.register(arena.part(i * each, each), name=f"buffer {i}")
        await end.stored()

    async def guest(end: Endpoint) -> None:
        own = end.allocate(16)
        last = await end.open(await end.find(f"buffer {buffers - 1}", 1000.0))
        await end.write(last, own)
        await end.done()

    cluster.start(0, owner)
    cluster.start(1, guest)
    cluster.run()
    return cluster


SIZES = (64, 256, 1024, 4096, 16384, 65536)  # bytes
RATIOS = tuple(tenth / 10 for tenth in range(11))
HALF = 5  # place of the ratio 0.5
LINEAR = 0.99
# How far the second sending of a message may differ from a round trip without a miss: it needs no
# post, and its packets no translation.
LIKE_A_ROUND_TRIP = 0.25
AGREE = 0.02  # how far readings may differ that are of the same lookups


def figure4(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - sizes and ratios stand in its notes, in words
    """MiNI Figure 4: what misses on one side do to latency and bandwidth.

    Play every size at every ratio of lookups, and once more by messages.
    """
    curves = {size: [measure(size, ratio, design=by_page()) for ratio in RATIOS] for size in SIZES}

    ratios = np.array(RATIOS)
    slopes, fits = [], []  # of the straight line through latency by ratio, and its R^2
    for curve in curves.values():
        latencies = np.array([point.latency_us for point in curve])
        slope, start = np.polyfit(ratios, latencies, 1)
        left = latencies - (start + slope * ratios)
        slopes.append(float(slope))
        fits.append(float(1 - (left**2).sum() / ((latencies - latencies.mean()) ** 2).sum()))
    outcome.shape("latency-is-linear", min(fits) >= LINEAR, f"R^2 of {min(fits):.6f} or more")
    outcome.shape(
        "larger-messages-rise-more",
        slopes[0] > 0 and rising(slopes),
        ", ".join(f"{size} B {slope:.1f} us" for size, slope in zip(SIZES, slopes, strict=True)),
    )

    rates = {size: [point.mbytes_s for point in curve] for size, curve in curves.items()}
    falls = {size: [a - b for a, b in pairwise(rate)] for size, rate in rates.items()}
    outcome.shape(
        "bandwidth-falls",
        all(fall > 0 for each in falls.values() for fall in each),
        ", ".join(f"{size} B {rate[0]:.1f} to {rate[-1]:.2f} MB/s" for size, rate in rates.items()),
    )
    outcome.shape(
        "bandwidth-falls-fastest-at-first",
        all(each[0] == max(each) for each in falls.values()),
        ", ".join(
            f"{size} B {each[0]:.2f}, then {max(each[1:]):.2f} MB/s" for size, each in falls.items()
        ),
    )
    lost = {size: rate[0] - rate[HALF] for size, rate in rates.items()}
    outcome.shape("larger-messages-lose-more", rising(lost.values()), _losses(lost))
    # The other reading: a message misses once, whatever its length, or not at all.
    by_message = {
        size: measure(size, 0.0).mbytes_s - measure(size, RATIOS[HALF]).mbytes_s for size in SIZES
    }
    outcome.shape(
        "per-message-loses-less",
        all(
            abs(by_message[size] / each - 1) <= AGREE if size <= PAGE else by_message[size] < each
            for size, each in lost.items()
        ),
        f"per message {_losses(by_message)}",
    )

    points = [point for curve in curves.values() for point in curve]
    worst = max(
        abs(point.misses / -(-point.byte_count // PAGE) - point.asked * ROUND_TRIPS)
        for point in points
    )
    other = max(point.other_misses for point in points)
    outcome.shape(
        "misses-on-one-side",
        other == 0 and worst <= 1,
        f"{other} misses where the ping-pong begins, elsewhere off by {worst:.2g} of "
        f"{ROUND_TRIPS} messages",
    )

    # Of messages with one lookup: of the missing trips by their stations, else by themselves.
    off, unlike = 0.0, 0.0
    for size in (size for size in SIZES if size <= PAGE):
        whole = curves[size][0].hit_us
        assert whole is not None
        for point in curves[size]:
            hits = [trip.round_trip_us for trip in point.trips if not trip.missed]
            parts = point.parts
            added = 0.0 if parts is None else (len(point.trips) - len(hits)) * sum(parts)
            latency = (sum(hits) + added) / len(point.trips) / 2
            off = max(off, abs(latency / point.latency_us - 1))
            if parts is not None:
                unlike = max(unlike, abs(parts.sending_again / whole - 1))
    large = curves[PAGE][-1].parts
    assert large is not None
    outcome.shape(
        "parts-add-up",
        off < 1e-9 and unlike < LIKE_A_ROUND_TRIP,
        f"to {off:.1g}; sending again is a round trip without a miss to {100 * unlike:.0f} %; "
        f"{PAGE} B: "
        + ", ".join(f"{name} {value:.1f} us" for name, value in large._asdict().items()),
    )


def _losses(lost: dict[int, float]) -> str:
    return ", ".join(f"{size} B {each:.1f} MB/s" for size, each in lost.items())


BYTES = 64
TRIPS = 20
PLACES = {"low": Fraction(0), "high": Fraction(1)}
BEST = (16384, 64, 4)  # entries, entries of a line, ways
CACHES = ((8192, 8, 2), (8192, 128, 8), BEST, (32768, 16, 8), (32768, 128, 2))
FIRST_USES = 5
PROCESSORS = 2  # of a node (miNI, Table II)
PROGRAM_US = 100.0  # a busy program works without rest, so long at a time


class Penalties(NamedTuple):
    """Of every miss of a run, in us."""

    delays: list[float]
    processings: list[float]


def miss_penalty(outcome: Outcome, item: Item) -> None:
    """MiNI V.C: delay and processing of misses, from the kernel thread of a running node.

    Measure at both ends of the delay's range, for several caches, with pages pinned before or by
    the miss, and beside busy programs.
    """
    ends = {name: _penalties(place=place) for name, place in PLACES.items()}
    means = {
        name: (sum(found.delays) + sum(found.processings)) / len(found.delays)
        for name, found in ends.items()
    }
    outcome.measure(item, penalty_of_entries_that_the_host_has=means.get)
    pinning = {cache: _penalties(cache=cache, trips=FIRST_USES, pinned=False) for cache in CACHES}
    every = [*ends.values(), *pinning.values()]
    delays = [each for found in every for each in found.delays]
    processings = [each for found in every for each in found.processings]
    outcome.shape(
        "ranges-hold-on-an-idle-host",
        _within(delays, item.printed["delay_us"])
        and _within(processings, item.printed["processing_us"]),
        f"{_span(delays)} and {_span(processings)} us",
    )

    by_cache = [[*map(_sorted, _penalties(cache=cache))] for cache in CACHES]
    caches = ", ".join(f"C{entries // 1024} L{line} A{ways}" for entries, line, ways in CACHES)
    outcome.shape(
        "cache-does-not-matter-where-nothing-is-pinned",
        all(one == by_cache[0] for one in by_cache),
        f"{caches}: {_span(by_cache[0][0])} and {_span(by_cache[0][1])} us",
    )
    by_line: dict[int, set[float]] = {line: set() for line in sorted(line for _, line, _ in CACHES)}
    for (_, line, _), found in pinning.items():
        by_line[line].update(_sorted(found.processings))
    waiting = [_sorted(found.delays) for found in pinning.values()]
    outcome.shape(
        "longer-lines-take-longer-to-pin",
        all(max(short) < min(long) for short, long in pairwise(by_line.values()))
        and all(one == waiting[0] for one in waiting),
        "; ".join(f"lines of {line}: {_span(found)} us" for line, found in by_line.items()),
    )

    idle, one, all_ = (_penalties(busy_programs=many) for many in range(PROCESSORS + 1))
    alike = [_span(found.processings) for found in (idle, one, all_)]
    outcome.shape(
        "a-busy-host-delays",
        max(all_.delays) > max(idle.delays)
        and _sorted(one.delays) == _sorted(idle.delays)
        and len(set(alike)) == 1,
        f"{_span(idle.delays)} us idle, {_span(one.delays)} with one processor busy, "
        f"{_span(all_.delays)} with both; processing {', '.join(alike)} us",
    )


def _penalties(
    cache: tuple[int, int, int] = BEST,
    place: Fraction | None = None,
    *,
    trips: int = TRIPS,
    busy_programs: int = 0,
    pinned: bool = True,
) -> Penalties:
    entries, line, ways = cache
    settings = [f"entries={entries}", f"line={line}", f"ways={ways}"]
    design = with_settings(load_design("mini"), settings)
    found = measure(
        BYTES, 1.0, trips, design, place,
        busy_us=PROGRAM_US if busy_programs else 0.0, busy_programs=busy_programs, pinned=pinned,
    )  # fmt: skip
    parts = [trip.parts for trip in found.trips if trip.parts is not None]
    return Penalties([each.delay for each in parts], [each.processing for each in parts])


def _sorted(values: Iterable[float]) -> list[float]:
    return sorted(round(each, 6) for each in values)


def _within(values: list[float], bounds: list[float]) -> bool:
    slack = 1e-6  # of adding floats
    return bounds[0] - slack <= min(values) and max(values) <= bounds[1] + slack


def _span(values: Collection[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"
