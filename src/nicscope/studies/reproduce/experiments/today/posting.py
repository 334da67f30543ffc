"""What posting work requests takes: reads that are spared, and blocks that are too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item, Outcome

KIB = 1024
GB = 10**9


def t16(outcome: Outcome, item: Item) -> None:
    """A small write whose bytes stand in its doorbell spares a read of host memory."""
    for read, us in item.derived["read_us"].items():
        outcome.point("saved", "us", float(us), read=read)


def t17(outcome: Outcome, item: Item) -> None:
    """Blocks by size over EFA: posted at a rate, and moved at the links' rate."""
    blocks = [int(kib) * KIB for kib in item.printed["block_kib"]]
    posted_s = float(item.printed["gbytes_per_s"][0]) * GB / blocks[0]
    links = float(item.derived["nics"] * item.derived["link_gbits_s"]) / 8
    for block in blocks:
        found = min(posted_s * block / GB, links)
        outcome.point("bandwidth", "GB/s", found, kib=block // KIB)
