"""Latencies of the three mechanisms that EDT measured, each simulated once."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.studies.latency.question import ask
from nicscope.studies.latency.report import measure

if TYPE_CHECKING:
    from nicscope.studies.latency.report import Latency

EDT, INTERVENTION, RETRY = MEASURED = ("edt", "cc-dma-intervention", "cc-dma-retry")
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)  # bytes; the plotted ones are not stated
MTU = 1500


@functools.cache
def latency(mechanism: str, byte_count: int, dma_rate: int = 1600) -> Latency:
    """Of that mechanism and size on the platform of the paper."""
    question = ask(mechanisms=mechanism, sizes=str(byte_count), dma_rate=dma_rate)
    return measure(question).latencies[0]


def gain(byte_count: int, dma_rate: int = 1600) -> float:
    """Percent by which EDT's latency is below that of DMA with intervention."""
    edt, other = (latency(name, byte_count, dma_rate) for name in (EDT, INTERVENTION))
    return 100 * (1 - edt.us / other.us)


def same(counts: list[float], within: float = 0.01) -> bool:
    """Whether no two differ by more than that share of the larger."""
    return max(counts) - min(counts) <= within * max(counts)


def rising(counts: list[float]) -> bool:
    """Whether each is larger than the one before."""
    return all(low < high for low, high in pairwise(counts))


def listed(counts: list[float], digits: int = 0) -> str:
    """Numbers in a line of evidence."""
    return ", ".join(f"{count:,.{digits}f}" for count in counts)
