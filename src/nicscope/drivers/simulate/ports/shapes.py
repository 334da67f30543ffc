"""How large the arrays of ports are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.simulate.machine import CHAIN
from nicscope.drivers.simulate.ports.state import (
    COSTS,
    FETCHING,
    PENDING,
    RULES,
    SERVICE,
    SERVING,
)
from nicscope.nic.delivery import PACKET
from nicscope.nic.ports.accounts import ACCOUNT_NAMES
from nicscope.nic.ports.layout import (
    BUFFER,
    BUFFERS,
    CHANNEL,
    EXPORT,
    HEAD,
    INLINE_BYTES,
    PORT,
    REPORT,
    REQUEST,
    SEGMENT,
    STATUS_NAMES,
)
from nicscope.nic.ports.plan import PLAN
from nicscope.nic.ports.pools import POOLS
from nicscope.nic.ports.streams import MARKS
from nicscope.nic.ports.tallies import TALLY_NAMES
from nicscope.nic.ports.traffic import ENDED_NAMES, HAPPENING, MADE_NAMES

if TYPE_CHECKING:
    from nicscope.room import Shapes

BYTE, NUMBER = np.dtype(np.uint8), np.dtype(np.int64)


class Extent(NamedTuple):
    """What the sizes of the arrays of ports come from."""

    nodes: int
    ports: int  # of each node
    links: int  # nodes that the transport knows peers of: all, or none
    processes: int
    keys: int  # pages, or what stands for them, of a node
    table_nodes: int  # nodes that have tables of translations
    rings: tuple[int, int]  # entries, of sends and of receives
    ring: int  # entries of each queue of a port
    ready: int
    channels: int
    exports: int  # to begin with
    events: int
    connections: int
    segments: int  # of a descriptor
    receives: int
    regions: int
    queues: int
    entries: int
    log: int  # records of packets that are kept


def port_shapes(extent: Extent) -> Shapes:
    """The arrays of ``Ports`` that are the ports' own, but for what grows and caches of handles."""
    n, p, links, ring = extent.nodes, extent.ports, extent.links, extent.ring
    sends, arrivals = extent.rings
    peers = links + extent.connections if links else 0
    words = -(-peers // (1 << MARKS))
    return {
        "rules": ((1,), RULES),
        "costs": ((n,), COSTS),
        "user_pin": ((n, 2), NUMBER),
        "user_unpin": ((n, 2), NUMBER),
        "nodes": ((n,), SERVING),
        "plans": ((n,), PLAN),
        "table": ((n, p), PORT),
        "requests": ((n, p, ring), REQUEST),
        "segments": ((n, p, ring, extent.segments), SEGMENT),
        "inline": ((n, p, ring, INLINE_BYTES), BYTE),
        "current": ((n, p, extent.segments), SEGMENT),
        "carried": ((n, p, INLINE_BYTES), BYTE),
        "free": ((n, p, ring), BUFFER),
        "provided": ((n, p, ring), NUMBER),
        "ready": ((n, p, ring + extent.ready), BUFFER),
        "reports": ((n, p, 2, ring), REPORT),
        "report_bytes": ((n, p, ring, INLINE_BYTES), BYTE),
        "report_buffers": ((n, p, ring, BUFFERS), NUMBER),
        "channels": ((n, extent.channels), CHANNEL),
        "filling": ((n, extent.channels, BUFFERS), BUFFER),
        "pending": ((n, p, ring), PENDING),
        "kept": ((n, p, ring, extent.segments), SEGMENT),
        "fetches": ((n, p, ring), FETCHING),
        "send_heads": ((n, sends), HEAD),
        "arrival_heads": ((n, arrivals), HEAD),
        "arrival_buffers": ((n, arrivals, BUFFERS), BUFFER),
        "filled": ((extent.processes, BUFFERS), NUMBER),
        "gathers": ((extent.processes, extent.segments), SEGMENT),
        # of what follows in a chain, where ports take receives of several pieces
        "gathered": ((extent.processes, CHAIN if extent.receives else 0, extent.segments), SEGMENT),
        "owners": ((extent.table_nodes, extent.keys), NUMBER),
        "kernel_frames": ((n, arrivals), NUMBER),
        "blank": ((1,), PACKET),
        "blank_head": ((1,), HEAD),
        "copies": ((1,), HEAD),
        "blank_bytes": ((INLINE_BYTES,), BYTE),
        "stream_of": ((links, peers), np.dtype(np.int32)),
        "timed": ((links, words), NUMBER),
        "wishing": ((links, words), NUMBER),
        "pool": ((1,), POOLS),
        "frames": ((extent.table_nodes, extent.keys), NUMBER),
        "events": ((n, extent.events), SERVICE),
        "shown": ((n,), EXPORT),
        "made": ((n, len(MADE_NAMES)), NUMBER),
        "ended": ((n, len(ENDED_NAMES)), NUMBER),
        "told": ((n, len(STATUS_NAMES)), NUMBER),
        "told_by_side": ((n, 2, len(STATUS_NAMES)), NUMBER),
        "tallies": ((n, len(TALLY_NAMES)), NUMBER),
        "accounts": ((n, p, len(ACCOUNT_NAMES)), NUMBER),
        "port_made": ((n, p, len(MADE_NAMES)), NUMBER),
        "port_sent": ((n, p, len(ENDED_NAMES)), NUMBER),
        "port_came": ((n, p, len(ENDED_NAMES)), NUMBER),
        "port_told": ((n, p, len(STATUS_NAMES)), NUMBER),
        "happened": ((1,), NUMBER),
        "happenings": ((extent.log,), HAPPENING),
    }
