"""Memory windows: parts of regions, with keys and rights of their own, bound by work requests.

A window has a place among the regions.  What it stands for, and by which key, is said by a request
of a send queue, in its order.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import (
    BINDABLE,
    DONE,
    MAY_FETCH,
    NOT_BOUND,
    READ_ONLY,
    REMOTE_ONLY,
)
from nicscope.nic.ports.regions import row_of

ANY_WINDOW = 1  # ``REGION.kind``: every port of the domain has it used
OF_PORT = 2  # the one that bound it


@step
def bind(nics, n, p):
    """Have the window that the copied request of port ``p`` names stand for its piece of memory.

    ``DONE``, or the status of a failure.  The request's name is the window's new key, its word the
    rights; without a piece the window stands for nothing.
    """
    ports = nics.ports
    port = ports.table[n, p]
    regions = ports.work.regions
    if port.name <= 0 or port.segments > 1:
        return NOT_BOUND
    window = regions[n, row_of(nics, port.name)]
    if window.kind == 0 or window.domain != port.domain:
        return NOT_BOUND
    if port.segments == 0:
        window.key = 0
        return DONE
    piece = ports.current[n, p, 0]
    region = regions[n, row_of(nics, piece.key)]
    if piece.key <= 0 or region.key != piece.key or not _may_bind(port, region, port.immediate):
        return NOT_BOUND
    if piece.address < region.address or piece.length < 1:
        return NOT_BOUND
    if piece.address - region.address > region.length - piece.length:
        return NOT_BOUND
    window.key = port.name
    window.space = region.space
    window.address = piece.address
    window.length = piece.length
    window.rights = port.immediate | REMOTE_ONLY
    window.port = p if window.kind == OF_PORT else 0
    window.shift = region.shift
    window.of = region.key
    return DONE


@step
def _may_bind(port, region, rights):
    """Whether port ``port`` may have a window of those rights on ``region``."""
    if region.space != port.space or region.domain != port.domain:
        return False
    if region.rights & BINDABLE == 0 or region.kind != 0:
        return False
    return rights & ~MAY_FETCH == 0 or region.rights & READ_ONLY == 0


@step
def unbind(nics, n, p, key):
    """The window of ``key`` stands for nothing any more: ``DONE``, or the status of a failure."""
    port = nics.ports.table[n, p]
    if key <= 0:
        return NOT_BOUND
    window = nics.ports.work.regions[n, row_of(nics, key)]
    if window.kind != OF_PORT or window.key != key or window.domain != port.domain:
        return NOT_BOUND
    window.key = 0
    return DONE
