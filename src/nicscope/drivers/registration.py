"""Requests of a trace through registration caches of their processes' libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.host.registration_cache import (
    COUNTS,
    RegistrationCache,
    grown_registration_cache,
    new_registration_cache,
    use_ranges,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns

FEW = 1024  # regions that a cache has rows for at first
UNLIMITED = 1 << 62


class Rules(NamedTuple):
    """How a library registers what it has not, and how much it keeps."""

    alignment: int  # bytes; a power of two
    merges: bool
    most_regions: int = UNLIMITED
    most_bytes: int = UNLIMITED


class RegistrationReplay:
    """Every process's cache under each of several rules."""

    def __init__(self, rules: Sequence[Rules]) -> None:
        self._rules = rules
        self._caches: list[dict[tuple[int, int], RegistrationCache]] = [{} for _ in rules]

    def feed(self, batch: RequestColumns) -> None:
        """Looks up a batch's buffers in the registration caches, in the order of issue."""
        for owner, address, length in _by_process(batch):
            for rules, caches in zip(self._rules, self._caches, strict=True):
                cache = caches.get(owner)
                if cache is None:
                    rows = min(FEW, rules.most_regions) + 1
                    cache = new_registration_cache(rows, **rules._asdict())
                done = use_ranges(cache, address, length, 0)
                while done < len(address):
                    cache = grown_registration_cache(cache, 2 * len(cache.begin))
                    done = use_ranges(cache, address, length, done)
                caches[owner] = cache

    def counts(self) -> list[dict[str, int]]:
        """Of each of the rules, the sums of ``COUNTS`` over processes."""
        return [
            {
                name: sum(int(cache.counts[0][name]) for cache in caches.values())
                for name in COUNTS.names or ()
            }
            for caches in self._caches
        ]

    @property
    def processes(self) -> int:
        """How many have appeared."""
        return len(self._caches[0])


def _by_process(
    batch: RequestColumns,
) -> Iterator[tuple[tuple[int, int], NDArray[np.uint64], NDArray[np.uint32]]]:
    """(node, pid) and the buffers of each process of a batch."""
    owner = batch.node.astype(np.int64) << 32 | batch.pid.astype(np.int64)
    for each in np.unique(owner).tolist():
        of_it = owner == each
        yield (each >> 32, each & 0xFFFFFFFF), batch.address[of_it], batch.length[of_it]
