"""The caches of an RDMA NIC as a design has them, and what they take on the NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.delivery import ServedBy
from nicscope.nic.translate.rnic import MPT_BYTES, MTT_BYTES, TAG_BYTES, Rnic, new_rnic

if TYPE_CHECKING:
    from nicscope.config.design import Design


def rnic_caches(design: Design, *, with_pages: bool = True) -> Rnic:
    """Tags alone; the second level of regions is that of pages where the design shares it.

    ``with_pages``: the first level of pages too, which another cache is where they have frames.
    """
    line = design.line or 1
    pages = (design.entries or 0) // line if with_pages else 0
    rnic = new_rnic(
        (pages, design.ways or 1),
        (design.mpt_entries or 0, design.mpt_ways or 1),
        ((design.l1_entries or 0) // line, design.l1_ways or 1),
        (design.mpt_l1_entries or 0, design.mpt_l1_ways or 1),
    )
    return rnic._replace(regions_1=rnic.pages_1) if design.l1_shared else rnic


def rnic_bytes(design: Design) -> dict[str, int]:
    """Bytes of NIC memory of the caches of ``design``; none where the host's kernel translates.

    A level that regions share has room for the larger of a line and a region's entry.
    """
    if design.served_by == ServedBy.KERNEL:
        return {}
    line = design.line or 1
    pages, further = (design.entries or 0) // line, (design.l1_entries or 0) // line
    regions, own = design.mpt_entries or 0, design.mpt_l1_entries or 0
    each = max(line * MTT_BYTES, MPT_BYTES) if design.l1_shared else line * MTT_BYTES
    found = {
        "mtt_l0": pages * line * MTT_BYTES,
        "mpt_l0": regions * MPT_BYTES,
        "mtt_l1": further * each,
        "mpt_l1": own * MPT_BYTES,
        "level_tags": (pages + regions + further + own) * TAG_BYTES,
    }
    return {name: size for name, size in found.items() if size}
