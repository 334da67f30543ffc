"""The arguments and results that all importers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.schema import DEFAULT_PAGE_SIZE, OP_CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

BLOCK_TOKENS = 512  # where a trace does not say otherwise
PAGE_TOKENS = 16
LAYOUTS = ("block", "layer")


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


class Choices(NamedTuple):
    """User's choices for what a format does not state."""

    node: int = 0
    pid: int = 0
    op: str = "send"  # of formats whose accesses have no direction
    page_size: int = DEFAULT_PAGE_SIZE  # bytes; of formats whose accesses name objects
    renumber: bool = False  # number objects 0, 1, 2... as they first appear
    parameters: str = ""  # libCacheSim's own description of a CSV file
    rank_pool_bytes: int = 1 << 20  # GOAL: that a rank sends from, and as many to receive into
    ranks_per_node: int = 1  # GOAL
    kv: KvChoices | None = None  # of traces of a language model's service


class Imported(NamedTuple):
    """A batch of requests and, for error messages, the input location of each."""

    columns: Mapping[str, Any]
    place: Callable[[int], str]


def numbered(what: str, numbers: Sequence[int] | NDArray[np.int64]) -> Callable[[int], str]:
    """Places of rows: ``what``, such as "line {}", with the row's number."""
    return lambda row: what.format(numbers[row])


def filled(value: int, count: int, kind: type[np.generic]) -> NDArray[Any]:
    """An array of ``count`` equal values."""
    return np.full(count, value, kind)


def op_codes(op: str, count: int) -> NDArray[np.uint8]:
    """``count`` times the code of the operation named ``op``."""
    return np.full(count, OP_CODES[op], np.uint8)
