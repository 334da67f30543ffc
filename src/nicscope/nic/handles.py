"""miNI's handles of buffers and processes: what the NIC's entry for one holds, word by word.

The tables lie in the host's memory (``EXPORT`` and ``IMPORT`` of ``nic.ports``, and the driver's
list of processes); the NIC caches them with the same cache as translations, an entry a line of
words (miNI, IV.A).  An entry of a buffer holds its protection data: who may do what, and how far.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step

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
