"""A host's memory that turns out to need more pages, frames or swap blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.records import as_records
from nicscope.memory.paging.layout import new_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory.paging.layout import HostMemory


def grown_memory(old: HostMemory, frames: int, pages: int, blocks: int) -> HostMemory:
    """The same memory with room for so many, none of them fewer; pages that are new are unmapped.

    Frames and blocks that are new are handed out before those that were free.
    """
    hosts, spaces, _ = old.entries.shape
    page_size = int(old.config["page_size"][0])
    sizes = frames, page_size, spaces, pages, blocks
    new = new_memory(hosts, *sizes)._replace(config=old.config, spaces=old.spaces)
    grown = new._replace(
        hosts=as_records(old.hosts.copy()),
        entries=_over(new.entries, old.entries),
        frames=_over(new.frames, old.frames),
        bytes=_over(new.bytes, old.bytes),
        blocks=_over(new.blocks, old.blocks),
        block_bytes=_over(new.block_bytes, old.block_bytes),
        caches=old.caches,
    )
    more = {
        "frame": (grown.frames, old.frames.shape[1], frames),
        "block": (grown.blocks, old.blocks.shape[1], blocks),
    }
    for name, (records, had, has) in more.items():
        if has > had:
            records["next_free"][:, had:] = np.arange(had + 1, has + 1)
            records["next_free"][:, has - 1] = old.hosts[f"free_{name}"]
            grown.hosts[f"free_{name}"] = had
            grown.hosts[f"free_{name}s"] += has - had
    return grown


def _over(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
    """``new`` with all that ``old`` has of it."""
    new[tuple(slice(0, length) for length in old.shape)] = old
    return new
