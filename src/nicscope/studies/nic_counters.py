"""An RDMA NIC's counts by the names under which a real one's tools show them.

Sources: Neo-Host's and the exporters' names, github.com/thushjandan/pifina (constants of the
models); FreeBSD's names and numbers, sys/dev/mlx5/diagnostics.h; what ``rdma statistic`` has,
Linux, drivers/infiniband/hw/mlx5/counters.c, in which no cache of translations is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.scheme import Scheme
from nicscope.errors import DesignError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nicscope.config.design import Design


class Tool(NamedTuple):
    """A tool that shows a NIC's counters: its names for our counts, and what it has none for."""

    title: str
    names: Mapping[str, str]  # ours: its own
    without: str  # what of ours it does not show


_LEVELS = [(level, table) for table in ("MTT", "MPT") for level in (0, 1)]
TOOLS = {
    "neohost": Tool(
        "Neo-Host",
        {
            f"{table.lower()}_l{level}_{ours}": f"Level {level} {table} Cache {its}"
            for level, table in _LEVELS
            for ours, its in (("hits", "Hit"), ("misses", "Miss"))
        }
        | {"indirect_lookups": "Indirect Memory Key Access", "icm_fetches": "ICM Cache Miss"},
        "what is registered (regions, page entries, their bytes)",
    ),
    "freebsd": Tool(
        "FreeBSD's mlx5 diagnostics",
        {
            "mtt_l0_misses": "l0_mtt_miss (0x0801)",
            "mtt_l0_hits": "l0_mtt_hit (0x0802)",
            "mtt_l1_misses": "l1_mtt_miss (0x0803)",
            "mtt_l1_hits": "l1_mtt_hit (0x0804)",
            "mpt_l0_misses": "l0_mpt_miss (0x0805)",
            "mpt_l0_hits": "l0_mpt_hit (0x0806)",
            "mpt_l1_misses": "l1_mpt_miss (0x0807)",
            "mpt_l1_hits": "l1_mpt_hit (0x0808)",
            "indirect_lookups": "tpt_indirect_mem_key (0x2801)",
        },
        "fetches from host memory (icm_fetches), and what is registered",
    ),
    "rdma": Tool(
        "rdma statistic",
        {},
        "hits, misses and fetches: mlx5's hw_counters count none of its caches of translations; "
        "Neo-Host, or FreeBSD's diagnostics, do",
    ),
}


class Counter(NamedTuple):
    """One counter of one design's NICs, under its tool's name."""

    design: str
    name: str
    value: int


def tool_named(name: str, designs: Iterable[Design]) -> Tool:
    """The tool of that name; errors: ``DesignError`` if there is none, or nothing to show in it."""
    if name not in TOOLS:
        raise DesignError(f"--counters: no {name!r}{did_you_mean(name, list(TOOLS))}")
    if all(design.scheme is not Scheme.RNIC for design in designs):
        raise DesignError(
            f"--counters {name}: {TOOLS[name].title} shows the counters of RDMA NICs, and no "
            "design here is of scheme rnic; add --design rnic"
        )
    return TOOLS[name]


def counters_of(
    tool: Tool, found: Sequence[tuple[Design, Mapping[str, int | None]]]
) -> list[Counter]:
    """What ``tool`` would show of each RDMA NIC of ``found``: designs and their counts."""
    return [
        Counter(design.name, name, total[ours] or 0)
        for design, total in found
        if design.scheme is Scheme.RNIC
        for ours, name in tool.names.items()
    ]
