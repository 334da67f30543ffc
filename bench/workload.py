"""Generated page accesses for benchmarks: runs, strides and Zipf reuse of several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTUM = 2000  # segments after which another process runs
REPEAT, RUN, STRIDE = 0.45, 0.35, 0.20  # shares of the segments


class Workload(NamedTuple):
    """One NIC's lookups, in order."""

    numbers: NDArray[np.uint32]  # dense names of the (process, page) pairs
    index: NDArray[np.uint32]  # page plus a constant per process: its low bits choose the set


def workload(
    accesses: int, pages: int, processes: int = 4, zipf: float = 0.9, seed: int = 1
) -> Workload:
    """``accesses`` lookups of ``pages`` pages that ``processes`` processes share out evenly.

    A segment is one page looked up a few times, a run of neighbours, or a stride; where it starts
    is drawn from a Zipf law over the pages of its process in shuffled order.
    """
    rng = np.random.default_rng(seed)
    own = pages // processes
    segments = accesses // 6 + 1000
    kind = rng.choice(3, segments, p=[REPEAT, RUN, STRIDE])
    length = 1 + rng.geometric(np.array([0.4, 0.08, 0.1])[kind])
    stride = np.where(kind == 2, 1 << rng.integers(1, 7, segments), kind)
    process = rng.integers(0, processes, segments // QUANTUM + 1).repeat(QUANTUM)[:segments]
    start = _zipf_ranks(rng, own, zipf, segments)
    start = np.stack([rng.permutation(own) for _ in range(processes)])[process, start]

    step = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    page = (start.repeat(length) + step * stride.repeat(length)) % own
    owner = process.repeat(length)
    while len(page) < accesses:  # the segments were shorter than expected
        page, owner = np.concatenate([page, page]), np.concatenate([owner, owner])
    page, owner = page[:accesses], owner[:accesses]
    numbers = (owner * own + page).astype(np.uint32)
    return Workload(numbers, (page + owner * 0x9E3779).astype(np.uint32))


def _zipf_ranks(
    rng: np.random.Generator, count: int, exponent: float, size: int
) -> NDArray[np.int64]:
    """``size`` ranks below ``count``, drawn with chances like ``1 / (rank + 1)**exponent``."""
    law = np.cumsum(1.0 / np.arange(1, count + 1) ** exponent)
    return np.searchsorted(law, rng.random(size) * law[-1]).clip(max=count - 1)
