"""A transfer under way: bytes moved at a rate that may change.

``docs/virtual-time.md``, Transfers.  At 0 ps per byte all of it moves at once.
"""

import numpy as np

from nicscope.kernel.decorators import step

NO_RATE = -1  # of a transfer whose rate is set when all rates are, after this event's effects

# ``moved`` of ``total`` bytes until ``since`` (ps), and ``rate`` ps per byte from there.
FLOW = np.dtype(
    [("total", "i8"), ("moved", "i8"), ("since", "i8"), ("rate", "i8"), ("begun", "i8")],
    align=True,
)


@step
def begin(flow, now, start, total, rate):
    """Begin a transfer of ``total`` bytes at ``now``, whose first byte moves ``start`` ps later."""
    flow.total = total
    flow.moved = 0
    flow.begun = now
    flow.since = now + start
    flow.rate = rate


@step
def end_of(flow):
    """When its last byte will have moved, at the rate of now."""
    return flow.since + (flow.total - flow.moved) * flow.rate


@step
def moved_by(flow, now):
    """Bytes moved by ``now``, for a ``now`` not before its last change."""
    if now < flow.since:
        return flow.moved
    if now >= end_of(flow):
        return flow.total  # as dividing would find, but that takes longer
    return flow.moved + (now - flow.since) // flow.rate


@step
def change_rate(flow, now, rate):
    """Go on at ``rate`` ps per byte; the byte under way moves anew.  Whether anything changed."""
    if rate == flow.rate:
        return False
    if now > flow.since:
        flow.moved = moved_by(flow, now)
        flow.since = now
    flow.rate = rate
    return True


@step
def time_of(flow, byte):
    """When ``byte`` bytes will have moved, at the rate of now; not before its last change."""
    return flow.since + max(0, byte - flow.moved) * flow.rate
