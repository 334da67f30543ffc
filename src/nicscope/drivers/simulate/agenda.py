"""Pending events: one slot for each thing that can be pending, the earliest found by a tree.

Every node has the same few kinds of pending things, each at most once, so a slot is (node, kind)
and to move or to cancel one is to write its time.  Slots stand in groups.  The tree is a tournament
of groups: each inner place holds the slot that fires first below it; of equal times the lower slot,
which is the lower (node, kind).  An event moves several slots of the one or two nodes that it is
about, so a group whose slots move is noted, and its matches are played when somebody asks: within
the first groups alone, as far as anything has been pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP_BITS = 3  # slots of a group: 2 to that power


class Agenda(NamedTuple):
    """Slots and the tree over them."""

    times: NDArray[np.int64]  # ps by slot, whole groups of them; NEVER if not pending
    winners: NDArray[np.int64]  # slot by place of the tree: its root is 1, its end the groups
    firsts: NDArray[np.int64]  # and when that fires
    moved: NDArray[np.int64]  # how many groups have moved since anybody asked, and then which
    is_noted: NDArray[np.int64]  # shape (groups,): 1 for these
    height: NDArray[np.int64]  # shape (1,): of the tree over the first groups, 2 ** height of them


def new_agenda(slots: int) -> Agenda:
    """An agenda of ``slots`` slots on which nothing is pending."""
    groups = 1 << ((slots - 1) >> GROUP_BITS).bit_length()
    winners = np.zeros(2 * groups, np.int64)
    winners[groups:] = np.arange(groups) << GROUP_BITS
    for place in range(groups - 1, 0, -1):
        winners[place] = winners[place * 2]
    return Agenda(
        np.full(groups << GROUP_BITS, NEVER),
        winners,
        np.full(2 * groups, NEVER),
        np.zeros(1 + groups, np.int64),
        np.zeros(groups, np.int64),
        np.zeros(1, np.int64),
    )


@step
def put(agenda, slot, time):
    """Have ``slot`` fire at ``time``, or at no time if that is ``NEVER``."""
    if agenda.times[slot] == time:
        return
    agenda.times[slot] = time
    group = slot >> GROUP_BITS
    if agenda.is_noted[group] == 0:
        agenda.is_noted[group] = 1
        agenda.moved[0] += 1
        agenda.moved[agenda.moved[0]] = group


@step
def earliest(agenda):
    """The slot that fires next; its time is ``NEVER`` if nothing is pending."""
    for i in range(1, agenda.moved[0] + 1):
        group = agenda.moved[i]
        agenda.is_noted[group] = 0
        while group >> agenda.height[0]:
            _heighten(agenda)
        _play(agenda, group)
    agenda.moved[0] = 0
    return agenda.winners[agenda.is_noted.size >> agenda.height[0]]


@step
def _heighten(agenda):
    """Play among twice as many groups, of which nothing was pending in the second half."""
    top = agenda.is_noted.size >> agenda.height[0]
    agenda.height[0] += 1
    agenda.winners[top >> 1] = agenda.winners[top]
    agenda.firsts[top >> 1] = agenda.firsts[top]


@step
def _play(agenda, group):
    """Find the first of ``group``, and of all that it is a part of, as far as that changes."""
    winner, first = _first_of_group(agenda.times, group << GROUP_BITS)
    place = group + agenda.is_noted.size
    top = agenda.is_noted.size >> agenda.height[0]
    while agenda.winners[place] != winner or agenda.firsts[place] != first:
        agenda.winners[place] = winner
        agenda.firsts[place] = first
        if place == top:
            break
        other, at = agenda.winners[place ^ 1], agenda.firsts[place ^ 1]
        is_other = (at < first) | ((at == first) & (other < winner))
        winner, first = other if is_other else winner, min(first, at)
        place >>= 1


@step
def _first_of_group(times, a):
    """The first of the slots from ``a`` on, and its time: by pairs, which do not wait in a row."""
    b, c, d = a + 2, a + 4, a + 6
    p, at_p = _earlier(a, times[a], a + 1, times[a + 1])
    q, at_q = _earlier(b, times[b], b + 1, times[b + 1])
    r, at_r = _earlier(c, times[c], c + 1, times[c + 1])
    s, at_s = _earlier(d, times[d], d + 1, times[d + 1])
    p, at_p = _earlier(p, at_p, q, at_q)
    r, at_r = _earlier(r, at_r, s, at_s)
    return _earlier(p, at_p, r, at_r)


@step
def _earlier(a, at_a, b, at_b):
    """Of two slots and their times what fires first: of equal times ``a``, which is lower."""
    return b if at_b < at_a else a, min(at_a, at_b)
