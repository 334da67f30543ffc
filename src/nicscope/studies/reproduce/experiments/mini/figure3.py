"""miNI Figure 3: NIC memory of the best cache against the static table it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.design import load_design, with_settings
from nicscope.studies.reproduce.nic_memory import listed, nic_memory_bytes
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

KB = 1024  # bytes; the paper's own 64 GB example takes binary units


def run(item: Item) -> Outcome:
    """Lay both structures out and add up their bytes."""
    printed = item.printed
    cache = nic_memory_bytes(load_design("mini"))
    entries = item.derived["static_table_entries"]
    static = nic_memory_bytes(with_settings(load_design("vmmc-static"), [f"entries={entries}"]))
    cache_kb, static_kb = sum(cache.values()) / KB, sum(static.values()) / KB
    outcome = Outcome()
    outcome.point("best_cache_memory", "KB", cache_kb, cache="C16.L64.A4")
    outcome.shape(
        "static-table-over-256",
        static_kb >= printed["static_table_kbytes_over"],
        f"{static_kb:.1f} KB: {listed(static)} bytes",
    )
    outcome.shape(
        "cache-under-a-third",
        cache_kb < static_kb / 3,
        f"{cache_kb:.1f} of {static_kb:.1f} KB: {listed(cache)} bytes",
    )
    before, after = printed["lookup_kbytes"]
    reduction = 100 * (1 - after / before)
    outcome.shape(
        "eighty-is-seventy-five",
        reduction < printed["lookup_reduction_percent_abstract_over"],
        f"{before} to {after} KB is {reduction:.1f} % less",
    )
    return outcome
