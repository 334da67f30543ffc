"""A shared queue of receives, slowly: who may have had which."""

from __future__ import annotations

from itertools import pairwise


def is_fair(posted: list[int], took: list[list[int]]) -> bool:
    """Whether ports may have had these receives of what was ``posted``, in that order.

    ``took``: by port, the receives that its messages filled, in the order of the messages.  The
    oldest is always the next to be drawn, so those that were are the first ones; nobody has the
    same as another, and each port has them in their order.
    """
    everything = sorted(posted.index(one) for port in took for one in port)
    in_order = all(posted.index(a) < posted.index(b) for port in took for a, b in pairwise(port))
    return everything == list(range(len(everything))) and in_order


def first_low(posted: int, limit: int, drawn: int) -> int | None:
    """After how many drawn receives fewer than ``limit`` of those ``posted`` are left, if so."""
    for many in range(1, drawn + 1):
        if posted - many < limit:
            return many
    return None
