"""Flushes: questions without an answer's bytes, which come back when earlier stores are there.

A NIC completes packets in their order, so what a peer stored before its question is in memory when
that is answered.  What is left to do is to see whether the peer may ask.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import FETCH, MAY_FLUSH, MAY_PERSIST
from nicscope.nic.ports.regions import permits, row_of

# A flush's word: the rights that it takes, whether it is of all of a region, and how many bytes.
WHOLE = 1 << 9
LENGTH_BITS = 16  # above which the bytes are


@step
def is_flush(head):
    """Whether the question of ``head`` is one."""
    return head.kind == FETCH and head.atomic == 0 and head.total == 0 and head.immediate > 0


@step
def may_flush(nics, d, p, head):
    """Whether the peer of port ``p`` may have the memory flushed that ``head`` names."""
    regions = nics.ports.work.regions
    if head.remote_key <= 0 or regions.shape[1] == 0:
        return False
    address, length = head.remote, head.immediate >> LENGTH_BITS
    if head.immediate & WHOLE:
        address, length = regions[d, row_of(nics, head.remote_key)].address, 0
    for right in (MAY_FLUSH, MAY_PERSIST):
        if head.immediate & right and not permits(
            nics, d, p, head.remote_key, address, length, right
        ):
            return False
    return True
