"""Whether what a NIC has to hold fits into the memory that its platform states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.config.platform import Platform

WORD = "nic_memory_bytes"  # of ``[machine]``


def excess_of(parts: Mapping[str, int], platform: Platform) -> str | None:
    """What does not fit, in words, and by how much; None if all does, or no size is stated.

    ``parts``: bytes of each structure, queue and buffer on the NIC.
    """
    stated = platform.machine.get(WORD)
    total = sum(parts.values())
    if stated is None or total <= stated.value:
        return None
    largest = sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    listed = ", ".join(f"{name} {size:,}" for name, size in largest if size)
    return (
        f"the NIC would have to hold {total:,} bytes ({listed}), and that of platform "
        f"{platform.name!r} has {stated.value:,} ({stated.origin.source}): "
        f"{total - stated.value:,} too many"
    )
