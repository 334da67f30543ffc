"""Synthetic request traces: drawn from a seed, by pools, sizes and popularity."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import TraceError, did_you_mean
from nicscope.traces.formats import Conversion, output_format, write_batches
from nicscope.traces.imported import Imported, numbered
from nicscope.traces.importers.services import ALIGNED, BASE
from nicscope.traces.schema import DEFAULT_PAGE_SIZE, OP_CODES, TraceMetadata, check_page_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.random import Generator
    from numpy.typing import NDArray

    from nicscope.traces.files import Watch

MOST_EXPONENT = 16.0  # beyond, every draw is the first rank
MOST_RANKS = 1 << 40  # that the arithmetic tells apart


class Zipf:
    """Ranks 0, 1, 2... below ``many``, rank r in proportion to (r + 1) to the power -``exponent``.

    With an exponent of 0 all are drawn alike.
    """

    def __init__(self, many: int, exponent: float) -> None:
        self._many, self._exponent = many, exponent
        # The area below the falling curve, in columns one wide; the first is cut to its height.
        one = np.array([1.5, many + 0.5, 2.5])
        first, self._end, second = (float(each) for each in self._area(one))
        self._begin = first - 1.0
        self._sure = 2.0 - float(self._place(np.array([second - float(2.0**-exponent)]))[0])

    def draw(self, rng: Generator, count: int) -> NDArray[np.int64]:
        """``count`` ranks, each independent of the others."""
        ranks = np.empty(count, np.int64)
        open_ = np.arange(count)
        while open_.size:
            area = self._end + rng.random(open_.size) * (self._begin - self._end)
            place = self._place(area)
            rank = np.clip(np.floor(place + 0.5), 1, self._many)
            taken = (rank - place <= self._sure) | (
                area >= self._area(rank + 0.5) - rank**-self._exponent
            )
            ranks[open_[taken]] = rank[taken].astype(np.int64) - 1
            open_ = open_[~taken]
        return ranks

    def _area(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        """From 1 to ``place``: (place^(1-s) - 1) / (1 - s), without cancelling near s = 1."""
        logs = np.log(place)
        left = (1.0 - self._exponent) * logs
        return np.asarray(logs * _over(np.expm1(left), left))

    def _place(self, area: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where the area from 1 is so large."""
        left = np.maximum((1.0 - self._exponent) * area, -1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(area * _over(np.log1p(left), left)))


def _over(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """``above / below``, 1 in the limit of both being 0."""
    small = np.abs(below) < 1e-12
    return np.where(small, 1.0, above / np.where(small, 1.0, below))


class SpreadPermutation:
    """A permutation of ``many`` places that puts neighbouring ranks far apart."""

    def __init__(self, many: int, seed: int) -> None:
        rng = np.random.default_rng([seed, many])
        # About the golden section of all, so that popular ones stand nowhere together.
        step = max(1, round(many * (math.sqrt(5) - 1) / 2))
        while math.gcd(step, many) != 1:
            step += 1
        self._many, self._step = many, step % many if many > 1 else 0
        self._first = int(rng.integers(many))

    def place(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each of ``ranks``."""
        # In two halves: the product of two numbers of 40 bits has 80.
        low, high = ranks & 0xFFFFF, ranks >> 20
        far = (high * self._step % self._many << 20) % self._many
        return (far + low * self._step + self._first) % self._many


MOST_REQUESTS = 1 << 40
MOST_TENANTS = 1 << 16  # of all nodes together; each has regions of its own, which are told
MOST_REGIONS = 1 << 16  # of all tenants together
MOST_POOL = 1 << 50  # bytes
MOST_RATE = 10**9  # per second: a nanosecond each
MOST_SEED = (1 << 63) - 1
EVEN, POISSON = "even", "poisson"
ARRIVALS = (EVEN, POISSON)
LONGEST = (1 << 32) - 1  # bytes of a request
_LAST_NS = (1 << 63) - 1
CHANCE = 1000  # by a part of it a sum of thousands of millions of gaps never is longer
_WEIGHT = re.compile(r"\d{1,9}(\.\d{1,9})?")


class Recipe(NamedTuple):
    """A synthetic workload: nodes' tenants (processes), their registered pools, and requests."""

    requests: int
    sizes: tuple[tuple[int, float], ...] = ((4096, 1.0),)  # bytes and share of requests
    ops: tuple[tuple[str, float], ...] = (("send", 1.0),)
    zipf: float | None = 0.99  # exponent; None: strides
    stride: int | None = None  # bytes
    pool: int = 1 << 30  # bytes of each tenant
    regions: int = 1  # that share the pool
    tenants: int = 1  # of each node
    nodes: int = 1
    rate: int = 1_000_000  # requests per second of all tenants together
    page_size: int = DEFAULT_PAGE_SIZE
    seed: int = 0
    arrivals: str = EVEN

    @property
    def longest(self) -> int:
        """Bytes of the longest requests."""
        return max(size for size, _ in self.sizes)

    @property
    def region_bytes(self) -> int:
        """The bytes of each region of a tenant."""
        return self.pool // self.regions

    @property
    def places(self) -> int:
        """The number of start positions for requests in each region."""
        step = self.longest if self.stride is None else self.stride
        return (self.region_bytes - self.longest) // step + 1

    def said(self) -> dict[str, Any]:
        """Parameters that a trace's metadata should state: all that are in effect."""
        usual = {"arrivals": EVEN}
        return {
            name: value
            for name, value in self._asdict().items()
            if value is not None and value != usual.get(name)
        }


def weighted(option: str, text: str) -> list[tuple[str, float]]:
    """The parts of ``NAME[:WEIGHT],...``, each with its share.

    Errors: ``TraceError`` if one is empty, there twice, or has no weight above 0.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, colon, weight = part.strip().partition(":")
        if not name:
            raise TraceError(f"{option} has an empty part: {text!r}; write such as 4K:3,64K:1")
        if name in found:
            raise TraceError(f"{option} names {name!r} twice")
        if colon and (not _WEIGHT.fullmatch(weight) or not float(weight)):
            raise TraceError(f"{option}: the weight of {name!r} must be above 0, got {weight!r}")
        found[name] = float(weight) if colon else 1.0
    whole = sum(found.values())
    return [(name, weight / whole) for name, weight in found.items()]


def ops_of(text: str) -> tuple[tuple[str, float], ...]:
    """Operations and shares that ``--op`` spells; errors: ``TraceError``."""
    parts = weighted("--op", text)
    for name, _ in parts:
        if name not in OP_CODES:
            raise TraceError(f"unknown --op {name!r}{did_you_mean(name, OP_CODES)}")
    return tuple(parts)


def check(recipe: Recipe) -> None:
    """Return if a recipe is valid; errors: ``TraceError`` naming the option."""
    limits = {
        "--requests": (recipe.requests, MOST_REQUESTS),
        "--pool": (recipe.pool, MOST_POOL),
        "--regions": (recipe.regions, MOST_REGIONS),
        "--tenants": (recipe.tenants, MOST_TENANTS),
        "--nodes": (recipe.nodes, MOST_TENANTS),
        "--rate": (recipe.rate, MOST_RATE),
    }
    for option, (value, most) in limits.items():
        if not 1 <= value <= most:
            raise TraceError(f"{option} must be from 1 to {most:,}, got {value:,}")
    if not 0 <= recipe.seed <= MOST_SEED:
        raise TraceError(f"--seed must be from 0 to {MOST_SEED}, got {recipe.seed}")
    if recipe.arrivals not in ARRIVALS:
        raise TraceError(
            f"unknown --arrivals {recipe.arrivals!r}{did_you_mean(recipe.arrivals, ARRIVALS)}"
        )
    check_page_size(recipe.page_size, "--page-size")
    _check_ways(recipe)
    _check_room(recipe)


def _check_ways(recipe: Recipe) -> None:
    if recipe.zipf is not None and recipe.stride is not None:
        raise TraceError("--zipf draws places and --stride walks through them; give one of both")
    if recipe.zipf is not None and not 0 <= recipe.zipf <= MOST_EXPONENT:
        raise TraceError(f"--zipf must be from 0 to {MOST_EXPONENT:g}, got {recipe.zipf:g}")
    if recipe.stride is not None and not 1 <= recipe.stride <= recipe.region_bytes:
        raise TraceError(
            f"--stride must be from 1 to the {recipe.region_bytes:,} bytes of a region, got "
            f"{recipe.stride:,}"
        )


def _check_room(recipe: Recipe) -> None:
    if recipe.region_bytes < recipe.longest:
        raise TraceError(
            f"--size: a request of {recipe.longest:,} bytes does not fit into a region of "
            f"{recipe.region_bytes:,} (--pool over --regions)"
        )
    tenants = recipe.nodes * recipe.tenants
    if tenants * recipe.regions > MOST_REGIONS:
        raise TraceError(
            f"--nodes, --tenants and --regions make {tenants * recipe.regions:,} regions; at most "
            f"{MOST_REGIONS:,} are told apart"
        )
    if recipe.places * recipe.regions > MOST_RANKS:
        raise TraceError(
            f"a pool of {recipe.pool:,} bytes has {recipe.places * recipe.regions:,} places; at "
            f"most {MOST_RANKS:,}: take a smaller --pool or a larger --size"
        )
    last = (recipe.requests - 1) * 10**9 // recipe.rate
    if recipe.arrivals == POISSON:
        last += last // CHANCE
    if last > _LAST_NS:
        raise TraceError("--requests at that --rate last longer than 292 years; raise --rate")


CHUNK_ROWS = 1 << 17  # drawn with one stream of random numbers
NS_PER_S = 10**9
_GAPS = 1  # tells the stream of random gaps from the one that all else is drawn from


def make(
    recipe: Recipe, target: Path, to_format: str | None, watch: Watch | None = None
) -> Conversion:
    """Write the trace of ``recipe`` to ``target``; equal recipes give equal bytes.

    Errors: ``TraceError`` if none can be made so, ``OutputError`` if it cannot be written.
    """
    check(recipe)
    writing = output_format(target, to_format)
    made = batches(recipe, watch)
    return write_batches("made", "made", made, writing, target, metadata_of(recipe))


def metadata_of(recipe: Recipe) -> TraceMetadata:
    """Metadata of a synthetic trace: its recipe, and what each tenant has registered."""
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
    """All requests of a checked recipe, in bounded memory."""
    place, arriving = _StartAddresses(recipe), _ArrivalTimes(recipe)
    for first in range(0, recipe.requests, CHUNK_ROWS):
        rows = np.arange(first, min(first + CHUNK_ROWS, recipe.requests))
        yield Imported(_columns(recipe, place, arriving, rows), numbered("row {}", rows))
        if watch is not None:
            watch(int(rows[-1]) + 1, recipe.requests)


def _columns(
    recipe: Recipe, place: _StartAddresses, arriving: _ArrivalTimes, rows: NDArray[np.int64]
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


class _ArrivalTimes:
    """Arrival times: equally spaced or a Poisson process, chunk after chunk.

    Their gaps have random numbers of their own, so that all else of them is as if they were even.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._since = 0  # ns, when the last chunk ended
        self._part = 0.0  # of the next one

    def times(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Arrival times (ns) of the chunk ``rows``, which follows the previous one."""
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


class _StartAddresses:
    """Start addresses of requests: drawn by popularity, or strided."""

    def __init__(self, recipe: Recipe) -> None:
        self._starts = _starts(recipe)
        self._many = recipe.places
        self._step = recipe.longest if recipe.stride is None else recipe.stride
        every = self._many * recipe.regions
        self._every = every
        self._zipf = None if recipe.zipf is None else Zipf(every, recipe.zipf)
        self._scattered = SpreadPermutation(every, recipe.seed)

    def addresses(self, own: NDArray[np.int64], rng: Generator) -> NDArray[np.uint64]:
        """Addresses of requests, ``own`` being each one's number within its tenant."""
        if self._zipf is None:
            places = own % self._every
        else:
            places = self._scattered.place(self._zipf.draw(rng, CHUNK_ROWS)[: own.size])
        region, place = np.divmod(places, self._many)
        return np.asarray(self._starts[region] + place * self._step, np.uint64)
