"""The Split-C programs of U-Net/MM 6.2 and Figure 3: misses in four, and whether they are right.

Sizes may be scaled down together, pages and entries alike, so that tests take seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.apps.split_c.matrix import Blocking, multiply
from nicscope.apps.split_c.sorts import radix_sort, sample_sort
from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
from nicscope.interfaces.unet import Cluster
from nicscope.interfaces.unet.active_messages import ActiveMessages
from nicscope.studies.reproduce.experiments.unet_mm import sockets
from nicscope.studies.reproduce.experiments.unet_mm.sockets import MissesInFour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.unet import Process
    from nicscope.studies.reproduce.verdict import Item, Outcome

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


class Found(MissesInFour, frozen=True):
    """What a run showed."""

    right: bool
    elapsed_us: float
    lost: int  # messages


def measure(workload: Workload, bench: Bench, faults: Faults | None = None) -> Found:
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


WORKLOADS: Sequence[Workload] = PUBLISHED
LARGE, SMALL = Bench(entries=1024), Bench(entries=256)
FITTING = ("multiply", "small")  # programs that use few pages


def figure3(outcome: Outcome, item: Item) -> None:
    """U-Net/MM, Figure 3: misses in four of its Split-C programs, by a large and a small TLB.

    Run every program under both tables; each is run twice in all.
    """
    del item
    runs = {
        bench: {workload: measure(workload, bench) for workload in WORKLOADS}
        for bench in (LARGE, SMALL)
    }
    every = [found for of_bench in runs.values() for found in of_bench.values()]
    outcome.shape(
        "results-are-right",
        all(found.right and not found.lost for found in every),
        f"{sum(found.right for found in every)} of {len(every)} right, "
        f"{sum(found.lost for found in every)} messages lost",
    )
    outcome.shape(
        "none-but-compulsory-at-1024",
        all(not any(found.noncompulsory) for found in runs[LARGE].values()),
        "; ".join(found.in_four() for found in runs[LARGE].values()),
    )
    few = [found for workload, found in runs[SMALL].items() if workload.kind in FITTING]
    many = [found for workload, found in runs[SMALL].items() if workload.kind not in FITTING]
    outcome.shape(
        "small-messages-and-matrices-fit-256",
        all(not any(found.noncompulsory) for found in few),
        "; ".join(found.in_four() for found in few),
    )
    outcome.shape(
        "large-messages-miss-at-256",
        all(all(found.noncompulsory) for found in many),
        "; ".join(found.in_four() for found in many),
    )
    [interactive] = sockets.measure(sockets.users(), (sockets.LARGE,))
    receiving = {
        found.workload: found.percent("receive", compulsory=True)
        for found in (interactive, *runs[LARGE].values())
    }
    outcome.shape(
        "interactive-users-lead",
        max(receiving, key=receiving.__getitem__) == interactive.workload,
        ", ".join(f"{workload} {percent:.2f}" for workload, percent in receiving.items()) + " %",
    )
