"""Arrays of the hosts' memories: frames, page tables, swap blocks, counters; made, and grown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.records import as_records
from nicscope.memory.coherence.layout import Host, no_hosts
from nicscope.memory_limit import zeroed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory_limit import Shapes


# Where a page is.
UNMAPPED = 0
DEMAND_ZERO = 1  # mapped, all zeros, nowhere
PRESENT = 2  # in ``entry.frame``
SWAPPED = 3  # in ``entry.block``

# Rights of a space to a page.
READ = 1
WRITE = 2

# What must happen before an access.
READY = 0
ZERO = 1  # a frame is to be zeroed
COPY = 2  # a frame is to be copied (copy-on-write)
DISK = 3  # a frame is to be read from swap

# Why not.
DENIED = -1  # the space lacks the right, or has not pinned the frame
NOT_MAPPED = -2
NO_FRAME = -3  # none is free and none can be reclaimed
LIMIT = -4  # the space or the host has pinned as many pages as it may
ALREADY_MAPPED = -5
OUTSIDE = -6  # pages that no page table has

GARBAGE_FRAME = 0  # always pinned, in no page table: stale transfers may go there (UTLB 4.2)
NOBODY = -1
NO_LIMIT = 1 << 62

CONFIG = np.dtype(
    [
        ("page_size", "i8"),  # bytes, a power of two
        ("page_shift", "i8"),
    ],
    align=True,
)

HOST = np.dtype(
    [
        ("free_frame", "i8"),  # the first of the chain of free frames, or NOBODY
        ("free_frames", "i8"),
        ("free_block", "i8"),
        ("free_blocks", "i8"),
        ("hand", "i8"),  # the frame at which the next search for a victim begins
        ("pinned", "i8"),  # frames with a pin, the garbage page not counted
        ("pin_limit", "i8"),  # of frames
        ("accessed", "i8"),  # the frame that the CPU works on, which stays meanwhile; 0: none
        # Work done.
        ("zeroed", "i8"),  # frames
        ("copied", "i8"),
        ("page_ins", "i8"),
        ("page_outs", "i8"),
        ("reclaimed", "i8"),  # frames taken from pages, with or without a page-out
    ],
    align=True,
)

SPACE = np.dtype(
    [
        ("mapped", "i8"),  # pages
        ("pinned", "i8"),  # frames that this space has pinned, unmapped since or not
        ("pin_limit", "i8"),
        # Faults of the space's own accesses (``access``), by what they needed.
        ("zero_faults", "i8"),
        ("copy_faults", "i8"),
        ("disk_faults", "i8"),
        ("refusals", "i8"),  # accesses refused: no right, no mapping
    ],
    align=True,
)

ENTRY = np.dtype(
    [
        ("frame", "i4"),  # if PRESENT, else NOBODY
        ("block", "i4"),  # if SWAPPED, else NOBODY
        ("state", "u1"),
        ("rights", "u1"),  # READ | WRITE
    ],
    align=True,
)

FRAME = np.dtype(
    [
        ("generation", "i8"),  # grows when what was known of the frame is no longer true
        ("references", "i4"),  # page-table entries
        ("pins", "i4"),
        ("pinner", "i4"),  # the space that pins it, or NOBODY
        ("page", "i4"),  # the virtual page, the same in every space that refers to it
        ("block", "i4"),  # a swap block with the same bytes, or NOBODY
        ("next_free", "i4"),
        ("dirty", "u1"),  # written since it was zeroed or read from swap
        ("referenced", "u1"),  # since the clock's hand passed
        ("pinned_to_write", "u1"),
    ],
    align=True,
)

BYTE = np.dtype(np.uint8)
BLOCK = np.dtype(
    [
        ("references", "i4"),  # page-table entries, and frames that keep it as their clean copy
        ("next_free", "i4"),
    ],
    align=True,
)


class HostMemory(NamedTuple):
    """The memories of all hosts; the first axis of every array but ``config`` is the host.

    Invariants, of each host:

    * A frame is free (in the chain; no references, no pins) or not; frame 0 is neither, ever.
    * A frame's references are the PRESENT entries that name it.  They have one page number in
      different spaces, as only a fork shares frames.  Every shared frame is copy-on-write.
    * All pins of a frame are one space's.  A frame that is pinned to write has no references of
      other spaces.  A pinned frame stays with its pinner's page until that is unmapped, and is
      not freed before the last unpin; its generation stays as long as it is pinned.
    * A space's ``pinned``, and the host's, are the frames with pins.
    * A frame that is not dirty has the bytes of its block, or is all zeros if it has no block; a
      dirty frame has no block.  Blocks in use are never written.
    """

    config: NDArray[Any]  # CONFIG, shape (1,)
    hosts: NDArray[Any]  # HOST, shape (hosts,)
    spaces: NDArray[Any]  # SPACE, shape (hosts, spaces)
    entries: NDArray[Any]  # ENTRY, shape (hosts, spaces, pages_per_space)
    frames: NDArray[Any]  # FRAME, shape (hosts, frames)
    bytes: NDArray[np.uint8]  # shape (hosts, frames * page_size)
    blocks: NDArray[Any]  # BLOCK, shape (hosts, swap_blocks)
    block_bytes: NDArray[np.uint8]  # shape (hosts, swap_blocks * page_size)
    caches: Host  # before ``bytes``, which is their memory; of no length if there are none


def memory_shapes(
    hosts: int, frames: int, page_size: int, spaces: int, pages_per_space: int, swap_blocks: int
) -> Shapes:
    """The arrays of a ``HostMemory``; see ``new_memory``."""
    return {
        "config": ((1,), CONFIG),
        "hosts": ((hosts,), HOST),
        "spaces": ((hosts, spaces), SPACE),
        "entries": ((hosts, spaces, pages_per_space), ENTRY),
        "frames": ((hosts, frames), FRAME),
        "bytes": ((hosts, frames * page_size), BYTE),
        "blocks": ((hosts, swap_blocks), BLOCK),
        "block_bytes": ((hosts, swap_blocks * page_size), BYTE),
    }


def new_memory(
    hosts: int,
    frames: int,
    page_size: int,
    spaces: int,
    pages_per_space: int,
    swap_blocks: int,
    *,
    space_pin_limit: int | None = None,
    host_pin_limit: int | None = None,
) -> HostMemory:
    """Memories in which nothing is mapped; of ``frames`` frames the first is the garbage page.

    ``page_size``: bytes, a power of two.  Limits: of pinned frames, None for none; a space's own
    may be changed in ``spaces[host, space]["pin_limit"]``.  Frames are handed out lowest first,
    then last freed first.  Errors: ValueError for sizes that make no memory.
    """
    if min(hosts, spaces, pages_per_space) < 1 or frames < 2 or swap_blocks < 0:
        raise ValueError("a host needs a space, a page and two frames (one is the garbage page)")
    if page_size < 1 or page_size & (page_size - 1):
        raise ValueError(f"a page of {page_size} bytes: make it a power of two")
    if max(frames, pages_per_space, swap_blocks, spaces) >= 1 << 31:
        raise ValueError("frames, pages, blocks and spaces are numbered with 31 bits")
    memory = HostMemory(
        **zeroed(memory_shapes(hosts, frames, page_size, spaces, pages_per_space, swap_blocks)),
        caches=no_hosts(),
    )
    memory.config["page_size"] = page_size
    memory.config["page_shift"] = page_size.bit_length() - 1
    memory.spaces["pin_limit"] = NO_LIMIT if space_pin_limit is None else space_pin_limit
    memory.entries["frame"] = NOBODY
    memory.entries["block"] = NOBODY
    for name in ("pinner", "page", "block"):
        memory.frames[name] = NOBODY
    memory.frames["pins"][:, GARBAGE_FRAME] = 1
    memory.frames["next_free"] = [NOBODY, *range(2, frames), NOBODY]
    memory.hosts["pin_limit"] = NO_LIMIT if host_pin_limit is None else host_pin_limit
    memory.hosts["free_frame"] = 1
    memory.hosts["free_frames"] = frames - 1
    memory.hosts["hand"] = 1
    memory.hosts["free_block"] = 0 if swap_blocks else NOBODY
    memory.hosts["free_blocks"] = swap_blocks
    if swap_blocks:
        memory.blocks["next_free"] = [*range(1, swap_blocks), NOBODY]
    return memory


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
