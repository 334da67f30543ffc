"""NIC memory that a design's structures take, asked of the replay that lays them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.shared_memory_traffic import requests_at

if TYPE_CHECKING:
    from nicscope.config.design import Design


def nic_memory_bytes(design: Design) -> dict[str, int]:
    """Bytes per structure on the NIC of a node with one process."""
    from nicscope.drivers.replay import replay

    one_page = requests_at(nodes=[0], pids=[0], pages=[0], page_counts=[1])
    (result,) = replay([one_page], [design], kinds=False)
    return dict(result.nic_memory_bytes)


def listed(memory: dict[str, int]) -> str:
    """The structures and their bytes, in one line."""
    return ", ".join(f"{name} {size}" for name, size in memory.items())
