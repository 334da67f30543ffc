"""Whose each message, packet and lookup is: counts by port, the observer's.

Every one is a port's: of the process that sends, of the one that it is for, or of the firmware's
own port (answers, acknowledgements, and what no port could be told for).  So the sums over a node's
ports are what its NIC has counted in all, and none is counted twice.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import FETCH, NOBODY, OWN_PORT, REPLY, SEND, WRITE
from nicscope.nic.ports.streams import is_of_work, stream_to, taker_of

ACCOUNT_NAMES = (
    "messages_out",
    "bytes_out",
    "messages_in",
    "bytes_in",
    "lookups_send",
    "lookups_receive",
    "misses_send",
    "misses_receive",
    "lookups_handles",
    "misses_handles",
)
MESSAGES_OUT, BYTES_OUT, MESSAGES_IN, BYTES_IN = range(4)
LOOKUPS = 4  # and behind it those of receives
MISSES = 6
HANDLE_LOOKUPS = 8
HANDLE_MISSES = 9


@step
def port_of_arrival(nics, d, head):
    """The port of node ``d`` that a packet with ``head`` is for, or the firmware's own."""
    ports = nics.ports
    kind, name = head.kind, head.name
    p = OWN_PORT
    if kind == REPLY:
        p = name
    elif kind == SEND and name >= 0 and name < ports.channels.shape[1]:
        p = taker_of(ports, d, head)
    elif kind in (WRITE, FETCH):
        if is_of_work(nics, d, head):
            p = stream_to(ports, d, head.peer).port
        elif name >= 0 and name < ports.shared.exports.shape[1]:
            p = ports.shared.exports[d, name].port
    return p if p > NOBODY and p < ports.table.shape[1] else OWN_PORT


@step
def count_looked(nics, n, p, receive, missed):
    """Port ``p`` of node ``n`` had a page looked up; ``missed``: 1 if it was not on the NIC."""
    account = nics.ports.accounts[n, p]
    account[LOOKUPS + receive] += 1
    account[MISSES + receive] += missed


@step
def count_handle(nics, n, p, missed):
    """The same of a handle of a buffer or of a process."""
    account = nics.ports.accounts[n, p]
    account[HANDLE_LOOKUPS] += 1
    account[HANDLE_MISSES] += missed
