"""Which of many things is asked for next: ranks drawn by a Zipf law, and where each rank lies.

Nothing is kept of any rank, so there may be as many as numbers allow.  Method: W. Hörmann and
G. Derflinger, Rejection-inversion to generate variates from monotone discrete distributions, 1996.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

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
        self._sure = 2.0 - float(self._place(np.array([second - self._height(2.0)]))[0])

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

    def _height(self, place: float) -> float:
        return float(place**-self._exponent)

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
    """The quotient, which goes to 1 where both are next to nothing."""
    small = np.abs(below) < 1e-12
    return np.where(small, 1.0, above / np.where(small, 1.0, below))


class Scattered:
    """Each rank's place among ``many``: every place once, and neighbours far apart."""

    def __init__(self, many: int, seed: int) -> None:
        rng = np.random.default_rng([seed, many])
        # About the golden section of all, so that popular ones stand nowhere together.
        step = max(1, round(many * (math.sqrt(5) - 1) / 2))
        while math.gcd(step, many) != 1:
            step += 1
        self._many, self._step = many, step % many if many > 1 else 0
        self._first = int(rng.integers(many))

    def place(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each of ``ranks`` lies."""
        # In two halves: the product of two numbers of 40 bits has 80.
        low, high = ranks & 0xFFFFF, ranks >> 20
        far = (high * self._step % self._many << 20) % self._many
        return (far + low * self._step + self._first) % self._many
