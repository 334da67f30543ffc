"""Misses in four of U-Net/MM 6.2 and Figure 3: its Split-C programs, and its interactive users.

Sizes of programs may be scaled down together, pages and entries alike, so that tests take seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.apps.split_c import Blocking, multiply, radix_sort, sample_sort
from nicscope.config.design import load_design
from nicscope.drivers.replay import replay
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
from nicscope.interfaces.active_messages import ActiveMessages
from nicscope.interfaces.unet import Cluster, Process
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


PATHS = ("send", "receive")


class MissesInFour(msgspec.Struct, frozen=True):
    """What a workload's lookups found in a table of so many entries."""

    workload: str
    entries: int
    counts: dict[str, int]  # sums over nodes
    pages: int  # that messages used, on the node that used most

    def misses(self, path: str, compulsory: bool) -> int:
        """One of the four ways to miss."""
        first = self.counts[f"ni_misses_{path}_compulsory"]
        return first if compulsory else self.counts[f"ni_misses_{path}"] - first

    def percent(self, path: str, compulsory: bool) -> float:
        """The same in percent of all lookups."""
        return 100 * self.misses(path, compulsory) / self.counts["lookups"]

    @property
    def noncompulsory(self) -> tuple[int, ...]:
        """Misses that are not compulsory, when sending and when receiving."""
        return tuple(self.misses(path, compulsory=False) for path in PATHS)

    def in_four(self) -> str:
        """One line: misses in percent of lookups, not compulsory and compulsory, on each path."""
        parts = []
        for path in PATHS:
            others, first = (self.percent(path, compulsory) for compulsory in (False, True))
            parts.append(f"{path} {others:.2f}+{first:.2f}")
        return f"{self.workload} (entries={self.entries}, pages={self.pages}) {', '.join(parts)} %"


PAGE = 4096
SEED = 1997


class Bench(NamedTuple):
    """What the programs run on; U-Net/MM 6.2 prints all but ``nodes`` and ``answers``."""

    entries: int = 1024
    victims: int = 16
    nodes: int = 4
    buffers: int = 64  # for messages, on each node
    answers: int = 16  # that answers are copied to


class Workload(NamedTuple):
    """A program and its size: keys of each node, or a blocking."""

    name: str
    kind: str  # "multiply", "radix", "small" or "large"
    keys: int = 0
    blocking: Blocking = Blocking(0, 0)
    digits: int = 4
    digit_bits: int = 8


KEYS = 256 * 1024
# Figure 3's labels.  Two of them say 8x8 and 128x128, the text 8 by 8 blocks of 128 by 128 doubles
# and 16 by 16 of 16 by 16; which bar is which is not clear, so these are named by their blocks.
PUBLISHED = (
    Workload("mm of 8x8 blocks", "multiply", blocking=Blocking(8, 128)),
    Workload("mm of 16x16 blocks", "multiply", blocking=Blocking(16, 16)),
    Workload("rsort-lg", "radix", KEYS),
    Workload("ssort-sm", "small", KEYS),
    Workload("ssort-lg", "large", KEYS),
)


WORKLOADS: Sequence[Workload] = PUBLISHED
LARGE, SMALL = Bench(entries=1024), Bench(entries=256)


class Found(MissesInFour, frozen=True):
    """What a run showed."""

    right: bool
    elapsed_us: float
    lost: int  # messages


def of_program(workload: Workload, bench: Bench, faults: Faults | None = None) -> Found:
    """Run ``workload`` and check its result; ``faults`` of the network are the layer's to mend."""
    design = msgspec.structs.replace(
        load_design("unet-mm-pca200"), entries=bench.entries, victim_entries=bench.victims
    )
    random = np.random.default_rng(SEED)
    size = workload.blocking.blocks * workload.blocking.size
    # Whole numbers, so that the product is exact in whatever order it is summed.
    whole = random.integers(-9, 9, (2, size, size)).astype(np.float64)
    factors = (whole[0], whole[1])
    bits = workload.digits * workload.digit_bits if workload.kind == "radix" else 32
    keys = random.integers(0, 1 << bits, (bench.nodes, workload.keys), np.uint32)
    pages = _pages(workload, bench)
    cluster = Cluster(
        design,
        nodes=bench.nodes,
        size=PortSize(ring=64 + bench.buffers, ready=bench.buffers, channels=2 * bench.nodes),
        host=HostSize(frames=pages + 64, pages_per_space=pages, swap_blocks=pages),
        faults=faults,
    )

    async def program(process: Process) -> Any:
        messages = ActiveMessages(process, bench.nodes, bench.buffers, bench.answers)
        await messages.open()
        found = await result_of(process, messages)
        if faults is not None:
            await messages.linger()
        return found

    async def result_of(process: Process, messages: ActiveMessages) -> Any:
        mine = keys[process.node]
        if workload.kind == "multiply":
            return await multiply(process, messages, workload.blocking, factors)
        if workload.kind == "radix":
            return await radix_sort(process, messages, mine, workload.digits, workload.digit_bits)
        return await sample_sort(process, messages, mine, large=workload.kind == "large")

    for node in range(bench.nodes):
        cluster.start(node, program)
    results = cluster.run()
    counts = [cluster.counts(node) for node in range(bench.nodes)]
    report = cluster.report()
    if workload.kind == "multiply":
        right = _is_product(results, factors, workload.blocking)
    else:
        right = np.array_equal(np.concatenate(results), np.sort(keys.ravel()))  # type: ignore[arg-type]
    dropped = report.total.received.dropped or {}
    return Found(
        workload=workload.name,
        entries=bench.entries,
        right=bool(right),
        counts={name: sum(one[name] or 0 for one in counts) for name in counts[0]},
        pages=max(one["ni_misses_compulsory"] or 0 for one in counts),
        elapsed_us=report.elapsed_us,
        lost=sum(dropped[name] for name in ("buffer", "report")),
    )


def _pages(workload: Workload, bench: Bench) -> int:
    """Pages that a process may come to have."""
    bytes_of_keys = workload.keys * 4
    owned = len(workload.blocking.owned(0, bench.nodes)) * workload.blocking.block_bytes
    rooms = 2 * owned + 2 * workload.blocking.block_bytes
    return bench.buffers + bench.answers + 5 * (bytes_of_keys // PAGE + 1) + rooms // PAGE + 32


def _is_product(
    results: Sequence[Any],
    factors: tuple[NDArray[np.float64], NDArray[np.float64]],
    blocking: Blocking,
) -> bool:
    expected = factors[0] @ factors[1]
    made = {number: block for result in results for number, block in result.items()}
    return len(made) == blocking.blocks**2 and all(
        np.array_equal(block, blocking.block(expected, number)) for number, block in made.items()
    )


TRACE = "sockets_interactive"
USERS_NODE = 0  # the other one has their servers
VICTIMS = 16


def users() -> Requests:
    """What the programs in use asked of their network, in the order in which they did."""
    every = open_trace(bundled_traces()[TRACE]).read()
    return _chosen(every, np.flatnonzero(every.node == USERS_NODE))


def moved(requests: Requests, at_once: int) -> Requests:
    """The same programs in use by ``at_once`` people at a time.

    The next come when the last of those before them has left; each does what was recorded of them,
    at the same pace.
    """
    times = requests.time_ns.copy()
    begin = 0
    pids = np.unique(requests.pid)
    for first in range(0, pids.size, at_once):
        end = begin
        for pid in pids[first : first + at_once]:
            mine = requests.pid == pid
            times[mine] += begin - times[mine].min()
            end = max(end, int(times[mine].max()) + 1)
        begin = end
    return _chosen(requests._replace(time_ns=times), np.argsort(times, kind="stable"))


def _chosen(requests: Requests, rows: NDArray[np.intp]) -> Requests:
    return Requests._make(column[rows] for column in requests)


def of_users(requests: Requests, sizes: Sequence[int]) -> list[MissesInFour]:
    """What U-Net/MM's table makes of ``requests``, for each of ``sizes`` in entries."""
    design = load_design("unet-mm-pca200")
    designs = [
        msgspec.structs.replace(design, entries=size, victim_entries=VICTIMS) for size in sizes
    ]
    found = []
    for size, result in zip(sizes, replay([requests], designs, kinds=False), strict=True):
        counts = {name: count or 0 for name, count in result.total.items()}
        pages = counts["ni_misses_compulsory"]
        found.append(MissesInFour("Linux", size, counts, pages))
    return found
