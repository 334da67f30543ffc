"""What happens next: one slot per thing that can be pending, the earliest found through a tree.

Every node has the same few kinds of pending things, each at most once, so a slot is (node, kind)
and to move or to cancel one is to write its time.  The tree is a tournament: each inner place holds
the slot that fires first below it; of equal times the lower slot, which is the lower (node, kind).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import routine, step

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Agenda(NamedTuple):
    """Slots and the tree over them."""

    times: NDArray[np.int64]  # ps by slot, shape (places,), a power of two; NEVER if not pending
    winners: NDArray[np.int64]  # slot by place of the tree, shape (places,); 1 is the root


def new_agenda(slots: int) -> Agenda:
    """An agenda of ``slots`` slots on which nothing is pending."""
    places = max(2, 1 << (slots - 1).bit_length())
    winners = np.zeros(places, np.int64)
    for place in range(places - 1, 0, -1):
        winners[place] = (place * 2 - places) if place * 2 >= places else winners[place * 2]
    return Agenda(np.full(places, NEVER), winners)


@routine
def put(agenda, slot, time):
    """Have ``slot`` fire at ``time``, or at no time if that is ``NEVER``."""
    times = agenda.times
    winners = agenda.winners
    if times[slot] == time:
        return
    times[slot] = time
    place = (slot + times.size) >> 1
    left = slot & ~1
    winner = left if times[left] <= times[left + 1] else left + 1
    winners[place] = winner
    while place > 1:
        place >>= 1
        left = winners[2 * place]
        right = winners[2 * place + 1]
        winners[place] = left if times[left] <= times[right] else right


@step
def earliest(agenda):
    """The slot that fires next; its time is ``NEVER`` if nothing is pending."""
    return agenda.winners[1]
