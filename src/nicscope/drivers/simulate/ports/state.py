"""What NICs and kernels of a cluster keep for their ports, and how large its arrays are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.records import CHAIN
from nicscope.kernel.decorators import step
from nicscope.nic.delivery import PACKET
from nicscope.nic.ports import layout, traffic
from nicscope.nic.ports.plan import PLAN
from nicscope.nic.ports.streams import MARKS, POOLS, Pools

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.fabric.faults import Deaths
    from nicscope.memory.paging.layout import HostMemory
    from nicscope.memory_limit import Shapes
    from nicscope.nic.layout import Nic
    from nicscope.nic.ports.layout import (
        SharedTables,
    )
    from nicscope.nic.ports.work_queues import WorkQueues
    from nicscope.nic.translate.state import Translations


RULES = np.dtype(
    [
        ("scheme", "i8"),  # as drivers.translation numbers them
        ("reliable", "i8"),
        ("by_connection", "i8"),  # 1: connections have streams of their own
        ("window", "i8"),  # packets, at most 64
        ("time_out", "i8"),  # ps
        ("most_retries", "i8"),
        ("ack_delay", "i8"),  # ps
        ("ack_every", "i8"),  # numbered packets, of which one asks for an acknowledgement at least
        ("page_bits", "i8"),
        ("space_bytes", "i8"),  # of a process's address space
        ("longest", "i8"),  # pages of a segment
        ("ring", "i8"),  # entries of a port's queues
        ("ready", "i8"),  # buffers translated ahead, per port
        ("serves", "i8"),  # 1: the NIC's processor serves ports; 0: the host does, in a trap
        ("service", "i8"),  # who serves a miss
        ("fresh", "i8"),  # 1: an absent receive buffer gets a zeroed page
        ("sparse", "i8"),  # 1: addresses are a trace's; a page's number stands for it in memory
        ("by_request", "i8"),  # 1: lookups are counted with the requests of a trace, as in a replay
        ("pins_by_access", "i8"),  # 1: pinned to be written only where it will be
        ("garbage", "i8"),  # 1: what is not pinned has the garbage page in the table (UTLB 4.2)
        ("faults", "i8"),  # 1: the network is not perfect
        ("defers", "i8"),  # 1: a free buffer whose page is brought stalls nothing behind it
        ("buffer", "i8"),  # bytes of a receive buffer, which lies in one page
        ("scan_period", "i8"),  # ps
        ("time_slice", "i8"),  # ps that a process which polls keeps the CPU; 0: it does not
        ("handles", "i8"),  # 1: buffers and processes are looked up in caches on the NIC
        ("registers", "i8"),  # 1: NICs keep copies of frames from when they are pinned (EDT)
        ("tells", "i8"),  # 1: a process sees a report when that has crossed a bus
        ("fetches", "i8"),  # 1: NICs fetch descriptors from their hosts' memory
        ("rooms", "i8"),  # 1: messages wait on NICs for a CPU that moves them
        ("burst", "i8"),  # most bytes of a message that move as one packet; 0: no bursts
        ("mirrors", "i8"),  # 1: hosts' memory stands for that of real processes (``live``)
        ("captures", "i8"),  # 1: packets are shown as they leave (``ports.leaving``)
        ("exchanges", "i8"),  # 1: NICs can read and change a word of a host at one stroke
        ("counts_ways", "i8"),  # 1: ways of a set that are checked after the first take time
        ("maps", "i8"),  # 1: a NIC looks for another route when retries were to no avail
        ("probe_time_out", "i8"),  # ps
        ("region_mtu", "i8"),  # bytes of packets that look regions up; 0: each message does once
        ("key_bits", "i8"),  # of the key of a region, the lowest, that do not say where it is kept
        ("table_space", "i8"),  # the first of the spaces of second-level tables; 0: there are none
    ],
    align=True,
)
# A stage of a miss that others must know: the processor waits until the bus is free.
AWAIT_BUS = 5

# Ps, resolved for the scheme from a platform's costs.
SERVICE_COSTS = (
    "post",  # the library stores a descriptor
    "trap",
    "system_call",
    "check",  # the library looks a page up
    "poll",  # the library finds a report
    "wake",  # a blocked process is made to run
    "signal",  # or is interrupted
    "serve_request",  # the firmware takes a descriptor
    "receive_message",  # and hands a message over
    "lookup_send",
    "lookup_receive",
    "lookup_buffer",
    "lookup_free",
    "further_way",  # on top, for each way of a set that is checked after the first
    "lookup_handle",  # of a buffer or a process
    "fetch",  # entries from the host's table, by DMA
    "table_dma",  # of that, while the bus is taken
    "handshake",
    "interrupt",
    "interrupt_entry",  # at a receive
    "pin_send",
    "pin_receive",
    "pin_shared",
    "zero",
    "unpin",
    "page_in",
    "page_out",
    "thread_delay",
    "thread_work",
    "copy_start",
    "copy_per_byte",
)
COSTS = np.dtype([(name, "i8") for name in SERVICE_COSTS], align=True)

# What the processor goes on with when a miss has been served.
SERVING = np.dtype(
    [
        ("attention", "i8"),  # 1: something may have become ready
        ("source", "i8"),  # what SERVE was begun for
        ("turn", "i8"),  # the port that was served last
        ("last_port", "i8"),  # the highest at which anything has ever been posted
        ("use_blocked", "i8"),  # ports that wait for a way of a set
        ("stage", "i8"),
        ("miss_for", "i8"),  # a port, or ARRIVAL
        ("miss_space", "i8"),
        ("miss_page", "i8"),
        ("miss_receive", "i8"),
        ("miss_ahead", "i8"),  # 1: a buffer of the free queue is translated ahead
        ("missing", "i8"),  # 1: the processor waits for a miss
        ("region_reads", "i8"),  # entries of regions that are to be read before anything else
        ("outcome", "i8"),  # of the firmware's task: what its driver has to see to
        ("bringing", "i8"),  # the port whose descriptor is to come over the bus, or NOBODY
        ("wanted", "i8"),  # that descriptor's number at its port
        ("brought", "i8"),  # bytes of that which have
        # kernel thread
        ("thread", "i8"),
        ("thread_at", "i8"),  # ps, or NEVER
        ("scan_at", "i8"),  # likewise: when it looks for pages to unpin
        ("queued", "i8"),  # events ever
        ("queue_blocked", "i8"),  # ports that wait for a place among them
        ("handled", "i8"),
        ("deadline", "i8"),  # ps: the transport's earliest
        ("acks", "i8"),  # peers to which an acknowledgement is to go now
        ("retransmits", "i8"),  # peers to which packets go again
        ("last_marked", "i8"),  # the last stream that has ever had something due
        # the search for a route
        ("searching", "i8"),  # the peer that no packets reach, or NOBODY
        ("search_until", "i8"),  # ps: when it will have ended
        ("search_asked", "i8"),  # 1: what its probes come to is still to be found
        ("search_there", "i8"),  # the paths that it has found, or 0: no other than before
        ("search_back", "i8"),
        ("cuts", "i8"),  # messages cut short of which receivers are to be told, and ports overrun
        # a host that serves ports itself
        ("trap_source", "i8"),
        ("in_trap", "i8"),  # 1: what is put on the controller's ring is put there by a trap
        ("unpolled", "i8"),  # frames put there since the last transmit-poll demand
        ("traps", "i8"),
        ("demands", "i8"),  # transmit-poll demands
        ("handler_at", "i8"),  # ps at which the interrupt handler has done a packet, or NEVER
        ("taken_in", "i8"),  # packets that it has done
        ("kernel_time", "i8"),  # ps in traps and in the handler
        ("copied", "i8"),  # bytes, to where programs want them
        ("stolen", "i8"),  # ps that interrupts took from what the CPU does
        # a CPU whose process polls
        ("polling_process", "i8"),  # or NOBODY
        ("polled_since", "i8"),  # ps
        ("spun", "i8"),  # ps in all, but for what the present one has
        # what stays for a packet that comes again
        ("reserved_for", "i8"),  # its sender, or NOBODY
        ("reserved_space", "i8"),
        ("reserved_page", "i8"),  # or NOBODY
        ("reserved_export", "i8"),  # a handle, or NOBODY
        ("reserved_process", "i8"),
        ("reserved_until", "i8"),  # ps
        # for the observer
        ("looking", "i8"),  # ps of the present task that are a lookup
        ("messages_out", "i8"),
        ("bytes_out", "i8"),
        ("messages_in", "i8"),
        ("bytes_in", "i8"),
        ("checks", "i8"),  # pages that the user library has looked at before it posts or registers
        ("admitted", "i8"),  # what the library's last call for pages came to
        ("interrupts", "i8"),
        ("async_errors", "i8"),  # errors that no descriptor tells of
        ("rejected", "i8"),  # packets, buffers or descriptors that protection stopped
        ("stale", "i8"),  # transfers with a translation that no longer held
        ("repeated", "i8"),  # lookups repeated by a retry
        ("buffer_lookups", "i8"),  # of handles, where they are looked up
        ("buffer_misses", "i8"),
        ("further_ways", "i8"),  # that lookups of handles checked after the first of a set
        ("process_lookups", "i8"),
        ("process_misses", "i8"),
        ("mended", "i8"),  # lookups that found the line, but not the page
        ("overflows", "i8"),  # misses that found the event queue full
        ("miss_time", "i8"),  # ps that the processor waited for misses
        ("thread_misses", "i8"),
        ("skipped", "i8"),  # buffers given back unfilled: their pages were out
        ("page_ins", "i8"),
        ("remaps", "i8"),  # routes to peers that were given up for others
        ("garbage", "i8"),  # pages that were not pinned: the garbage page moved instead
        ("table_ins", "i8"),  # second-level tables that came back from the disk
    ],
    align=True,
)
# A descriptor that has been posted and whose end has not been reported.
PENDING = np.dtype(
    [
        ("busy", "i8"),
        ("number", "i8"),  # of the descriptors of its port: what packets know it by
        ("cookie", "i8"),
        ("operation", "i8"),
        ("options", "i8"),
        ("status", "i8"),  # what the library found before it posted
        # of a port that takes WORK_QUEUE
        ("length", "i8"),  # bytes
        ("over", "i8"),  # 1: it has ended, and waits for those before it to be told of
        ("kept", "i8"),  # runs of pages that must stay pinned
    ],
    align=True,
)
# A question to a peer and where its answer goes.
FETCHING = np.dtype(
    [
        ("peer", "i8"),  # who owes the answer, or NOBODY
        ("address", "i8"),
        ("length", "i8"),
        ("arrived", "i8"),
        ("failure", "i8"),  # why a part of it could not be put where it belongs
        ("cookie", "i8"),
    ],
    align=True,
)
SERVICE = np.dtype(
    [
        ("port", "i8"),  # to go on with, or NOBODY
        ("sender", "i8"),  # the peer whose packet missed, if no port did
        ("sequence", "i8"),  # of that packet
        ("space", "i8"),
        ("page", "i8"),
        ("receive", "i8"),
        ("ahead", "i8"),
        ("raised", "i8"),  # ps
        ("begun", "i8"),  # the thread turned to it
        ("ended", "i8"),  # the entries are on the NIC
    ],
    align=True,
)


class Ports(NamedTuple):
    """All arrays but pools have the node first; no ports: arrays of no length."""

    rules: NDArray[Any]  # RULES, shape (1,)
    costs: NDArray[Any]  # COSTS, shape (nodes,)
    user_pin: NDArray[np.int64]  # shape (nodes, pages + 1): ps of a call that pins so many
    user_unpin: NDArray[np.int64]
    nodes: NDArray[Any]  # SERVING, shape (nodes,)
    plans: NDArray[Any]  # PLAN, shape (nodes,): of the processor's task
    table: NDArray[Any]  # PORT, shape (nodes, ports)
    requests: NDArray[Any]  # REQUEST, shape (nodes, ports, ring)
    segments: NDArray[Any]  # SEGMENT, shape (nodes, ports, ring, segments)
    answers: NDArray[Any]  # ANSWER, shape (nodes, ring): of the firmware's own port
    answer_slots: NDArray[np.int64]  # shape (nodes, ring): where its answers are, by turn
    inline: NDArray[np.uint8]  # shape (nodes, ports, ring, INLINE_BYTES)
    current: NDArray[Any]  # SEGMENT, shape (nodes, ports, segments): copied
    carried: NDArray[np.uint8]  # shape (nodes, ports, INLINE_BYTES): copied
    free: NDArray[Any]  # BUFFER, shape (nodes, ports, ring)
    provided: NDArray[np.int64]  # shape (nodes, ports, ring): addresses, out of processes' reach
    ready: NDArray[Any]  # BUFFER, shape (nodes, ports, ready)
    reports: NDArray[Any]  # REPORT, shape (nodes, ports, 2, ring)
    report_bytes: NDArray[np.uint8]  # shape (nodes, ports, ring, INLINE_BYTES)
    report_buffers: NDArray[np.int64]  # shape (nodes, ports, ring, BUFFERS): addresses
    channels: NDArray[Any]  # CHANNEL, shape (nodes, tags)
    filling: NDArray[Any]  # BUFFER, shape (nodes, tags, BUFFERS): of the message arriving
    pending: NDArray[Any]  # PENDING, shape (nodes, ports, ring): posted, not yet reported
    kept: NDArray[Any]  # SEGMENT, shape (nodes, ports, ring, segments): first page, pages
    fetches: NDArray[Any]  # FETCHING, shape (nodes, ports, ring): where answers go
    send_heads: NDArray[Any]  # HEAD, shape (nodes, send_ring)
    arrival_heads: NDArray[Any]  # HEAD, shape (nodes, receive_ring)
    arrival_buffers: NDArray[Any]  # BUFFER, shape (nodes, receive_ring, BUFFERS)
    filled: NDArray[np.int64]  # shape (processes, BUFFERS): addresses in the report read last
    gathers: NDArray[Any]  # SEGMENT, shape (processes, segments): of a descriptor to be posted
    gathered: NDArray[Any]  # SEGMENT, shape (processes, CHAIN, segments): of those behind it
    owners: NDArray[np.int64]  # shape (nodes, keys): the port that used the page last, or -1
    kernel_frames: NDArray[np.int64]  # shape (nodes, receive_ring): of a kernel that serves ports
    blank: NDArray[Any]  # PACKET, shape (1,)
    blank_head: NDArray[Any]  # HEAD, shape (1,)
    copies: NDArray[Any]  # HEAD, shape (1,)
    blank_bytes: NDArray[np.uint8]  # shape (INLINE_BYTES,)
    stream_of: NDArray[np.int32]  # shape (nodes, peers): in ``pools.streams``; 0: never talked
    # shape (nodes, words): whose streams may have a deadline, and whose may wish to send
    timed: NDArray[np.int64]
    due_marks: NDArray[np.int64]
    pool: NDArray[Any]  # POOLS, shape (1,)
    pools: Pools
    shared: SharedTables
    frames: NDArray[np.int64]  # shape (nodes, keys): the hosts' tables; else the garbage page
    events: NDArray[Any]  # SERVICE, shape (nodes, events that can wait for the kernel thread)
    buffer_cache: Nic  # leading axis of nodes: handles of buffers, each a line of words
    process_cache: Nic  # likewise of processes
    shown: NDArray[Any]  # EXPORT, shape (nodes,): what the NIC knows of the buffer at hand
    # For the observer: packets by why they were made and by what became of them, descriptors by
    # how they ended, and as many records of packets as are kept (``traffic``).
    made: NDArray[np.int64]  # shape (nodes, MADE_NAMES)
    ended: NDArray[np.int64]  # shape (nodes, ENDED_NAMES), at the node that they came to
    told: NDArray[np.int64]  # shape (nodes, STATUS_NAMES)
    told_by_side: NDArray[np.int64]  # shape (nodes, 2, STATUS_NAMES): of sends, of receives
    tallies: NDArray[np.int64]  # shape (nodes, TALLY_NAMES)
    # The same by port, shape (nodes, ports, ...): of packets what became of those that it sent, and
    # of those that came for it, if they were looked at.
    accounts: NDArray[np.int64]  # ACCOUNT_NAMES
    port_made: NDArray[np.int64]
    port_sent: NDArray[np.int64]
    port_came: NDArray[np.int64]
    port_told: NDArray[np.int64]
    happened: NDArray[np.int64]  # shape (1,): records ever
    happenings: NDArray[Any]  # PACKET_EVENT
    work: WorkQueues
    translations: Translations
    memory: HostMemory
    faults: NDArray[Any]  # FAULTS, shape (1,)
    deaths: Deaths


@step
def has_ports(ports):
    """Whether this machine's NICs serve ports."""
    return ports.table.size > 0


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
        "table": ((n, p), layout.PORT),
        "requests": ((n, p, ring), layout.REQUEST),
        "segments": ((n, p, ring, extent.segments), layout.SEGMENT),
        "answers": ((n, ring if p else 0), layout.ANSWER),
        "answer_slots": ((n, ring if p else 0), NUMBER),
        "inline": ((n, p, ring, layout.INLINE_BYTES), BYTE),
        "current": ((n, p, extent.segments), layout.SEGMENT),
        "carried": ((n, p, layout.INLINE_BYTES), BYTE),
        "free": ((n, p, ring), layout.BUFFER),
        "provided": ((n, p, ring), NUMBER),
        "ready": ((n, p, ring + extent.ready), layout.BUFFER),
        "reports": ((n, p, 2, ring), layout.REPORT),
        "report_bytes": ((n, p, ring, layout.INLINE_BYTES), BYTE),
        "report_buffers": ((n, p, ring, layout.BUFFERS), NUMBER),
        "channels": ((n, extent.channels), layout.CHANNEL),
        "filling": ((n, extent.channels, layout.BUFFERS), layout.BUFFER),
        "pending": ((n, p, ring), PENDING),
        "kept": ((n, p, ring, extent.segments), layout.SEGMENT),
        "fetches": ((n, p, ring), FETCHING),
        "send_heads": ((n, sends), layout.HEAD),
        "arrival_heads": ((n, arrivals), layout.HEAD),
        "arrival_buffers": ((n, arrivals, layout.BUFFERS), layout.BUFFER),
        "filled": ((extent.processes, layout.BUFFERS), NUMBER),
        "gathers": ((extent.processes, extent.segments), layout.SEGMENT),
        # of what follows in a chain, where ports take receives of several pieces
        "gathered": (
            (extent.processes, CHAIN if extent.receives else 0, extent.segments),
            layout.SEGMENT,
        ),
        "owners": ((extent.table_nodes, extent.keys), NUMBER),
        "kernel_frames": ((n, arrivals), NUMBER),
        "blank": ((1,), PACKET),
        "blank_head": ((1,), layout.HEAD),
        "copies": ((1,), layout.HEAD),
        "blank_bytes": ((layout.INLINE_BYTES,), BYTE),
        "stream_of": ((links, peers), np.dtype(np.int32)),
        "timed": ((links, words), NUMBER),
        "due_marks": ((links, words), NUMBER),
        "pool": ((1,), POOLS),
        "frames": ((extent.table_nodes, extent.keys), NUMBER),
        "events": ((n, extent.events), SERVICE),
        "shown": ((n,), layout.EXPORT),
        "made": ((n, len(traffic.MADE_NAMES)), NUMBER),
        "ended": ((n, len(traffic.ENDED_NAMES)), NUMBER),
        "told": ((n, len(layout.STATUS_NAMES)), NUMBER),
        "told_by_side": ((n, 2, len(layout.STATUS_NAMES)), NUMBER),
        "tallies": ((n, len(traffic.TALLY_NAMES)), NUMBER),
        "accounts": ((n, p, len(traffic.ACCOUNT_NAMES)), NUMBER),
        "port_made": ((n, p, len(traffic.MADE_NAMES)), NUMBER),
        "port_sent": ((n, p, len(traffic.ENDED_NAMES)), NUMBER),
        "port_came": ((n, p, len(traffic.ENDED_NAMES)), NUMBER),
        "port_told": ((n, p, len(layout.STATUS_NAMES)), NUMBER),
        "happened": ((1,), NUMBER),
        "happenings": ((extent.log,), traffic.PACKET_EVENT),
    }
