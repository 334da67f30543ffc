"""Which programs the papers' tables are of, at which sizes, and where they run.

``SMALL`` sizes are another experiment than the paper's: the caches and pin limits that a study sets
are made smaller with them, by the workload's ``reduction``.  ``PAPER`` sizes are the paper's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

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


WORKLOADS = {
    # About a quarter of the pages that a node uses at the paper's sizes, of Raytrace a ninth.
    "utlb": Workload(
        (
            Program("Barnes", "barnes", "8K", "32K"),
            Program("FFT", "fft", "1M", "4M"),
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
