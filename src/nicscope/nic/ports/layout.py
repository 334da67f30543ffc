"""Ports: the queues between processes and firmware, rights, and tables of exports and imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.layout import Growing, renew
from nicscope.kernel.records import records
from nicscope.memory_limit import check_memory, zeroed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory_limit import Shapes


SEGMENTS = 4  # of one descriptor: gather
BUFFERS = 16  # of one message: scatter
INLINE_BYTES = 64  # room in a descriptor for a small message
OWN_PORT = 0
NOBODY = -1

# What a descriptor asks for, and what a packet carries.
SEND = 1  # by tag, into buffers of the receiver's free queue
WRITE = 2  # remote store: into an exported buffer
FETCH = 3  # remote fetch: the packet is the request
REPLY = 4  # the answer to a fetch, posted by the firmware of the other side
ACKNOWLEDGEMENT = 5  # of the transport alone
PROBE = 6  # asks for a sign of life
RETURNED = 7  # no packet: a buffer comes back unfilled
VOIDED = 16  # a bit beside the kind: the packet is void and is not processed
CUT = 9  # aborts a message: its remaining packets will not come
# Of a descriptor alone: an atomic operation on a word of the peer's memory.  On the wire it is a
# FETCH.
COMPARE_SWAP = 10
FETCH_ADD = 11
# And what is done here, without a packet.
BIND = 12  # binds a memory window to a part of a region
UNBIND = 13  # invalidates the window

BURST_PAGES = 16  # of a message, at most, that move as one packet (docs/live.md, Bursts)

# Flags of a descriptor.
NOTIFY = 1  # the receiver is told of the end of a remote store
INLINE = 2  # the data is in the descriptor
IMMEDIATE = 4  # a word goes with it, which the receiver is told
FENCED = 8  # it waits until the remote reads of its port have completed
UNSIGNALLED = 16  # a successful end posts no completion
SOLICITED = 32  # its receiver's completion is a solicited event
INVALIDATES = 64  # the word that goes with it is a key, which it invalidates at the receiver
OF_V4 = 128  # of a datagram: its addresses are of version 4, which its receiver is told

# How a descriptor ended.
DONE = 0
BAD_TAG = 1  # not registered for this port
BAD_HANDLE = 2  # no such import, or not this port's
OUT_OF_BOUNDS = 3  # beyond the remote buffer
NO_RIGHTS = 4  # the pages, or the export, do not permit it
BAD_DESCRIPTOR = 5  # unknown operation, lengths that cannot be
PEER_DEAD = 6
CLOSED = 7
REJECTED = 8  # the other side no longer exports that
NO_ROOM = 9  # no translation to be had: the table is full
PAGE_OUT = 10  # a receive buffer is given back unfilled: its page was out when its turn came
# Of ports with work queues.
PROTECTION = 11  # a segment is not memory that was registered for the port
TOO_LONG = 12  # longer than the connection allows, or than the receive
FLUSHED = 13  # there is no connection, or not any more
NO_RECEIVE = 14  # the other side had none posted
REMOTE_PROTECTION = 15  # the memory named there may not be used so
REMOTE_FAILED = 16  # the message could not go where the receive there says
REMOTE_INVALID = 17  # no request for the other side; of queue pairs also: longer than its receive
NOT_BOUND = 18  # a window cannot stand for what was named
STATUS_NAMES = (
    "done",
    "tag not registered",
    "no such buffer",
    "out of bounds",
    "no rights",
    "bad descriptor",
    "peer dead",
    "closed",
    "rejected",
    "no room",
    "page out",
    "not the port's memory",
    "too long",
    "flushed",
    "no receive posted",
    "remote memory not permitted",
    "remote receive failed",
    "remote request invalid",
    "window not bound",
)

# Rings of reports.
SENT = 0
RECEIVED = 1

# Rights of an export.
MAY_WRITE = 1
MAY_FETCH = 2
MAY_ATOMIC = 4  # of a connection's memory: atomic operations
MAY_FLUSH = 128  # flushes to global visibility
MAY_PERSIST = 256  # flushes to persistence

# What a port may do otherwise than a VI; a queue pair does all of it.
KEEPS_OWN_ERRORS = 1  # its peer is not told of an error of its own, and finds out by time-outs
FETCHES_FREELY = 2  # its own rights do not bound what it fetches
STOPS_AT_ERROR = 4  # what is posted behind a request that fails ends as flushed
FAILS_IN_ORDER = 8  # a request that fails ends behind those that were posted before it
NAMES_NOTHING_EMPTY = 16  # a remote access of no bytes needs no region
BOUNDS_PEERS_FIRST = 32  # what it permits no peer is an invalid request, whatever the region is
ENDS_UNCOUNTED = 64  # what a reset flushes is in no count
FAILS_TO_ITSELF = 128  # an error ends its messages to its own node by their own verdict
RECORDS_SOURCES = 256  # its packets say which region they come from
REFUSES_LONGER = 512  # a message longer than its receive is an invalid request of the peer's
ANSWERS_BY_KEY = 1024  # what a peer fetches is read by that region's key
ACKNOWLEDGES_BY_ANSWER = 2048  # no packet but the answer acknowledges what a peer fetches
QUEUE_PAIR_RULES = 2 * ACKNOWLEDGES_BY_ANSWER - 1
# Of a region alone, beside those.
READ_ONLY = 16  # no arriving payload may be placed there, the owner's own included
REMOTE_ONLY = 32  # a window: the process itself does not name it
BINDABLE = 64  # windows may be bound to parts of it

# In place of the frame of a buffer whose turn may come before its translation.
AWAITED = -1
UNUSABLE = -2
FRAMELESS = -3

# Why a port is not served.
FREE_TO_GO = 0
AWAITS_KERNEL = 1  # a translation is on its way
AWAITS_USE = 2  # every way of the set is in use by transfers
AWAITS_QUEUE = 4  # the kernel thread has too much to do
# Why its next buffer is not translated (``ahead_waits``), beside AWAITS_USE.
AWAITS_READER = 3  # it is to be given back, and its process has not read the reports before

# Who serves a miss.
NO_ONE = 0  # there is none that could be served: the page is not registered
FETCHES = 1  # the NIC reads the host's table
KERNEL = 2  # the NIC interrupts and its processor waits
THREAD = 3  # the NIC interrupts and goes on; a kernel thread serves the miss

# What an action of the firmware leaves to its driver (``SERVING.outcome``): the miss is described
# by the fields beside it.
NOTHING_LEFT = 0
PAGE_MISS = 1  # a translation is to be brought; the processor waits, or a port
HANDLE_MISS = 2  # a buffer's or process's record is: nothing here waits for it but a port
DESCRIPTOR_MISS = 3  # a descriptor is to be fetched from the host's memory (``SERVING.bringing``)
REGION_MISS = 4  # entries of regions are to be read (``SERVING.region_reads``); nothing waits
ARRIVAL = -2  # in place of a port: the packet whose place is looked for
ABANDONED = -3  # likewise: a port that has closed meanwhile

# In place of the frame of a page that is looked up.
MISSED = -1
NOT_THERE = -2  # the process has no such address, or has not had it pinned

# Where the messages of a port are received (``PORT.takes``).
BUFFER_POOL = 0  # in buffers of a free queue, as many as a message needs
WORK_QUEUE = 1  # in receives of a work queue: each is for one message, scattered over its segments
NAMED_QUEUE = -1  # in place of a shared receive queue: the one that the message names

# What a connection promises (``PORT.level``, ``STREAM.level``).
AS_ALL = 0  # what the cluster's transport does
UNRELIABLE = 1
DELIVERY = 2  # a send is done when the other NIC has the message
RECEPTION = 4  # when the message is in the other's memory

# Of a port with work queues (``PORT.state``).
IDLE = 0
CONNECTED = 1
PENDING_CONNECTION = 2
BROKEN = 3

REQUEST = np.dtype(
    [
        ("operation", "i8"),
        ("name", "i8"),  # tag, import, or for a REPLY the node that asked
        ("offset", "i8"),  # in the remote buffer
        ("segments", "i8"),
        ("options", "i8"),
        ("length", "i8"),  # of data in the descriptor
        ("cookie", "i8"),
        ("immediate", "i8"),  # of an atomic operation: what to compare with, or to add
        ("swap", "i8"),  # and what to swap for it
        # of a REPLY alone, which no process writes
        ("atomic", "i8"),  # COMPARE_SWAP or FETCH_ADD, or 0
        ("space", "i8"),
        ("port", "i8"),
        ("owner", "i8"),  # the port of this node whose memory answers
    ],
    align=True,
)
# What the firmware keeps of an answer in its queue, beside the request.
ANSWER = np.dtype(
    [
        ("awaits", "i8"),  # 1: it was put aside until the kernel thread has brought its page
        ("done", "i8"),  # bytes of it that have gone
        ("missed", "i8"),  # the page that its lookup missed, or -1
        ("page", "i8"),  # the one that was brought for it, or -1
        ("frame", "i8"),
        ("key", "i8"),
        ("failure", "i8"),  # why its page cannot be had, or DONE
    ],
    align=True,
)
SEGMENT = np.dtype(
    [
        ("address", "i8"),
        ("length", "i8"),
        ("key", "i8"),  # of the region that it lies in, where regions are registered; else 0
    ],
    align=True,
)
BUFFER = np.dtype(
    [("address", "i8"), ("frame", "i8"), ("key", "i8")], align=True
)  # in a free queue; frame and key once translated

PORT = np.dtype(
    [
        ("open", "i8"),
        ("space", "i8"),  # whose addresses: the process's number on its node
        ("given", "i8"),  # how often it has been another's: who asks says which it means
        ("blocked", "i8"),
        ("posted", "i8"),  # descriptors; taken <= posted, reaped <= reported <= posted + refused
        ("taken", "i8"),
        ("refused", "i8"),  # descriptors that the library could not have pinned: never posted
        ("reported", "i8"),
        ("reaped", "i8"),
        ("free_posted", "i8"),
        ("free_taken", "i8"),
        ("ahead_waits", "i8"),  # what the next buffer waits for, or FREE_TO_GO
        ("provided", "i8"),  # address of the buffer being translated, copied
        ("ready_in", "i8"),
        ("ready_out", "i8"),
        ("filling", "i8"),  # buffers of messages that are arriving
        ("reserved", "i8"),  # reports of receives that have their place
        ("received", "i8"),  # and those that the process can see
        ("read", "i8"),
        # the descriptor under way, copied
        ("busy", "i8"),
        ("operation", "i8"),
        ("name", "i8"),
        ("offset", "i8"),
        ("segments", "i8"),
        ("options", "i8"),
        ("cookie", "i8"),
        ("slot", "i8"),
        ("reply_space", "i8"),
        ("reply_port", "i8"),
        ("reply_owner", "i8"),
        ("length", "i8"),  # of data in the descriptor
        ("message", "i8"),  # number on its channel
        ("total", "i8"),  # bytes
        ("done", "i8"),
        ("segment", "i8"),
        ("segment_done", "i8"),
        ("page", "i8"),  # the one translated last, or -1
        ("frame", "i8"),
        ("key", "i8"),
        ("missed", "i8"),  # the page whose lookup missed, or -1
        ("until", "i8"),  # ps: until when it waits for an entry for that page, or 0
        ("dropped", "i8"),  # messages that found no buffer
        ("polled_again", "i8"),  # the lookup of a handle that its next descriptor missed, or 0
        # of one with work queues
        ("takes", "i8"),
        ("state", "i8"),
        ("level", "i8"),
        ("domain", "i8"),  # the protection tag of the memory that it may use
        ("rights", "i8"),  # of its peer: MAY_WRITE, MAY_FETCH
        ("longest", "i8"),  # bytes of a message
        ("channel", "i8"),  # of its connection, or NOBODY
        ("send_queue", "i8"),  # where the ends of what it sends are announced too, or NOBODY
        ("receive_queue", "i8"),
        ("receives_posted", "i8"),
        ("receives_taken", "i8"),
        ("shared", "i8"),  # 1: a shared receive queue: other ports take its receives
        ("shares", "i8"),  # the shared receive queue that it takes from, or 0, or NAMED_QUEUE
        ("group", "i8"),  # of ports whose messages may name each other's receive queues
        ("datagrams", "i8"),  # 1: it has no peer: it sends datagrams, which name a port
        ("qkey", "i8"),  # the Q_Key that datagrams for it must carry
        ("limit", "i8"),  # its process learns when fewer receives than these are left; 0: it has
        ("immediate", "i8"),  # of the descriptor under way
        ("swap", "i8"),
        ("atomic", "i8"),  # COMPARE_SWAP or FETCH_ADD, or 0
        ("reading", "i8"),  # fetches of its that wait for their answers
        ("async_errors", "i8"),  # asynchronous errors so far
        ("notices", "i8"),  # 1 more than the queue where those are announced, or 0
        ("overrun", "i8"),  # 1: a completion queue was full: its connection is to be broken
        ("stopped", "i8"),  # not 0: what is posted to be sent ends as flushed, after an error
        ("rules", "i8"),  # of QUEUE_PAIR_RULES, those that it goes by
        ("rnr_delay", "i8"),  # RNR timer (ps) of a peer that finds no receive; 0: it fails
    ],
    align=True,
)
REPORT = np.dtype(
    [
        ("cookie", "i8"),
        ("status", "i8"),
        ("operation", "i8"),
        ("name", "i8"),  # tag or export; of a port with work queues the immediate word, or 0
        ("node", "i8"),  # the peer
        ("length", "i8"),
        (
            "buffers",
            "i8",
        ),  # 0: the data is in the report; of a port with work queues 1: it has such a word
        ("offset", "i8"),
    ],
    align=True,
)
CHANNEL = np.dtype(
    [
        ("port", "i8"),  # or NOBODY: the tag is not registered
        ("node", "i8"),  # the peer's
        ("stream", "i8"),  # by which its messages go, if it has one of its own, or 0
        ("tag", "i8"),
        ("unit", "i8"),  # bytes of a receive buffer
        ("most", "i8"),  # bytes of a message
        ("sent", "i8"),  # messages
        ("cut", "i8"),  # the message cut short of which the peer has not been told, or 0
        # the message that is arriving
        ("placed", "i8"),  # bytes that have their place
        ("buffers", "i8"),
        ("message", "i8"),  # its number, by its sender
        ("receive", "i8"),  # number of the receive that it fills, of a port with work queues
        ("said", "i8"),  # and how that ends
        # the message whose packets are completed now, which may be an earlier one
        ("finishing", "i8"),
        ("arrived", "i8"),  # its bytes
    ],
    align=True,
)
EXPORT = np.dtype(
    [
        ("valid", "i8"),
        ("port", "i8"),
        ("space", "i8"),
        ("start", "i8"),
        ("length", "i8"),
        ("rights", "i8"),
        ("node", "i8"),  # who may import it; -1: any
        ("importer", "i8"),  # port there; -1: any
        ("redirect", "i8"),  # where incoming data goes instead, or -1
        ("epoch", "i8"),
        ("stores", "i8"),  # that have ended
    ],
    align=True,
)
IMPORT = np.dtype(
    [
        ("port", "i8"),  # whose, or NOBODY
        ("node", "i8"),
        ("stream", "i8"),  # of its own, or 0
        ("export", "i8"),
        ("start", "i8"),  # where in a page it begins
        ("length", "i8"),
        ("rights", "i8"),
        ("epoch", "i8"),
    ],
    align=True,
)
# What a packet's header says beyond what every packet has.
HEAD = np.dtype(
    [
        ("kind", "i8"),
        ("peer", "i8"),  # the number that its receiver has for its stream
        ("sequence", "i8"),  # -1: not numbered
        ("acknowledged", "i8"),
        ("rejects", "u8"),  # of the last 64 acknowledged, newest in bit 0
        ("epoch", "i8"),
        ("from_port", "i8"),
        ("cookie", "i8"),  # the number of the descriptor at its port
        ("slot", "i8"),
        ("name", "i8"),  # tag, export, or port that asked
        ("from_name", "i8"),  # the sender's tag
        ("offset", "i8"),
        ("length", "i8"),  # of inline data or a fetch
        ("total", "i8"),  # bytes of the message
        ("message", "i8"),
        ("last", "i8"),  # of its message; of a verdict: its sender knows that of the other end
        ("further", "i8"),  # packets that it stands for, if it is a burst, beside one
        ("unasked", "i8"),  # 1: it asks for no acknowledgement (InfiniBand's bit AckReq is 0)
        ("options", "i8"),
        # Where in a page begins: of a fetch its answer; of a burst its message, at its sender.
        ("into", "i8"),
        ("route", "i8"),  # how often its sender has changed the way to this node
        ("back", "i8"),  # the path by which answers go since then
        ("copied", "i8"),  # 1: made by the network
        ("tells", "i8"),  # 1: when it has left, so has all of its request, and its sender is told
        ("verdict", "i8"),  # how its sender has ended their connection, or 0
        ("immediate", "i8"),
        ("datagram", "i8"),  # 1: its name is a port's, and it has to show that one's key (``swap``)
        ("atomic", "i8"),  # of a FETCH and of its answer: COMPARE_SWAP or FETCH_ADD, or 0
        ("swap", "i8"),  # of an atomic question; of its answer: the word that was there
        # Address of what it names at its receiver, by key; of a datagram, there, whose port it is.
        ("remote", "i8"),
        ("remote_key", "i8"),
        ("rnr_delay", "i8"),  # RNR timer (ps): when to retry what found no receive, or 0
        # never on the wire: what this end keeps with the packet
        ("own", "i8"),  # the number that its sender has for that stream
        ("region", "i8"),  # of a queue pair: the key of the memory that it comes from, or 0
        ("source", "i8"),  # and where that begins
        ("key", "i8"),
        ("frame", "i8"),
        ("generation", "i8"),  # of the frame, when it was translated
        ("space", "i8"),
        ("page", "i8"),
        ("status", "i8"),
        ("filled", "i8"),  # -1: not placed; else, of a message's last packet, the buffers it fills
        ("fate", "i8"),  # what the network does to it
        ("why", "i8"),  # for the observer: why it is not taken
        ("lone", "i8"),  # 1: its page has left the NIC and stays pinned for this packet alone
        ("receive", "i8"),  # number of the receive that its message fills, or -1
        ("runs", "i8"),  # physical segments that its payload is scattered to, or -1: to one place
        ("run", "i8"),  # the one that is being filled
        ("said", "i8"),  # how its message ends, found when its place was looked for
    ],
    align=True,
)


class SharedTables(Growing):
    """What each node lets others use, and what it may use of others."""

    exports: NDArray[Any]  # EXPORT, shape (nodes, exports)
    imports: NDArray[Any]  # IMPORT, shape (nodes, imports)


def shared_shapes(nodes: int, exports: int, imports: int) -> Shapes:
    """Tables of so many rows for each node."""
    return {"exports": ((nodes, exports), EXPORT), "imports": ((nodes, imports), IMPORT)}


def new_shared_tables(nodes: int, exports: int, imports: int) -> SharedTables:
    """Tables of which no row is anybody's."""
    tables = SharedTables(zeroed(shared_shapes(nodes, exports, imports)))
    for name in tables._fields:
        _leave_blank(name, getattr(tables, name))
    return tables


def double_rows(tables: SharedTables, name: str) -> int:
    """Give the table ``name`` twice as many rows for each node; how many it has then.

    Errors: ``RoomError`` if there is no memory for them.
    """
    before = getattr(tables, name)
    nodes, rows = before.shape
    wanted: int = max(1, 2 * rows)
    check_memory(
        nodes * wanted * before.dtype.itemsize,
        f"the hosts' tables of {wanted:,} {name} a node",
        "register fewer buffers, or give some back",
    )
    after = records((nodes, wanted), before.dtype)
    after[:, :rows] = before
    _leave_blank(name, after[:, rows:])
    setattr(tables, name, after)
    renew(tables)
    return wanted


def _leave_blank(name: str, rows: NDArray[Any]) -> None:
    if name == "exports":
        rows["redirect"] = -1
    else:
        rows["port"] = NOBODY
