"""Registered memory: which stretches of it a port may use, and its peer from afar."""

from __future__ import annotations

from nicscope.kernel.decorators import step

OWN = 0  # in place of a right: the port's process uses its own memory


@step
def permits(nics, n, p, key, address, length, right):
    """Whether port ``p`` of node ``n`` may use a stretch of the memory registered as ``key``.

    For its peer with ``right``: MAY_WRITE or MAY_FETCH, which both the region and the port give.
    """
    regions = nics.ports.work.regions
    if regions.shape[1] == 0 or key <= 0:
        return False
    region = regions[n, key % regions.shape[1]]
    port = nics.ports.table[n, p]
    if region.key != key or region.space != port.space or region.domain != port.domain:
        return False
    if right != OWN and region.rights & port.rights & right == 0:
        return False
    # In an order in which nothing is more than 64 bits have room for.
    if address < region.address or length < 0:
        return False
    return address - region.address <= region.length - length


@step
def may_be_read(nics, n, p, slot):
    """Whether the descriptor of connected port ``p`` in ``slot`` is where the NIC may read it."""
    place = nics.ports.work.descriptors[n, p, slot]
    return place.length == 0 or permits(nics, n, p, place.key, place.address, place.length, OWN)
