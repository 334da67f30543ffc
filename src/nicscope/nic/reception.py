"""Reliability firmware, the receiver: which packets count, and what the peer is told.

Packets are judged when their headers come and confirmed when they are wholly in; several can be
between the two.  They are confirmed in the order in which they were judged.  The records are those
of ``nic/transport.py``, the contract is ``docs/reliability.md``.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.transport import LAST, distance

# What the receiver makes of a packet.
WANTED = 0
DUPLICATE = 1  # had before, or overtaken
GAP = 2  # one before it is missing


@step
def judge(link, sequence):
    """``WANTED``, and then accepted until refused, ``DUPLICATE`` or ``GAP``; a header has come."""
    if link.dead == 1:
        return GAP
    ahead = distance(sequence, link.wanted)
    if ahead > 0:
        link.gaps += 1
        return GAP
    if ahead < 0:
        link.duplicates += 1
        link.ack_due = 1  # or a lost acknowledgement would block the peer for ever
        return DUPLICATE
    link.wanted = (sequence + 1) & LAST
    return WANTED


@step
def is_accepted(link, sequence):
    """Whether ``sequence`` was judged ``WANTED`` and neither it nor one before it refused."""
    return distance(sequence, link.confirmed) >= 0 and distance(sequence, link.wanted) < 0


@step
def may_confirm(link, sequence):
    """Whether ``sequence``, wholly in, is the very next: none before it is missing."""
    return link.dead == 0 and sequence == link.confirmed and sequence != link.wanted


@step
def is_confirmed(link, sequence):
    """Whether ``sequence`` has been confirmed."""
    return distance(sequence, link.confirmed) < 0


@step
def confirm(link, sequence):
    """Have ``sequence`` acknowledged; ``may_confirm`` said that it may be."""
    link.confirmed = (sequence + 1) & LAST
    link.ack_due = 1


@step
def refuse(link, sequence):
    """Take the acceptance of ``sequence``, and of all after it, back; whether there was one."""
    if not is_accepted(link, sequence):
        return False
    link.wanted = sequence
    link.refused += 1
    return True


@step
def ack_is_due(link):
    """Whether the peer should hear how far its packets are in."""
    return link.dead == 0 and link.ack_due == 1


@step
def take_ack(link):
    """The acknowledgement for a header that leaves now, the next number expected; none is due."""
    link.acks += link.ack_due
    link.ack_due = 0
    return link.confirmed


@step
def judge_unreliable(link, sequence):
    """``WANTED`` or ``DUPLICATE``, of a packet wholly and correctly in, where loss is allowed.

    What comes is in order, each packet once at most; those jumped over are counted as gaps.
    """
    ahead = distance(sequence, link.wanted)
    if ahead < 0:
        link.duplicates += 1
        return DUPLICATE
    link.gaps += ahead
    link.wanted = (sequence + 1) & LAST
    link.confirmed = link.wanted
    return WANTED
