"""miNI's handles of buffers and processes: what the NIC's entry for one holds, and their caches.

The tables lie in the host's memory (``EXPORT`` and ``IMPORT`` of ``nic.ports``, and the driver's
list of processes); the NIC caches them with the same cache as translations, an entry a line of
words (miNI, IV.A).  An entry of a buffer holds its protection data: who may do what, and how far.
A miss takes the path that a page's takes: interrupt, event queue, kernel thread, fill.  Under all
other designs the tables themselves are on the NIC, and nothing is looked up here.
"""

import numpy as np

from nicscope.kernel.decorators import distant, routine, row_of, step
from nicscope.nic.cache import MISS, drop, fill, find, hold, lookup, release

BUFFER_WORDS = 16  # of a line; 10 are in use
PROCESS_WORDS = 4  # 2 in use

# Which handle: stands in place of a space where a page's miss names its space.
EXPORT_HANDLE = -1  # of a buffer of this node, named by a packet
IMPORT_HANDLE = -2  # of a buffer anywhere, named by a descriptor
PROCESS_HANDLE = -3


@step
def is_handle(space):
    """Whether a miss in ``space`` is of a buffer's or a process's handle, not of a page."""
    return space < 0


@step
def tag_of(kind, number):
    """Cache tag of handle ``number``; exports and imports share one cache."""
    if kind == PROCESS_HANDLE:
        return number + 1
    return 2 * number + (2 if kind == IMPORT_HANDLE else 1)


@step
def write_export(words, first, export):
    """Copy the host's record of an exported buffer to the entry that begins at ``first``."""
    words[first] = export.valid
    words[first + 1] = export.port + 1
    words[first + 2] = export.space
    words[first + 3] = export.start  # handles hold 32 bits of an address (IV)
    words[first + 4] = export.length
    words[first + 5] = export.rights
    words[first + 6] = export.node + 1
    words[first + 7] = export.importer + 1
    words[first + 8] = export.redirect + 1
    words[first + 9] = export.epoch


@step
def read_export(words, first, export):
    """Copy the entry that begins at ``first`` to ``export``, as checks read it."""
    export.valid = words[first]
    export.port = np.int64(words[first + 1]) - 1
    export.space = words[first + 2]
    export.start = words[first + 3]
    export.length = words[first + 4]
    export.rights = words[first + 5]
    export.node = np.int64(words[first + 6]) - 1
    export.importer = np.int64(words[first + 7]) - 1
    export.redirect = np.int64(words[first + 8]) - 1
    export.epoch = words[first + 9]


@step
def write_import(words, first, imported):
    """Copy the host's record of an imported buffer to the entry that begins at ``first``."""
    words[first] = imported.port + 1
    words[first + 1] = imported.node
    words[first + 2] = imported.export
    words[first + 3] = imported.start
    words[first + 4] = imported.length
    words[first + 5] = imported.rights
    words[first + 6] = imported.epoch


@step
def write_process(words, first, port):
    """Copy what the driver knows of the process behind ``port``."""
    words[first] = port.open
    words[first + 1] = port.space


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
