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


class Store(NamedTuple):
    """The layout of a pool's memory at one rank."""

    layout: str
    token_bytes: int  # of a token at the rank
    regions: int  # of the layout by layers
    slots: int  # blocks that there is room for
    slice_bytes: int | None  # a longer run is cut into these; None: one request each
    seed: int  # of the order in which pages were handed out
    block_tokens: int = BLOCK_TOKENS

    @property
    def block_bytes(self) -> int:
        """The bytes of a block at the rank."""
        return self.token_bytes * self.block_tokens

    @property
    def pages(self) -> int:
        """The pages of a block in each region, in the layout by layers."""
        return self.block_tokens // PAGE_TOKENS

    @property
    def region_bytes(self) -> int:
        """The bytes of each region."""
        return self.slots * self.block_bytes // (self.regions if self.layout == "layer" else 1)

    def region_starts(self) -> NDArray[np.uint64]:
        """Address of each region."""
        many = self.regions if self.layout == "layer" else 1
        stride = -(-self.region_bytes // ALIGNED) * ALIGNED
        return (BASE + np.arange(many, dtype=np.int64) * stride).astype(np.uint64)


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

    def store(self, used: int) -> Store:
        """The memory of the pool, as large as it may be, or as ``used`` blocks need."""
        slots = used if self.blocks is None else self.blocks
        return Store(
            self.layout,
            self.token_bytes,
            self.regions,
            slots,
            self.slice_bytes,
            self.seed,
            self.block_tokens,
        )

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


class Cutter:
    """Turns block slots of a store into the requests that transfer them."""

    def __init__(self, store: Store) -> None:
        """Errors: ``TraceError`` if a run is longer than a request can be, or does not divide."""
        if store.layout == "block":
            run, runs = store.block_bytes, 1
        else:
            run, rest = divmod(store.token_bytes * PAGE_TOKENS, store.regions)
            if rest:
                raise TraceError(
                    f"{store.token_bytes} bytes of a token do not divide by {store.regions} regions"
                )
            runs = store.regions * store.pages
        if store.slice_bytes is None and run > _LONGEST:
            raise TraceError(f"a block of {run:,} bytes is too long for one request; give --slice")
        self._store = store
        self._run = run
        self._offsets, self._lengths = _slices(run, store.slice_bytes)
        self.requests_of_block = runs * len(self._lengths)
        if store.layout == "layer":
            rng = np.random.default_rng(store.seed)
            self._pages = rng.permutation(store.slots * store.pages).reshape(
                store.slots, store.pages
            )

    def requests(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Address and length of each request for the blocks in ``slots``, in order of issue.

        Layer by layer a block's pages of one region come together, in the order of its tokens.
        """
        starts = self._store.region_starts().astype(np.int64)
        if self._store.layout == "block":
            runs = starts[0] + slots * self._run
        else:
            pages = self._pages[slots]  # (blocks, pages)
            runs = starts[None, :, None] + pages[:, None, :] * self._run
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
