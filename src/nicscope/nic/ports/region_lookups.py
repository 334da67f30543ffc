"""Regions as an RDMA NIC looks them up: their entries are in host memory, and cached on the NIC.

What a cache has not is read by DMA before the processor does anything else; meanwhile engines may
move what the action has begun.  Under all other designs the table itself is on the NIC.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports.layout import ABANDONED, NOTHING_LEFT, REGION_MISS
from nicscope.nic.ports.regions import row_of
from nicscope.nic.translate.codes import RNIC
from nicscope.nic.translate.nodes import levels_of, translation_of
from nicscope.nic.translate.rnic import ask_regions, forget_region


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
def look_region_up(nics, n, key, packets):
    """Look up the region of ``key``, which is one, for each of so many packets."""
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
    if serving.outcome == NOTHING_LEFT:
        serving.outcome = REGION_MISS
        serving.miss_for = ABANDONED


@routine
def forget_row(nics, n, row):
    """The host changes the entry of a region: caches have it no more."""
    ports = nics.ports
    if ports.rules[0].scheme == RNIC:
        _, _, book = translation_of(ports.translations, n)
        forget_region(levels_of(ports.translations, n), book, row)
