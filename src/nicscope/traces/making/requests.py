"""The requests of a recipe: row i is the same whatever comes before it, and however it is written.

Tenants take turns: row i is of node i mod nodes, then of its tenants one after the other, so each
has the same number of requests, or one less.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.traces.formats import output_format, write_batches
from nicscope.traces.imported import Imported
from nicscope.traces.kv_layout import ALIGNED, BASE
from nicscope.traces.making.popularity import Scattered, Zipf
from nicscope.traces.making.recipe import POISSON, check
from nicscope.traces.schema import OP_CODES, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from numpy.random import Generator
    from numpy.typing import NDArray

    from nicscope.traces.files import Watch
    from nicscope.traces.formats import Conversion
    from nicscope.traces.making.recipe import Recipe

CHUNK_ROWS = 1 << 17  # drawn with one stream of random numbers
NS_PER_S = 10**9
_GAPS = 1  # tells the stream of random gaps from the one that all else is drawn from


class Made(NamedTuple):
    """What was written."""

    rows: int
    format: str
    lost: list[str]


def make(recipe: Recipe, target: Path, to_format: str | None, watch: Watch | None = None) -> Made:
    """Write the trace of ``recipe`` to ``target``; the same bytes whenever it is the same.

    Errors: ``TraceError`` if none can be made so, ``OutputError`` if it cannot be written.
    """
    check(recipe)
    writing = output_format(target, to_format)
    done: Conversion = write_batches(
        "made", "made", batches(recipe, watch), writing, target, metadata_of(recipe)
    )
    return Made(done.rows, done.to_format, done.lost)


def metadata_of(recipe: Recipe) -> TraceMetadata:
    """How it was made, and what each tenant has registered."""
    made = TraceMetadata(page_size=recipe.page_size)
    made.origin.update(generator="nicscope trace make", evidence="assumed", **recipe.said())
    made.regions = [
        {"node": node, "pid": pid, "address": int(start), "bytes": recipe.region_bytes}
        for node in range(recipe.nodes)
        for pid in range(recipe.tenants)
        for start in _starts(recipe)
    ]
    return made


def batches(recipe: Recipe, watch: Watch | None = None) -> Iterator[Imported]:
    """All requests of a recipe that was checked, in bounded memory."""
    place, arriving = _Placing(recipe), _Arriving(recipe)
    for first in range(0, recipe.requests, CHUNK_ROWS):
        rows = np.arange(first, min(first + CHUNK_ROWS, recipe.requests))
        yield Imported(_columns(recipe, place, arriving, rows), functools.partial(_row, first))
        if watch is not None:
            watch(int(rows[-1]) + 1, recipe.requests)


def _columns(
    recipe: Recipe, place: _Placing, arriving: _Arriving, rows: NDArray[np.int64]
) -> dict[str, Any]:
    rng = np.random.default_rng([recipe.seed, int(rows[0]) // CHUNK_ROWS])
    turn, node = np.divmod(rows, recipe.nodes)
    own, pid = np.divmod(turn, recipe.tenants)
    codes = [OP_CODES[name] for name, _ in recipe.ops]
    lengths = [size for size, _ in recipe.sizes]
    # Drawn in this order, each for a whole chunk, so that a longer trace begins alike.
    op = _chosen(rng, codes, [share for _, share in recipe.ops])[: rows.size]
    length = _chosen(rng, lengths, [share for _, share in recipe.sizes])[: rows.size]
    return {
        "time_ns": arriving.times(rows),
        "node": node.astype(np.int32),
        "pid": pid.astype(np.int32),
        "op": op.astype(np.uint8),
        "address": place.addresses(own, rng),
        "length": length.astype(np.uint32),
    }


def _row(first: int, row: int) -> str:
    return f"row {first + row}"


def _chosen(rng: Generator, values: list[int], shares: list[float]) -> NDArray[np.int64]:
    """One of ``values`` for each row of a chunk; nothing is drawn where there is no choice."""
    if len(values) == 1:
        return np.full(CHUNK_ROWS, values[0], np.int64)
    ends = np.cumsum(shares)[:-1]
    return np.array(values, np.int64)[np.searchsorted(ends, rng.random(CHUNK_ROWS), "right")]


def _starts(recipe: Recipe) -> NDArray[np.int64]:
    """Address of each region of a tenant."""
    apart = -(-recipe.region_bytes // ALIGNED) * ALIGNED
    return BASE + np.arange(recipe.regions, dtype=np.int64) * apart


class _Arriving:
    """When requests come: at even distances, or as a Poisson process, chunk after chunk.

    Their gaps have random numbers of their own, so that all else of them is as if they were even.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._since = 0  # ns, when the last chunk ended
        self._part = 0.0  # of the next one

    def times(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nanoseconds of the chunk ``rows``, which follows the last one."""
        rate = self._recipe.rate
        if self._recipe.arrivals != POISSON:
            seconds, rest = np.divmod(rows, rate)
            return np.asarray(seconds * NS_PER_S + rest * NS_PER_S // rate)
        rng = np.random.default_rng([self._recipe.seed, int(rows[0]) // CHUNK_ROWS, _GAPS])
        gaps = rng.standard_exponential(CHUNK_ROWS) * (NS_PER_S / rate)
        # Of one chunk alone, where even a request a second leaves parts of a nanosecond.
        past = np.cumsum(gaps) + self._part
        times = self._since + past.astype(np.int64)
        self._since, self._part = int(times[-1]), float(past[-1] % 1)
        return np.asarray(times[: rows.size])


class _Placing:
    """Where requests begin: drawn by popularity, or one stride after the other."""

    def __init__(self, recipe: Recipe) -> None:
        self._starts = _starts(recipe)
        self._many = recipe.places
        self._step = recipe.longest if recipe.stride is None else recipe.stride
        every = self._many * recipe.regions
        self._every = every
        self._zipf = None if recipe.zipf is None else Zipf(every, recipe.zipf)
        self._scattered = Scattered(every, recipe.seed)

    def addresses(self, own: NDArray[np.int64], rng: Generator) -> NDArray[np.uint64]:
        """Of requests of which each is its tenant's number ``own``."""
        if self._zipf is None:
            places = own % self._every
        else:
            places = self._scattered.place(self._zipf.draw(rng, CHUNK_ROWS)[: own.size])
        region, place = np.divmod(places, self._many)
        return np.asarray(self._starts[region] + place * self._step, np.uint64)
