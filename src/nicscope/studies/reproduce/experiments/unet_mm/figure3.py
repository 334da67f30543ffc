"""U-Net/MM, Figure 3: misses in four of its Split-C programs, by a large and a small TLB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.split_c import PATHS, PUBLISHED, Bench, Found, Workload, measure
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.reproduce.verdict import Item

WORKLOADS: Sequence[Workload] = PUBLISHED
LARGE, SMALL = Bench(entries=1024), Bench(entries=256)
FITTING = ("multiply", "small")  # programs that use few pages


def run(item: Item) -> Outcome:
    """Run every program under both tables; each is run twice in all."""
    del item
    outcome = Outcome()
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
        "; ".join(in_four(found) for found in runs[LARGE].values()),
    )
    few = [found for workload, found in runs[SMALL].items() if workload.kind in FITTING]
    many = [found for workload, found in runs[SMALL].items() if workload.kind not in FITTING]
    outcome.shape(
        "small-messages-and-matrices-fit-256",
        all(not any(found.noncompulsory) for found in few),
        "; ".join(in_four(found) for found in few),
    )
    outcome.shape(
        "large-messages-miss-at-256",
        all(all(found.noncompulsory) for found in many),
        "; ".join(in_four(found) for found in many),
    )
    return outcome


def in_four(found: Found) -> str:
    """One line: misses in percent of lookups, not compulsory and compulsory, on each path."""
    parts = []
    for path in PATHS:
        others, first = (found.percent(path, compulsory) for compulsory in (False, True))
        parts.append(f"{path} {others:.2f}+{first:.2f}")
    return f"{found.workload} (entries={found.entries}, pages={found.pages}) {', '.join(parts)} %"
