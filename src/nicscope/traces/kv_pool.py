"""A pool of KV cache blocks in host memory: its layout, and how transfers are split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import TraceError
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


BLOCK_TOKENS = 512  # where a trace does not say otherwise
PAGE_TOKENS = 16
BASE = 1 << 40  # address of the first region
ALIGNED = 1 << 30  # bytes: regions share no page of any size
LAYOUTS = ("block", "layer")
_LONGEST = (1 << 32) - 1  # bytes of a request


class KvChoices(NamedTuple):
    """The model, layout and capacity of a KV cache pool, which a trace of tokens does not state."""

    model: str
    token_bytes: int  # at each rank
    ranks: int
    regions: int  # of the layout by layers: keys and values of each
    layout: str = LAYOUTS[0]
    pool_bytes: int | None = None  # at the rank; None: room for every block
    slice_bytes: int | None = 1 << 16
    seed: int = 0
    block_tokens: int = BLOCK_TOKENS
    prefix_tokens: int = 0  # that all requests begin with, of traces that name no blocks
    generated: bool = False  # is kept too, of such traces

    def guesses(self) -> bool:
        """Whether it says of blocks what traces that name them say themselves."""
        return (self.block_tokens, self.prefix_tokens, self.generated) != (BLOCK_TOKENS, 0, False)

    @property
    def blocks(self) -> int | None:
        """The pool's capacity in blocks.  Errors: ``TraceError`` if none fits."""
        if self.pool_bytes is None:
            return None
        block = self.token_bytes * self.block_tokens
        if self.pool_bytes < block:
            raise TraceError(
                f"a pool of {self.pool_bytes:,} bytes has no room for a block of {self.model}, "
                f"which has {block:,} bytes at each of {self.ranks} ranks"
            )
        return self.pool_bytes // block

    def said(self) -> dict[str, Any]:
        """The choices that a trace's metadata should state."""
        return {
            "model": self.model,
            "ranks": self.ranks,
            "bytes_per_token": self.token_bytes,
            "block_tokens": self.block_tokens,
            "layout": self.layout,
            "pool_bytes": self.pool_bytes,
            "slice_bytes": self.slice_bytes,
            "seed": self.seed,
        }


class Pool:
    """A pool's memory at one rank: turns block slots into the requests that transfer them."""

    def __init__(self, kv: KvChoices, used: int) -> None:
        """As large as ``kv`` says, or as ``used`` blocks need.

        Errors: ``TraceError`` if a run is longer than a request can be, or does not divide.
        """
        slots = used if kv.blocks is None else kv.blocks
        self.block_bytes = kv.token_bytes * kv.block_tokens
        is_whole = kv.layout == "block"
        regions = 1 if is_whole else kv.regions
        pages = kv.block_tokens // PAGE_TOKENS  # of a block in each region
        if is_whole:
            run, runs = self.block_bytes, 1
        else:
            run, rest = divmod(kv.token_bytes * PAGE_TOKENS, regions)
            if rest:
                raise TraceError(
                    f"{kv.token_bytes} bytes of a token do not divide by {regions} regions"
                )
            runs = regions * pages
        if kv.slice_bytes is None and run > _LONGEST:
            raise TraceError(f"a block of {run:,} bytes is too long for one request; give --slice")
        self._run = run
        self._offsets, self._lengths = _slices(run, kv.slice_bytes)
        self.requests_of_block = runs * len(self._lengths)
        self.region_bytes = slots * self.block_bytes // regions
        apart = -(-self.region_bytes // ALIGNED) * ALIGNED
        self.starts = BASE + np.arange(regions, dtype=np.int64) * apart  # of each region
        self._pages: NDArray[np.int64] | None = None  # of each slot, where regions have them
        if not is_whole:
            rng = np.random.default_rng(kv.seed)
            self._pages = rng.permutation(slots * pages).reshape(slots, pages)

    def requests(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Address and length of each request for the blocks in ``slots``, in order of issue.

        Layer by layer a block's pages of one region come together, in the order of its tokens.
        """
        if self._pages is None:
            runs = self.starts[0] + slots * self._run
        else:
            pages = self._pages[slots]  # (blocks, pages)
            runs = self.starts[None, :, None] + pages[:, None, :] * self._run
        address = (runs.reshape(-1, 1) + self._offsets).reshape(-1)
        lengths = np.tile(self._lengths, runs.size)
        return address.astype(np.uint64), lengths


def _slices(run: int, size: int | None) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Offset and length of each piece of a run of bytes.

    What remains joins the piece before it if it is at most a quarter of one (Mooncake, transfer
    engine: 64 KiB, and a remainder of 16 KiB).
    """
    if size is None or run <= size:
        return np.zeros(1, np.int64), np.array([run], np.uint32)
    many, rest = divmod(run, size)
    lengths = [size] * many
    if rest > size // 4:
        lengths.append(rest)
    else:
        lengths[-1] += rest
    return np.arange(len(lengths), dtype=np.int64) * size, np.array(lengths, np.uint32)


NOWHERE = -1


class Placed(NamedTuple):
    """The slot of each block reference, and whether it was a hit."""

    slots: NDArray[np.int64]  # of the pool, by reference
    found: NDArray[np.int64]  # blocks at the front of each request that the pool held
    evicted: int
    used: int  # slots that were ever filled


@kernel
def place_blocks(firsts, blocks, capacity, newer, older, slot_of, slots, found):
    """Fill ``slots`` and ``found``; returns blocks evicted and slots used.

    ``firsts``: where each request's blocks begin, and their end.  By block: ``slot_of``, filled
    with ``NOWHERE``, and ``newer`` and ``older``, whose further last row closes the ring.
    """
    ends = slot_of.size  # stands between the newest and the oldest
    newer[ends] = ends
    older[ends] = ends
    used, evicted = 0, 0
    for request in range(firsts.size - 1):
        first, last = firsts[request], firsts[request + 1]
        run = first
        while run < last and slot_of[blocks[run]] != NOWHERE:
            run += 1
        found[request] = run - first
        for reference in range(first, last):
            block = blocks[reference]
            if slot_of[block] != NOWHERE:
                newer[older[block]] = newer[block]
                older[newer[block]] = older[block]
            elif used < capacity:
                slot_of[block] = used
                used += 1
            else:
                victim = newer[ends]  # the oldest
                newer[ends] = newer[victim]
                older[newer[victim]] = ends
                slot_of[block] = slot_of[victim]
                slot_of[victim] = NOWHERE
                evicted += 1
            newest = older[ends]
            newer[newest] = block
            older[block] = newest
            newer[block] = ends
            older[ends] = block
            slots[reference] = slot_of[block]
    return evicted, used


def place(firsts: NDArray[np.int64], ids: NDArray[np.int64], capacity: int | None) -> Placed:
    """Where a pool of ``capacity`` blocks, None for as many as there are, has each reference's.

    ``firsts``: shape (requests + 1,), where the references of each request begin; ``ids``: the
    block of each reference, any numbers.
    """
    distinct, blocks = np.unique(ids, return_inverse=True)
    many = distinct.size
    slots = np.empty(ids.size, np.int64)
    found = np.empty(firsts.size - 1, np.int64)
    evicted, used = place_blocks(
        firsts,
        blocks.astype(np.int64),
        many if capacity is None else capacity,
        np.zeros(many + 1, np.int64),
        np.zeros(many + 1, np.int64),
        np.full(many, NOWHERE, np.int64),
        slots,
        found,
    )
    return Placed(slots, found, int(evicted), int(used))
