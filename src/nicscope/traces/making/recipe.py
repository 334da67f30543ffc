"""What a made trace is made of, checked before anything is written."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from nicscope.errors import TraceError, did_you_mean
from nicscope.traces.making.popularity import MOST_EXPONENT, MOST_RANKS
from nicscope.traces.schema import DEFAULT_PAGE_SIZE, OP_CODES, check_page_size

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
    """Tenants (processes) of nodes, each with a pool of registered regions, and their requests."""

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
        """Of each region of a tenant."""
        return self.pool // self.regions

    @property
    def places(self) -> int:
        """In each region where a request may begin."""
        step = self.longest if self.stride is None else self.stride
        return (self.region_bytes - self.longest) // step + 1

    def said(self) -> dict[str, Any]:
        """What a trace should tell of how it was made: all but what is not the case."""
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
    """Return if a trace can be made so; errors: ``TraceError`` naming the option."""
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
