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
    # Whether what the other end of a transfer looks up is in their traces, and their programs are
    # kept beside them.
    served: bool = False


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
        served=True,
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
