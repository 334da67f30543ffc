"""The memory and the messages that programs and the machine share: declared here, for C as well.

``header()`` is what the C library is compiled with; the NumPy dtypes are what the machine reads
by.  Both sides tell each other ``FINGERPRINT`` when a program attaches.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

WORD, HALF, NUMBER = "u8", "u4", "i8"

# What ends of a connection tell each other, in questions and in events.
PARAMETERS = (
    *("qp_num", "psn", "responder", "initiator", "retry", "rnr", "flow", "srq", "qkey"),
    "private_bytes",
)
PRIVATE_WORDS = 32

# Every field is of 4 or 8 bytes and stands at a multiple of its size.
STRUCTS = {
    "header": (  # once, at the beginning
        ("fingerprint", WORD),
        ("bell", HALF),  # grows with whatever a program has put into a ring
        ("asleep", HALF),  # 1: the machine waits to be woken by a word to its event descriptor
        ("yields", HALF),  # 1: processors are few, so a program that finds nothing lets others run
        ("node", HALF),
    ),
    "poller": (  # a thread that polls
        ("tid", HALF),  # 0: nobody's place
        ("polls", HALF),  # grows with each that finds nothing: the thread waits
    ),
    "pace": (  # once for all programs: the time that their clocks show
        ("turn", WORD),  # odd while the others are written
        ("now", WORD),  # virtual, ns
        (
            "idle_since",
            WORD,
        ),  # real, ns: virtual time passes as real time from there on; 0: it stands
        ("khz", WORD),  # of the time stamp counter, as programs are told
    ),
    "clock": (("pid", WORD), ("shown", WORD)),  # behind it, of each process: its own time, ns
    "ring": (  # of each queue: what has been put into it, and what has been taken out
        ("tail", WORD),
        *((f"pad{place}", WORD) for place in range(7)),  # a cache line for each writer
        ("head", WORD),
        ("armed", HALF),  # of a completion queue: 1: an event for the next, 2: if it is solicited
        ("state", HALF),  # 1: the queue has overrun, and takes nothing any more
        ("full", HALF),  # 1: completions wait for room; who makes it rings the bell
        ("spare", HALF),
        ("given_up", WORD),  # of a shared queue: receives that ended with who drew them, unseen
        *((f"more{place}", WORD) for place in range(4)),
    ),
    "send": (  # a work request; its pieces, or its inline bytes, stand behind it
        ("wr_id", WORD),
        ("opcode", HALF),
        ("send_flags", HALF),
        ("imm", HALF),
        ("pieces", HALF),
        ("remote", WORD),
        ("rkey", HALF),
        ("inlined", HALF),  # bytes
        ("compare", WORD),
        ("swap", WORD),
        ("dgid_high", WORD),
        ("dgid_low", WORD),
        ("qpn", HALF),
        ("qkey", HALF),
        ("sgid_index", HALF),
        ("srqn", HALF),
    ),
    "receive": (("wr_id", WORD), ("pieces", HALF), ("pad", HALF)),
    "piece": (("address", WORD), ("length", HALF), ("lkey", HALF)),
    "completion": (
        ("wr_id", WORD),
        ("position", WORD),  # of a send: how many of its queue have ended with it
        ("time", WORD),  # virtual, ns
        ("status", HALF),
        ("opcode", HALF),
        ("byte_len", HALF),
        ("imm", HALF),
        ("qp_num", HALF),
        ("src_qp", HALF),
        ("wc_flags", HALF),
        ("ring", HALF),  # whose queue it is the end of; NOBODY: it has gone since
        ("pad", WORD),
    ),
    "event": (("cookie", WORD), ("type", HALF), ("pad", HALF)),
    "cm_event": (  # of a connection
        ("cookie", WORD),  # the end that it is about; of a request the one that listens
        ("handle", WORD),
        ("type", HALF),
        ("status", HALF),
        ("address", HALF),  # of who asks, as numbers
        ("port", HALF),
        ("own_port", HALF),
        ("node", HALF),  # of the other end
        *((name, HALF) for name in PARAMETERS),
        *((f"private{place}", WORD) for place in range(PRIVATE_WORDS)),
    ),
    # Within the machine's process, between what reads and writes rings and what runs the firmware:
    # copies, so that a program changes nothing that has been checked.
    "taken": (  # a work request
        *((name, NUMBER) for name in ("wr_id", "opcode", "flags", "word", "pieces", "remote")),
        *((name, NUMBER) for name in ("rkey", "inlined", "compare", "swap", "qpn", "qkey", "srqn")),
        ("position", NUMBER),  # in its queue, from 1 on
        ("node", NUMBER),  # whose GID a datagram is sent to, or -1
        ("is_v4", NUMBER),  # 1: that is the one of its IPv4 address
    ),
    "gathered": (("address", NUMBER), ("length", NUMBER), ("key", NUMBER)),
    "ended": (
        *((name, NUMBER) for name in ("wr_id", "position", "time", "status", "opcode")),
        *((name, NUMBER) for name in ("length", "word", "qp_num", "source", "flags")),
        ("ring", NUMBER),
        ("urgent", NUMBER),  # 1: it wakes whoever waits for solicited events alone
    ),
}

CONSTANTS = {
    "RINGS": 4096,
    "POLLERS": 64,  # threads of a process that can be told apart
    "POLLERS_AT": 1024,  # bytes
    "RINGS_AT": 4096,
    "DATA_AT": 1 << 20,
    "SEGMENT_BYTES": 1 << 30,  # of which only what is used takes memory
    "WORDS": 64,  # of a request and of its answer
    "NOBODY": 0xFFFFFFFF,
    # How an end of a connection holds its port, bits.
    "VERSION_6": 1,
    "ONE_VERSION": 2,  # not the other version's, too
    "REUSED": 4,  # until it listens
    "ANY_ADDRESS": 8,
    "INLINE_BIT": 8,
    "IPV4_BIT": 1 << 16,  # of a completion's flags: of a datagram whose header is of version 4
    "NODES": 8,  # processes that can be attached at a time: each has a NIC of its own
    "MEMBERS": 8,  # queue pairs of a multicast group: so many requests are posted at once
    "AT_ONCE": 64,  # requests or completions of a queue, before the others
    "SEGMENTS": 16,  # scatter/gather elements of a request
    "INLINE_BYTES": 512,
    "CLOCKS": 64,  # processes that can be paced at a time
}

# What a program asks of the machine by its socket, one at a time.
OPERATIONS = (
    *("HELLO", "ALLOC_PD", "DEALLOC_PD", "REG_MR", "DEREG_MR", "REREG_MR"),
    *("CREATE_CHANNEL", "DESTROY_CHANNEL", "CREATE_CQ", "DESTROY_CQ", "RESIZE_CQ"),
    *("CREATE_QP", "MODIFY_QP", "QUERY_QP", "DESTROY_QP"),
    *("CREATE_SRQ", "MODIFY_SRQ", "QUERY_SRQ", "DESTROY_SRQ", "OPEN_XRCD", "CLOSE_XRCD"),
    *("ATTACH_MCAST", "DETACH_MCAST"),
    *("CM_CREATE", "CM_OWN", "CM_MOVE", "CM_BIND", "CM_LISTEN", "CM_CONNECT", "CM_ACCEPT"),
    *("CM_REJECT", "CM_ESTABLISH", "CM_DISCONNECT", "CM_DESTROY"),
)

# What the machine says of itself, in this order behind the fingerprint's answer.
FACTS = (
    *("node", "guid", "gid0_high", "gid0_low", "gid1_high", "gid1_low", "max_qp_wr", "max_sge"),
    *("max_cqe", "max_srq_wr", "max_rd_atomic", "max_qp", "max_cq", "max_mr", "mtu_bytes"),
    *("max_msg_bytes", "max_inline", "machine_pid"),
)

# What MODIFY_QP tells, behind the handle and the mask.
ATTRIBUTES = (
    *("qp_state", "cur_qp_state", "path_mtu", "qkey", "rq_psn", "sq_psn", "dest_qp_num"),
    *("qp_access_flags", "pkey_index", "en_sqd_async_notify", "max_rd_atomic"),
    *("max_dest_rd_atomic", "min_rnr_timer", "port_num", "timeout", "retry_cnt", "rnr_retry"),
    *("dgid_high", "dgid_low", "sgid_index", "is_global"),
)

DTYPES = {name: np.dtype([*fields], align=True) for name, fields in STRUCTS.items()}
_C_TYPES = {WORD: "uint64_t", HALF: "uint32_t", NUMBER: "int64_t"}


def _lines() -> Iterator[str]:
    for name, value in CONSTANTS.items():
        yield f"#define LIVE_{name} {value}ull"
    for name, fields in STRUCTS.items():
        yield f"struct live_{name} {{"
        yield from (f"\t{_C_TYPES[kind]} {field};" for field, kind in fields)
        yield "};"
        size = DTYPES[name].itemsize
        yield f'_Static_assert(sizeof(struct live_{name}) == {size}, "live_{name}");'
    for prefix, names in (
        ("OP", OPERATIONS), ("FACT", FACTS), ("ATTR", ATTRIBUTES), ("PARAM", PARAMETERS),
    ):  # fmt: skip
        yield "enum {"
        yield from (f"\tLIVE_{prefix}_{name.upper()}," for name in names)
        yield f"\tLIVE_{prefix}_COUNT"
        yield "};"


_BODY = "\n".join(_lines())
FINGERPRINT = int.from_bytes(hashlib.sha256(_BODY.encode()).digest()[:8], "little") >> 1


def header() -> str:
    """The C header of all this."""
    guard = "NICSCOPE_LIVE_LAYOUT_H"
    return (
        f"/* Generated by nicscope.live.layout: not to be edited. */\n#ifndef {guard}\n"
        f"#define {guard}\n#include <stdint.h>\n#define LIVE_FINGERPRINT {FINGERPRINT}ull\n"
        f"{_BODY}\n#endif\n"
    )
