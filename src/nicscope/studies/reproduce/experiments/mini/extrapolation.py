"""miNI II and V.A: a static table for 64 GB of host memory, from what ours takes per page."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from nicscope.config.design import load_design, with_settings
from nicscope.studies.reproduce.nic_memory import nic_memory_bytes
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

SIZES = (2**15, 2**16)  # two tables: their difference is what entries alone take
PAGE = 4096  # bytes
MB = 2**20


def run(item: Item) -> Outcome:
    """Extend the bytes per entry of our static table to every page of the host memory."""
    printed = item.printed
    small, large = (_table_bytes(entries) for entries in SIZES)
    per_entry = Fraction(large - small, SIZES[1] - SIZES[0])
    table = float(per_entry * printed["host_memory_gbytes"] * 2**30 / PAGE / MB)
    outcome = Outcome()
    outcome.point("static_table", "MB", table, section="II")
    outcome.shape(
        "thirty-two-or-sixty-four",
        abs(table - printed["static_table_mbytes_section_2"])
        < abs(table - printed["static_table_mbytes_section_5"]),
        f"{float(per_entry):g} bytes for each 4 KB page: {table:g} MB",
    )
    return outcome


def _table_bytes(entries: int) -> int:
    design = with_settings(load_design("vmmc-static"), [f"entries={entries}"])
    return sum(nic_memory_bytes(design).values())
