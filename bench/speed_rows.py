"""The rows of speed.py: work of nicscope, and beside each fixed work of the same nature.

Lookups stand beside loops over the same lookups, which must count the same; events beside events
of a plain heap; programs in Python beside a program in Python; a start beside a start.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import compiled  # noqa: F401 - rates are those of compiled code

# isort: split
import bench_onepass
import bench_verbs
import bench_via
import numpy as np
import plain_loops
from bench_ports import scripted
from bench_replay import cpu_seconds
from peers import pycachesim_misses
from streams import PAGE_BITS, PAGES, Accesses, accesses, as_addresses, as_requests
from workload import workload

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.replay import replay
from nicscope.drivers.translation import OFFSET_STEP
from nicscope.interfaces.verbs.base import World, use
from nicscope.interfaces.verbs_device.device import Device
from nicscope.interfaces.via import Reliability
from nicscope.kernel.settings import CHECKED, MODE, WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOKUPS = 3_000_000
GRID_LOOKUPS = 1_000_000
ENTRIES = 8192
STORES, MESSAGES, TRIPS = 60_000, 4000, 1500
EVENTS = 5_000_000  # of the plain heap
PLAIN_MESSAGES = 3000
STARTS = 3
# What a plain start imports: about as much as `nicscope --help`, and nothing to install.
MODULES = (
    "argparse, asyncio, csv, decimal, difflib, email.message, fractions, http.server,"
    "importlib.metadata, json, logging.config, multiprocessing.pool, pydoc, statistics, tarfile,"
    "unittest.mock, urllib.request, xml.dom.minidom, xmlrpc.client, zipfile"
)


class Row(NamedTuple):
    """Two jobs that are run in turns; each says how many CPU seconds it took."""

    name: str
    beside: str
    own: Callable[[], float]
    other: Callable[[], float]


def rows() -> list[Row]:
    """Every row, each job having been run once: what is compiled is, and counts agree."""
    if MODE.name != WAIT or CHECKED:
        sys.exit("speed: rates are those of compiled code: unset NUMBA_* and NICSCOPE_COMPILE")
    made = [*_replays(accesses(LOOKUPS)), *_one_pass(), *_simulations(), *_starts()]
    gc.collect()
    gc.freeze()  # millions of addresses, which no collection during a program need look at
    return made


def _beside(
    name: str, beside: str, own: Callable[[], Any], other: Callable[[], Any], times: int = 1
) -> Row:
    """A row of two jobs that return the same; the other is run several times, if it is short."""
    expected, found = other(), own()
    if not np.array_equal(found, expected):
        sys.exit(f"speed: {name}: {expected} counted by {beside}, {found} here")

    def several() -> None:
        for _ in range(times):
            other()

    return Row(name, beside, lambda: cpu_seconds(own), lambda: cpu_seconds(several) / times)


def _replays(some: Accesses) -> Iterator[Row]:
    columns, addresses = as_requests(some), as_addresses(some)
    pages = some.page.astype(np.uint32)
    spread = pages + some.process.astype(np.uint32) * np.uint32(OFFSET_STEP)

    def misses(design: str, *settings: str, kinds: bool = False) -> Callable[[], Any]:
        made = with_settings(load_design(design), settings)
        asked = ("compulsory", "capacity", "conflict") if kinds else ()
        names = [f"ni_misses_{kind}" for kind in asked] or ["ni_misses"]

        def count() -> list[int | None]:
            (result,) = replay([columns], [made], kinds)
            return [result.total[name] for name in names]

        return count

    for title, ways in (("direct-mapped", 1), ("4-way", 4)):

        def peer(ways: int = ways) -> list[int]:
            return [pycachesim_misses(ENTRIES // ways, ways, 1 << PAGE_BITS, addresses)]

        own = misses("utlb", f"entries={ENTRIES}", f"ways={ways}")
        yield _beside(f"replay, utlb {title}", "pycachesim", own, peer)
    yield _beside(
        "replay, utlb 4-way, kinds",
        "plain loop",
        misses("utlb", f"entries={ENTRIES}", "ways=4", kinds=True),
        lambda: plain_loops.kinds(some.number, spread, ENTRIES // 4, 4, PAGES),
        times=3,
    )
    yield _beside(
        "replay, unet-mm",
        "plain loop",
        misses("unet-mm-pca200"),
        lambda: [plain_loops.misses_with_victims(some.number, pages, 1024, 16)],
        times=2,
    )
    lines = pages >> np.uint32(6)
    numbers = lines + (some.process.astype(np.uint32) << np.uint32(16))
    yield _beside(
        "replay, handle",
        "plain loop",
        misses("mini"),
        lambda: plain_loops.depths(numbers, lines, 16384 // 64 // 4, 4)[-1:],
        times=6,
    )


def _one_pass() -> Iterator[Row]:
    lookups = workload(LOOKUPS, PAGES)
    yield _beside(
        "curve, 50,000 pages",
        "plain loop",
        lambda: LruCurve().feed(lookups.numbers).result().misses[1:],
        lambda: LOOKUPS - np.cumsum(plain_loops.distances(lookups.numbers, PAGES)),
    )
    few = type(lookups)(*(column[:GRID_LOOKUPS] for column in lookups))
    low, high, ways = bench_onepass.SET_BITS[0], bench_onepass.SET_BITS[-1], bench_onepass.WAYS[-1]

    def grid() -> Any:
        found = plain_loops.grid(*few, low, high, ways)
        return GRID_LOOKUPS - np.cumsum(found, axis=1)[:, :-1]

    title = f"grid, {high - low + 1} set counts, {ways} ways"
    yield _beside(title, "plain loop", lambda: bench_onepass.grid(few, False), grid)


def _simulations() -> Iterator[Row]:
    def heap() -> float:
        return cpu_seconds(lambda: plain_loops.hold(EVENTS))

    def program() -> float:
        return cpu_seconds(lambda: plain_loops.interpreted(PLAIN_MESSAGES))

    def via(trips: int) -> float:
        level = Reliability.VIP_SERVICE_RELIABLE_DELIVERY
        return cpu_seconds(lambda: bench_via.play("pci", 256, trips, level))

    world = World(Device("vmmc-interrupt"))
    use(world)
    ends = [bench_verbs.End(world.name) for _ in range(2)]
    for end, peer in zip(ends, reversed(ends), strict=True):
        end.connect(peer)
    for row in (
        Row(
            "stores of 64 B on scripted ports",
            "plain heap",
            lambda: cpu_seconds(lambda: scripted(2, 1, STORES, 64, 8)),
            heap,
        ),
        Row(
            "verbs in Python, 64 B",
            "plain Python",
            lambda: cpu_seconds(lambda: bench_verbs.ping_pong(*ends, MESSAGES)),
            program,
        ),
        Row("VIA in Python, 256 B", "plain Python", lambda: via(TRIPS), program),
    ):
        row.own()
        row.other()
        yield row


def _starts() -> Iterator[Row]:
    def started(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(STARTS):
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    for name, arguments in (
        ("import nicscope", ("-c", "import nicscope")),
        ("nicscope --help", ("-m", "nicscope", "--help")),
    ):
        row = Row(
            name,
            "plain imports",
            lambda arguments=arguments: started(*arguments),
            lambda: started("-c", f"import {MODULES}"),
        )
        row.own()
        row.other()
        yield row
