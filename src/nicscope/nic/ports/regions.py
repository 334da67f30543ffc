"""Registered memory: which stretches of it a port may use, and its peer from afar."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import READ_ONLY, REMOTE_ONLY

OWN = 0  # in place of a right: the port's process sends from its own memory
OWN_STORE = -1  # or has something put there


@step
def row_of(nics, key):
    """Where regions have the one of ``key``, if there is one."""
    ports = nics.ports
    return (key >> ports.rules[0].key_bits) % ports.work.regions.shape[1]


@step
def permits(nics, n, p, key, address, length, right):
    """Whether port ``p`` of node ``n`` may use a stretch of the memory registered as ``key``.

    For its peer with ``right``: MAY_WRITE or MAY_FETCH, which both the region and the port give.
    """
    regions = nics.ports.work.regions
    if regions.shape[1] == 0 or key <= 0:
        return False
    region = regions[n, row_of(nics, key)]
    port = nics.ports.table[n, p]
    if region.key != key or region.space != port.space or region.domain != port.domain:
        return False
    if right > OWN:
        if region.rights & port.rights & right == 0 or region.port not in (0, p):
            return False
    elif region.rights & (REMOTE_ONLY | (READ_ONLY if right == OWN_STORE else 0)) != 0:
        return False
    if region.of != 0 and regions[n, row_of(nics, region.of)].key != region.of:
        return False  # of a window whose region is registered no more
    # In an order in which nothing is more than 64 bits have room for.
    begin = region.address if right > OWN else region.address + region.shift
    if address < begin or length < 0:
        return False
    return address - begin <= region.length - length


@step
def is_there(nics, n, key, address, length):
    """Whether a stretch of a process's memory is registered as ``key``, for whomever."""
    regions = nics.ports.work.regions
    region = regions[n, row_of(nics, key)]
    if region.key != key:
        return False
    if region.of != 0 and regions[n, row_of(nics, region.of)].key != region.of:
        return False
    begin = region.address + region.shift
    return address >= begin and address - begin <= region.length - length


@step
def may_be_read(nics, n, p, slot):
    """Whether the descriptor of connected port ``p`` in ``slot`` is where the NIC may read it."""
    place = nics.ports.work.descriptors[n, p, slot]
    return place.length == 0 or permits(nics, n, p, place.key, place.address, place.length, OWN)


@step
def shift_of(nics, n, key):
    """Bytes from the addresses that name the memory registered as ``key`` to those of its own."""
    return nics.ports.work.regions[n, row_of(nics, key)].shift
