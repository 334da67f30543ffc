"""Connections of ports that have one peer, and their end."""

from __future__ import annotations

from nicscope.kernel.decorators import routine
from nicscope.nic.ports.streams import open_stream, peer_of
from nicscope.nic.ports.troubles import note_trouble


@routine
def break_connection(nics, n, p, state, told, verdict):
    """The connection of port ``p`` ends in ``state``, with an error that its process learns of."""
    port = nics.ports.table[n, p]
    port.state = state
    open_stream(nics, n, peer_of(nics.ports.channels[n, port.channel])).verdict = verdict
    note_trouble(nics, n, p, told)
