"""The CPU's loops over words: a program's stores and loads, and copies from buffer to buffer."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.cpu import cpu_read, cpu_write


@routine
def store_words(host, watcher, address, source, start, count, now):
    """When the CPU has stored ``count`` bytes of ``source[start:]`` at ``address`` (ps)."""
    done = 0
    while done < count:
        size, now = cpu_write(
            host, watcher, address + done, count - done, source, start + done, now
        )
        done += size
    return now


@routine
def load_words(host, watcher, address, target, start, count, now):
    """When the CPU has the ``count`` bytes at ``address`` in ``target[start:]`` (ps)."""
    done = 0
    while done < count:
        size, now = cpu_read(host, watcher, address + done, count - done, target, start + done, now)
        done += size
    return now


@step
def copy_words(node, to, start, count, now):
    """When the CPU has copied ``count`` bytes from ``start`` to ``to`` (ps).

    As an unrolled loop does: up to a block's bytes are loaded into registers, then stored.
    """
    scratch = node.nic.scratch
    done = 0
    while done < count:
        size = min(scratch.size, count - done)
        now = load_words(node.host, node.agent, start + done, scratch, np.int64(0), size, now)
        now = store_words(node.host, node.agent, to + done, scratch, np.int64(0), size, now)
        done += size
    return now
