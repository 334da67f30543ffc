"""The host's kernel moves whole stretches of memory beside the caches: they must agree first.

It takes no bus time here: what the kernel's work costs is stated with that work.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.layout import EMPTY, MODIFIED
from nicscope.memory.coherence.lines import clean, discard, find_l2
from nicscope.memory.coherence.nodes import host_of


@step
def has_caches(hosts):
    """Whether there are caches before this memory."""
    return hosts.config.size > 0


@step
def settle(hosts, h, start, count):
    """What the caches of host ``h`` have modified of the range reaches memory, before it is read.

    The lines stay, SHARED.
    """
    if has_caches(hosts):
        _go_over(hosts, h, start, count, np.int64(1))


@step
def forget(hosts, h, start, count):
    """The range leaves the caches of host ``h``, before memory is overwritten."""
    if has_caches(hosts):
        _go_over(hosts, h, start, count, np.int64(0))


@routine
def _go_over(hosts, h, start, count, keep):
    """All blocks of the range; one that reaches beyond it loses nothing there."""
    host = host_of(hosts, h)
    shift = host.config[0].l2_shift
    for block in range(start >> shift, (start + count - 1 >> shift) + 1):
        line = find_l2(host, block)
        if line != EMPTY and host.l2[line].state == MODIFIED:
            clean(host, line)
        if line != EMPTY and keep == 0:
            discard(host, line)
