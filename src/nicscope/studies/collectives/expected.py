"""What NumPy says that a collective gives, with additions in the order in which it makes them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.collectives.arrays import OPERATIONS, bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def ring_reduced(inputs: Sequence[NDArray[Any]], operation: str) -> NDArray[Any]:
    """Part k is put together from rank k on, around the ring."""
    combine, ranks = OPERATIONS[operation], len(inputs)
    ends = bounds(len(inputs[0]), ranks)
    parts = []
    for part in range(ranks):
        around = [
            inputs[(part + step) % ranks][ends[part] : ends[part + 1]] for step in range(ranks)
        ]
        parts.append(reduce(combine, around))
    return np.concatenate(parts)


def tree_reduced(inputs: Sequence[NDArray[Any]], operation: str) -> NDArray[Any]:
    """Ranks beyond a power of two first, then neighbours, then pairs of these."""
    combine, within = OPERATIONS[operation], 1 << (len(inputs).bit_length() - 1)
    level = [
        combine(one, inputs[rank + within]) if rank + within < len(inputs) else one
        for rank, one in enumerate(inputs[:within])
    ]
    while len(level) > 1:
        level = [combine(*level[at : at + 2]) for at in range(0, len(level), 2)]
    return np.array(level[0])


def exchanged(inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
    """What ``rank`` has of all parts that the others have for it."""
    ends = bounds(len(inputs[0]), len(inputs))
    return np.concatenate([one[ends[rank] : ends[rank + 1]] for one in inputs])


def inputs_of(ranks: int, count: int, dtype: Any, seed: int) -> list[NDArray[Any]]:
    """What each rank begins with: any integers, or numbers around 0."""
    kind = np.dtype(dtype)
    generators = [np.random.default_rng((seed, rank)) for rank in range(ranks)]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return [
            one.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)
            for one in generators
        ]
    return [one.standard_normal(count).astype(kind) for one in generators]
