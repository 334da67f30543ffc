"""Handles of buffers and processes, looked up in caches of the host's tables (miNI, IV.A).

A miss takes the path that a page's takes: interrupt, event queue, kernel thread, fill.  Under all
other designs the tables themselves are on the NIC, and nothing is looked up here.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, row_of, step
from nicscope.nic.cache import MISS, drop, fill, find, hold, lookup, release
from nicscope.nic.handles import (
    EXPORT_HANDLE,
    IMPORT_HANDLE,
    PROCESS_HANDLE,
    read_export,
    tag_of,
    write_export,
    write_import,
    write_process,
)


@step
def _cache_of(nics, n, kind):
    if kind == PROCESS_HANDLE:
        return row_of(nics.ports.process_cache, n)
    return row_of(nics.ports.buffer_cache, n)


@distant
def has_handle(nics, n, kind, number, again):
    """Whether the NIC of ``n`` has handle ``number``; ``again``: 1 if it was asked for before.

    Of an exported buffer ``Ports.shown`` then holds what the NIC knows.
    """
    ports = nics.ports
    serving = ports.nodes[n]
    cache = _cache_of(nics, n, kind)
    tag = np.int64(tag_of(kind, number))
    row = number & (cache.config[0].sets - 1)
    entry = lookup(cache, row, tag, ports.nodes[n : n + 1])
    missed = np.int64(entry == MISS)
    if again == 0 and kind == PROCESS_HANDLE:
        serving.process_lookups += 1
        serving.process_misses += missed
    elif again == 0:
        serving.buffer_lookups += 1
        serving.buffer_misses += missed
    if missed == 1:
        return False
    if kind == EXPORT_HANDLE:
        read_export(cache.frames, entry * cache.config[0].line, ports.shown[n])
    return True


@distant
def fill_handle(nics, n, kind, number):
    """Fill a handle from the host's table, even one that is not valid."""
    ports = nics.ports
    cache = _cache_of(nics, n, kind)
    tag = np.int64(tag_of(kind, number))
    row = number & (cache.config[0].sets - 1)
    if find(cache, row, tag) != MISS:
        return
    first = fill(cache, row, tag) * cache.config[0].line
    if kind == EXPORT_HANDLE:
        write_export(cache.frames, first, ports.shared.exports[n, number])
    elif kind == IMPORT_HANDLE:
        write_import(cache.frames, first, ports.shared.imports[n, number])
    else:
        write_process(cache.frames, first, ports.table[n, number])


@step
def _entry_of(cache, kind, number):
    """Where the NIC has handle ``number``, or ``MISS``."""
    return find(cache, number & (cache.config[0].sets - 1), np.int64(tag_of(kind, number)))


@routine
def hold_handle(nics, n, kind, number):
    """Hold handle ``number`` on the NIC, if it is there, until ``release_handle``."""
    cache = _cache_of(nics, n, kind)
    entry = _entry_of(cache, kind, number)
    if entry != MISS:
        hold(cache, entry)


@routine
def release_handle(nics, n, kind, number):
    """Release handle ``number``: it may be evicted."""
    cache = _cache_of(nics, n, kind)
    entry = _entry_of(cache, kind, number)
    if entry != MISS:
        release(cache, entry)


@distant
def invalidate_handle(nics, n, kind, number):
    """Invalidate the NIC's copy of a handle whose record on the host changes."""
    cache = _cache_of(nics, n, kind)
    release_handle(nics, n, kind, number)  # or its place would stay in use
    drop(cache, number & (cache.config[0].sets - 1), np.int64(tag_of(kind, number)))
