"""The CPU's accesses to a device's memory, past the caches: single, or combined into bursts.

``device`` is that memory; places are offsets in it.  Combining buffers gather stores to one
stretch of ``combine_bytes`` and leave the CPU as one burst when all of it was stored, else in
single writes of up to 8 bytes, when a buffer is needed or ``drain`` is called.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.bus import address_phase, data_phase
from nicscope.memory.coherence.layout import (
    COMBINED_WRITE,
    CPU,
    EMPTY,
    UNCACHED_READ,
    UNCACHED_WRITE,
)
from nicscope.memory.coherence.lines import copy_bytes

WIDEST = 8  # bytes of one uncached access


@step
def uncached_write(host, device, place, count, source, start, now):
    """When the device has taken ``count`` (1 to 8) bytes and the CPU goes on (ps)."""
    copy_bytes(device, place, source, start, count)
    ordered = address_phase(host, CPU, UNCACHED_WRITE, now)
    return data_phase(host, ordered, count, 0)


@step
def uncached_read(host, device, place, count, target, start, now):
    """When the CPU has ``count`` (1 to 8) bytes of the device's memory (ps)."""
    copy_bytes(target, start, device, place, count)
    ordered = address_phase(host, CPU, UNCACHED_READ, now)
    return data_phase(host, ordered + host.config[0].device_latency, count, 0)


@step
def combined_write(host, device, place, count, source, start, now):
    """When the store of ``count`` bytes, within one stretch, is in a combining buffer (ps)."""
    config = host.config[0]
    stretch = place // config.combine_bytes * config.combine_bytes
    chosen = np.int64(EMPTY)
    for b in range(config.combine_buffers):
        if host.buffers[b].start == stretch:
            chosen = np.int64(b)
    if chosen == EMPTY:
        chosen = _oldest(host)
        now = _leave(host, device, chosen, now)
        host.buffers[chosen].start = stretch
    buffer = host.buffers[chosen]
    host.registers[0].clock += 1
    buffer.used = host.registers[0].clock
    within = place - stretch
    copy_bytes(host.buffer_data, chosen * config.combine_bytes + within, source, start, count)
    buffer.mask |= ((np.int64(1) << count) - 1) << within
    now += config.l1_latency
    if buffer.mask == (np.int64(1) << config.combine_bytes) - 1:
        now = _leave(host, device, chosen, now)
    return now


@step
def drain(host, device, now):
    """When all combining buffers have left the CPU, the oldest first (ps)."""
    for _ in range(host.config[0].combine_buffers):
        oldest = _oldest_full(host)
        if host.buffers[oldest].mask == 0:
            return now
        now = _leave(host, device, oldest, now)
    return now


@step
def _oldest(host):
    """A free buffer, or the one that was used least recently."""
    chosen = np.int64(0)
    for b in range(host.config[0].combine_buffers):
        if host.buffers[b].start == EMPTY:
            return np.int64(b)
        if host.buffers[b].used < host.buffers[chosen].used:
            chosen = np.int64(b)
    return chosen


@step
def _oldest_full(host):
    """The buffer with bytes that was used least recently; any, if none has."""
    chosen = np.int64(0)
    for b in range(1, host.config[0].combine_buffers):
        if host.buffers[b].mask != 0 and (
            host.buffers[chosen].mask == 0 or host.buffers[b].used < host.buffers[chosen].used
        ):
            chosen = np.int64(b)
    return chosen


@routine
def _leave(host, device, chosen, now):
    """Send the buffer's bytes to the device, as one burst if they are whole; when done (ps)."""
    config = host.config[0]
    buffer = host.buffers[chosen]
    data = chosen * config.combine_bytes
    if buffer.mask == (np.int64(1) << config.combine_bytes) - 1:
        copy_bytes(device, buffer.start, host.buffer_data, data, config.combine_bytes)
        ordered = address_phase(host, CPU, COMBINED_WRITE, now)
        now = data_phase(host, ordered, config.combine_bytes, 0)
    elif buffer.mask != 0:
        first = np.int64(0)
        while first < config.combine_bytes:
            if (buffer.mask >> first) & 1 == 0:
                first += 1
                continue
            last = first
            limit = min(config.combine_bytes, (first // WIDEST + 1) * WIDEST)
            while last < limit and (buffer.mask >> last) & 1 != 0:
                last += 1
            now = uncached_write(
                host,
                device,
                buffer.start + first,
                last - first,
                host.buffer_data,
                data + first,
                now,
            )
            first = last
    buffer.start = EMPTY
    buffer.mask = 0
    return now
