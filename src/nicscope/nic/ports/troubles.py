"""Errors of a port that no descriptor tells of: its process is told of them beside its work."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.notices import TROUBLE, notify
from nicscope.nic.ports.work_queues import TROUBLES


@step
def note_trouble(nics, n, p, code):
    """Have the process of port ``p`` learn of an error; the newest ``TROUBLES`` are kept."""
    port = nics.ports.table[n, p]
    if nics.ports.work.troubles.shape[2] > 0:
        nics.ports.work.troubles[n, p, port.troubles % TROUBLES] = code
    port.troubles += 1
    notify(nics, n, p, TROUBLE, port.notices)
