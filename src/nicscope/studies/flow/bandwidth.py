"""Effective bandwidth of each DMA engine over time, idle time included (Trapeze, Figure 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.studies.flow.transfers import BANDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

PS_PER_US = 10**6


class Steps(NamedTuple):
    """One band of one node: ``mb_per_s[i]`` holds from ``edges[i]`` to ``edges[i + 1]`` (ps)."""

    node: int
    band: str
    edges: NDArray[np.int64]
    byte_counts: NDArray[np.int64]

    @property
    def mb_per_s(self) -> NDArray[np.float64]:
        """MB/s (10**6 bytes) of each step."""
        rates: NDArray[np.float64] = self.byte_counts * PS_PER_US / np.diff(self.edges)
        return rates


def bandwidth_steps(transfers: NDArray[Any]) -> list[Steps]:
    """A curve for every band of every node in ``transfers`` (TRANSFER), by band and node.

    Each payload transfer is a step from the end of the one before it to its own end, so the time
    in between, with the control message, lowers it.  The first begins when it begins to move.
    Bands that moved control messages only have steps of those.
    """
    curves = []
    for band, name in enumerate(BANDS):
        mine = transfers[(transfers["band"] == band) & (transfers["busy"] > 0)]
        for node in np.unique(mine["node"]):
            each = mine[mine["node"] == node]
            payloads = each[each["control"] == 0]
            each = payloads if len(payloads) else each
            each = each[np.argsort(each["end"], kind="stable")]
            edges = np.concatenate([each["moving"][:1], each["end"]])
            curves.append(Steps(int(node), name, edges, each["bytes"].copy()))
    return curves
