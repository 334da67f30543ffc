"""Combining buffers: they gather the CPU's stores to a device's memory, past the caches.

A buffer has one stretch of ``combine_bytes`` and leaves the CPU as one burst when all of it was
stored, else in single writes of up to 8 bytes, when it is needed or all of them must leave.
``device`` is the device's memory; places are offsets in it.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.bus import data_phase
from nicscope.memory.coherence.layout import (
    COMBINED_WRITE,
    EMPTY,
    UNCACHED_WRITE,
)

WIDEST = 8  # bytes of one uncached access


@step
def buffer_over(host, stretch):
    """The combining buffer that gathers the stretch which begins there, or ``EMPTY``."""
    chosen = np.int64(EMPTY)
    for b in range(host.config[0].combine_buffers):
        if host.buffers[b].start == stretch:
            chosen = np.int64(b)
    return chosen


@step
def combine(host, chosen, place, count, source, start):
    """Put the store into the buffer; whether all of its stretch is there now."""
    whole = host.config[0].combine_bytes
    buffer = host.buffers[chosen]
    buffer.start = place // whole * whole
    host.registers[0].clock += 1
    buffer.used = host.registers[0].clock
    within = place - buffer.start
    copy_bytes(host.buffer_data, chosen * whole + within, source, start, count)
    buffer.mask |= ((np.int64(1) << count) - 1) << within
    return buffer.mask == (np.int64(1) << whole) - 1


@step
def oldest_buffer(host):
    """A free buffer, or the one that was used least recently."""
    chosen = np.int64(0)
    for b in range(host.config[0].combine_buffers):
        if host.buffers[b].start == EMPTY:
            return np.int64(b)
        if host.buffers[b].used < host.buffers[chosen].used:
            chosen = np.int64(b)
    return chosen


@step
def oldest_with_bytes(host):
    """The buffer with bytes that was used least recently; any, if none has."""
    chosen = np.int64(0)
    for b in range(1, host.config[0].combine_buffers):
        if host.buffers[b].mask != 0 and (
            host.buffers[chosen].mask == 0 or host.buffers[b].used < host.buffers[chosen].used
        ):
            chosen = np.int64(b)
    return chosen


@step
def next_piece(host, chosen):
    """First byte and bytes of what leaves the buffer next: all of it, or up to 8 in a row."""
    mask = host.buffers[chosen].mask
    whole = host.config[0].combine_bytes
    if mask == (np.int64(1) << whole) - 1:
        return np.int64(0), whole
    first = np.int64(0)
    while (mask >> first) & 1 == 0:
        first += 1
    last = first
    limit = min(whole, (first // WIDEST + 1) * WIDEST)
    while last < limit and (mask >> last) & 1 != 0:
        last += 1
    return first, last - first


@step
def kind_of_piece(host, count):
    """The transaction that takes ``count`` bytes out of a buffer."""
    return COMBINED_WRITE if count == host.config[0].combine_bytes else UNCACHED_WRITE


@step
def send_piece(host, device, chosen, first, count, ordered):
    """When a piece of the buffer, which is ordered at ``ordered``, is at the device (ps)."""
    buffer = host.buffers[chosen]
    start = chosen * host.config[0].combine_bytes + first
    copy_bytes(device, buffer.start + first, host.buffer_data, start, count)
    buffer.mask &= ~(((np.int64(1) << count) - 1) << first)
    return data_phase(host, ordered, count, 0)
