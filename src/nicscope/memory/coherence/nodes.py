"""One host, or one agent, out of the arrays of many; in kernels, which views must not leave."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.memory.coherence.layout import Host
from nicscope.memory.coherence.watcher import Watcher


@step
def host_of(hosts, n):
    """Host ``n``: the same arrays, seen without their first axis."""
    return Host(
        hosts.config[n],
        hosts.registers[n],
        hosts.counts[n],
        hosts.l1[n],
        hosts.l1_data[n],
        hosts.l2[n],
        hosts.l2_data[n],
        hosts.memory[n],
        hosts.buffers[n],
        hosts.buffer_data[n],
    )


@step
def watcher_of(watchers, n):
    """Agent ``n``, likewise."""
    return Watcher(
        watchers.watch[n],
        watchers.home[n],
        watchers.copies[n],
        watchers.pending[n],
        watchers.ends[n],
        watchers.memory[n],
    )
