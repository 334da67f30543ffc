"""Where the bytes of KV cache blocks lie in a pool's memory, and how a transfer cuts them.

*Block by block*, as stores have it: a block's bytes of all layers stand together.  *Layer by
layer*, as engines have it that page their memory: each layer's keys, and its values, are a region
of pages of 16 tokens, and a block has some pages of each region that need not lie together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_TOKENS = 512  # where a trace does not say otherwise
PAGE_TOKENS = 16
BASE = 1 << 40  # address of the first region
ALIGNED = 1 << 30  # bytes: regions share no page of any size
LAYOUTS = ("block", "layer")
_LONGEST = (1 << 32) - 1  # bytes of a request


class Store(NamedTuple):
    """A pool's memory at one rank."""

    layout: str
    token_bytes: int  # of a token at the rank
    regions: int  # of the layout by layers
    slots: int  # blocks that there is room for
    slice_bytes: int | None  # a longer run is cut into these; None: one request each
    seed: int  # of the order in which pages were handed out
    block_tokens: int = BLOCK_TOKENS

    @property
    def block_bytes(self) -> int:
        """Of a block at the rank."""
        return self.token_bytes * self.block_tokens

    @property
    def pages(self) -> int:
        """Of a block in each region, of the layout by layers."""
        return self.block_tokens // PAGE_TOKENS

    @property
    def region_bytes(self) -> int:
        """Of each region, whole."""
        return self.slots * self.block_bytes // (self.regions if self.layout == "layer" else 1)

    def region_starts(self) -> NDArray[np.uint64]:
        """Address of each region."""
        many = self.regions if self.layout == "layer" else 1
        stride = -(-self.region_bytes // ALIGNED) * ALIGNED
        return (BASE + np.arange(many, dtype=np.int64) * stride).astype(np.uint64)


class KvChoices(NamedTuple):
    """Whose KV cache a pool keeps, and how; what a trace of tokens does not say."""

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
        """How many the pool has room for.  Errors: ``TraceError`` if none fits."""
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
        """What of it a trace should tell."""
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
    """Turns slots of a store into the requests that transfer their blocks."""

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
