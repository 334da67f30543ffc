"""Memory that is there from the beginning: no page of it ever has to be brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.memory.paging.layout import NOBODY, PRESENT, READ, WRITE

if TYPE_CHECKING:
    from nicscope.memory.paging.layout import HostMemory


def make_resident(memory: HostMemory, host: int) -> None:
    """Give each page of space 0 of ``host`` a frame of its own, zeroed, readable and writable.

    ``memory`` is new, has one space per host, and a frame more than pages for the garbage page, or
    further ones at the end that are somebody's.
    """
    pages = memory.entries.shape[2]
    frames = np.arange(1, pages + 1)
    entries = memory.entries[host, 0]
    entries["frame"] = frames
    entries["state"] = PRESENT
    entries["rights"] = READ | WRITE
    taken = memory.frames[host][1 : pages + 1]
    taken["references"] = 1
    taken["page"] = frames - 1
    taken["referenced"] = 1
    taken["next_free"] = NOBODY
    memory.spaces[host, 0]["mapped"] = pages
    left = int(memory.hosts[host]["free_frames"]) - pages
    memory.hosts[host]["free_frames"] = left
    memory.hosts[host]["free_frame"] = pages + 1 if left else NOBODY
