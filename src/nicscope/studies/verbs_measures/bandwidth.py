"""Bandwidth of verbs: as many requests outstanding as may be, one way, in virtual time.

Source: perftest, whose peak is the best rate between any post and any later completion, and whose
average that between the first post and the last completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.studies.verbs_measures.costs import Costs, costs_now
from nicscope.studies.verbs_measures.ends import both_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.interfaces.verbs.world import World
    from nicscope.studies.verbs_measures.question import Question

MIB = 1 << 20
NS_PER_S = 10**9
AT_ONCE = 16  # completions of one poll


class Bandwidth(msgspec.Struct, frozen=True, kw_only=True):
    """Of messages of one size on one design."""

    design: str
    platform: str
    payload_bytes: int
    iterations: int  # of all queue pairs
    peak_mib_s: float
    average_mib_s: float
    rate_mpps: float  # as perftest's Mpps
    costs: Costs


def bandwidth(
    world: World, question: Question, size: int, watch: Callable[[], object]
) -> Bandwidth:
    """Post whatever may be outstanding, until all of it has completed; ``watch``: after each."""
    device = world.device
    left, right = both_ends(world, question, size)
    before = costs_now(device)
    count, all_of_them = question.iterations, question.iterations * question.pairs
    depth = min(question.depth, count)
    posted, ended = [0] * question.pairs, [0] * question.pairs
    posted_at: list[int] = []
    ended_at: list[int] = []
    taken = 0  # by the receiver
    sends = question.operation == "send"
    while len(ended_at) < all_of_them:
        for number in range(question.pairs):
            while posted[number] < count and posted[number] - ended[number] < depth:
                posted_at.append(device.now_ns)
                left.post(number)
                posted[number] += 1
        for number in left.ended(left.sent, AT_ONCE):
            ended[number] += 1
            ended_at.append(device.now_ns)
            watch()
        if sends and len(ended_at) - taken >= depth:
            for number in right.ended(right.come, AT_ONCE):
                right.receive(number)
                taken += 1
    after = costs_now(device)
    left.close()
    right.close()
    rate = all_of_them * NS_PER_S / max(ended_at[-1] - posted_at[0], 1)
    return Bandwidth(
        design=device.design_name,
        platform=device.fabric.platform.name,
        payload_bytes=size,
        iterations=all_of_them,
        peak_mib_s=NS_PER_S / shortest(posted_at, ended_at) * size / MIB,
        average_mib_s=rate * size / MIB,
        rate_mpps=rate / 1e6,
        costs=after.since(before),
    )


def shortest(posted_ns: Sequence[int], ended_ns: Sequence[int]) -> float:
    """The least ns per message between any post and any completion that is not before its own."""
    posted, ended = np.asarray(posted_ns), np.asarray(ended_ns)
    least = float("inf")
    for first in range(len(posted)):
        spans = (ended[first:] - posted[first]) / np.arange(1, len(ended) - first + 1)
        least = min(least, float(spans.min()))
    return max(least, 1 / NS_PER_S)
