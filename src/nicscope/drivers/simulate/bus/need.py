"""What hosts with caches, and the interfaces at their buses, take in memory, before any is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.bus.parameters import unfitted
from nicscope.memory.coherence.layout import LINE, host_settings
from nicscope.memory.coherence.watcher import COPY
from nicscope.nic.coherent.layout import TAG, nic_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_BYTES = 4  # of where a block of the host, or of the NIC, stands
NODE_BYTES = 1 << 16  # of registers, queues, and of the firmware's tables
PAGE, PAGE_BYTES = 4096, 64  # of a page that a program may allocate


def bytes_at_buses(nodes: int, host: Mapping[str, int], nic: Mapping[str, int], tags: int) -> int:
    """Bytes that so many of them take at most; 0 of what it refuses."""
    try:
        values = host_settings(unfitted().host | dict(host))
        settings = nic_settings(unfitted().nic | dict(nic))
    except ValueError:
        return 0
    block = values["l2_line"]
    caches = sum(
        values[f"{level}_bytes"]
        + values[f"{level}_bytes"] // values[f"{level}_line"] * LINE.itemsize
        for level in ("l1", "l2")
    )
    room, watched = values["memory_bytes"], settings["memory_bytes"]
    copies = watched // block * (COPY.itemsize + HOME_BYTES) + watched
    staging = settings["staging_bytes"] + 2 * block
    pages = room // PAGE * PAGE_BYTES
    small = tags * TAG.itemsize + NODE_BYTES
    return nodes * (caches + room + room // block * HOME_BYTES + copies + staging + pages + small)
