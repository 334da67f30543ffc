"""Registered memory as the NIC sees it: regions, windows, lookups of their entries, flushes."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports import layout
from nicscope.nic.translate.book import RNIC
from nicscope.nic.translate.rnic import ask_regions, invalidate_region
from nicscope.nic.translate.state import levels_of, translation_of

OWN = 0  # in place of a right: the port's process sends from its own memory
OWN_STORE = -1  # or has something put there


@step
def row_of(nics, key):
    """Row of the region of ``key`` in the table of regions."""
    ports = nics.ports
    return (key >> ports.rules[0].key_bits) % ports.work.regions.shape[1]


@step
def permits(nics, n, p, key, address, length, right):
    """Whether port ``p`` may access a range of the memory registered as ``key``.

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
    elif (
        region.rights & (layout.REMOTE_ONLY | (layout.READ_ONLY if right == OWN_STORE else 0)) != 0
    ):
        return False
    if region.of != 0 and regions[n, row_of(nics, region.of)].key != region.of:
        return False  # of a window whose region is registered no more
    # In an order in which nothing is more than 64 bits have room for.
    begin = region.address if right > OWN else region.address + region.shift
    if address < begin or length < 0:
        return False
    return address - begin <= region.length - length


@step
def is_registered_range(nics, n, key, address, length):
    """Whether a range of a process's memory is registered as ``key``, whatever its rights."""
    regions = nics.ports.work.regions
    region = regions[n, row_of(nics, key)]
    if region.key != key:
        return False
    if region.of != 0 and regions[n, row_of(nics, region.of)].key != region.of:
        return False
    begin = region.address + region.shift
    return address >= begin and address - begin <= region.length - length


@step
def is_descriptor_readable(nics, n, p, slot):
    """Whether the NIC may read the descriptor of connected port ``p`` in ``slot``."""
    place = nics.ports.work.descriptors[n, p, slot]
    return place.length == 0 or permits(nics, n, p, place.key, place.address, place.length, OWN)


@step
def shift_of(nics, n, key):
    """Bytes from the addresses that name the memory registered as ``key`` to those of its own."""
    return nics.ports.work.regions[n, row_of(nics, key)].shift


# A flush's word: the rights that it takes, whether it is of all of a region, and how many bytes.
WHOLE = 1 << 9
LENGTH_BITS = 16  # above which the bytes are


@step
def is_flush(head):
    """Whether the request of ``head`` is a flush."""
    return head.kind == layout.FETCH and head.atomic == 0 and head.total == 0 and head.immediate > 0


@step
def may_flush(nics, d, p, head):
    """Whether the peer of port ``p`` may have the memory flushed that ``head`` names."""
    regions = nics.ports.work.regions
    if head.remote_key <= 0 or regions.shape[1] == 0:
        return False
    address, length = head.remote, head.immediate >> LENGTH_BITS
    if head.immediate & WHOLE:
        address, length = regions[d, row_of(nics, head.remote_key)].address, 0
    for right in (layout.MAY_FLUSH, layout.MAY_PERSIST):
        if head.immediate & right and not permits(
            nics, d, p, head.remote_key, address, length, right
        ):
            return False
    return True


@step
def packets_in(nics, begin, count, is_first):
    """Of ``count`` bytes from byte ``begin`` of a message, packets that look the region up.

    Each that begins there does, and one more where the region ``is_first`` used amid a packet;
    where a region is looked up once for a message, that alone.
    """
    mtu = nics.ports.rules[0].region_mtu
    if mtu == 0:
        return np.int64(is_first)
    packets = (begin + count + mtu - 1) // mtu - (begin + mtu - 1) // mtu
    return packets + np.int64(is_first and begin % mtu != 0)


@routine
def lookup_region(nics, n, key, packets):
    """Look up the region of ``key``, which is valid, for each of so many packets."""
    ports = nics.ports
    if ports.rules[0].scheme != RNIC or packets == 0:
        return
    _, _, book = translation_of(ports.translations, n)
    fetched = book.counts[0].icm_fetches
    ask_regions(levels_of(ports.translations, n), book, row_of(nics, key), packets)
    if book.counts[0].icm_fetches == fetched:
        return
    serving = ports.nodes[n]
    serving.region_reads += 1
    if serving.outcome == layout.NOTHING_LEFT:
        serving.outcome = layout.REGION_MISS
        serving.miss_for = layout.ABANDONED


@routine
def invalidate_region_entry(nics, n, row):
    """Invalidate the cached entry of a region that the host changes."""
    ports = nics.ports
    if ports.rules[0].scheme == RNIC:
        _, _, book = translation_of(ports.translations, n)
        invalidate_region(levels_of(ports.translations, n), book, row)


OF_PORT = 2  # ``REGION.kind`` of a window that the port which bound it alone has used


@step
def bind(nics, n, p):
    """Bind the memory window that the request of port ``p`` names to its range of memory.

    ``DONE``, or the status of a failure.  The request's name is the window's new key, its word the
    rights; without a piece the window stands for nothing.
    """
    ports = nics.ports
    port = ports.table[n, p]
    regions = ports.work.regions
    if port.name <= 0 or port.segments > 1:
        return layout.NOT_BOUND
    window = regions[n, row_of(nics, port.name)]
    if window.kind == 0 or window.domain != port.domain:
        return layout.NOT_BOUND
    if port.segments == 0:
        window.key = 0
        return layout.DONE
    piece = ports.current[n, p, 0]
    region = regions[n, row_of(nics, piece.key)]
    if piece.key <= 0 or region.key != piece.key or not _may_bind(port, region, port.immediate):
        return layout.NOT_BOUND
    if piece.address < region.address or piece.length < 1:
        return layout.NOT_BOUND
    if piece.address - region.address > region.length - piece.length:
        return layout.NOT_BOUND
    window.key = port.name
    window.space = region.space
    window.address = piece.address
    window.length = piece.length
    window.rights = port.immediate | layout.REMOTE_ONLY
    window.port = p if window.kind == OF_PORT else 0
    window.shift = region.shift
    window.of = region.key
    return layout.DONE


@step
def _may_bind(port, region, rights):
    """Whether port ``port`` may have a window of those rights on ``region``."""
    if region.space != port.space or region.domain != port.domain:
        return False
    if region.rights & layout.BINDABLE == 0 or region.kind != 0:
        return False
    return rights & ~layout.MAY_FETCH == 0 or region.rights & layout.READ_ONLY == 0


@step
def unbind(nics, n, p, key):
    """Unbind the memory window of ``key``: ``DONE``, or the status of a failure."""
    port = nics.ports.table[n, p]
    if key <= 0:
        return layout.NOT_BOUND
    window = nics.ports.work.regions[n, row_of(nics, key)]
    if window.kind != OF_PORT or window.key != key or window.domain != port.domain:
        return layout.NOT_BOUND
    window.key = 0
    return layout.DONE
