"""Descriptors: reading one out of NIC memory, and what the NIC writes back when it is done.

A control segment of 32 bytes, an address segment of 16 for remote memory, data segments of 16;
little-endian, as the library's header lays them out.  Source: VIA Specification 1.0; EDT, 3.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.vimsg.codes import (
    CONTROL_OP_MASK,
    CONTROL_RESERVED,
    STATUS_OP_MASK,
    Control,
    Status,
)
from nicscope.nic.vimsg.layout import MOST_SEGMENTS, NOWHERE

CONTROL_BYTES = 32
SEGMENT_BYTES = 16
STATUS_AT = 20  # immediate data, length and status: what the NIC writes
RDMA_WRITE = int(Control.VIP_CONTROL_OP_RDMAWRITE)
RDMA_READ = int(Control.VIP_CONTROL_OP_RDMAREAD)
IMMEDIATE = int(Control.VIP_CONTROL_IMMEDIATE)
DONE = int(Status.VIP_STATUS_DONE)
FORMAT_ERROR = int(Status.VIP_STATUS_FORMAT_ERROR)
OP_RECEIVE = int(Status.VIP_STATUS_OP_RECEIVE)
OP_WRITE = int(Status.VIP_STATUS_OP_RDMA_WRITE)
OP_READ = int(Status.VIP_STATUS_OP_RDMA_READ)
OP_REMOTE_WRITE = int(Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE)
STATUS_IMMEDIATE = int(Status.VIP_STATUS_IMMEDIATE)


@step
def little(memory, place, count):
    """The number in ``count`` bytes, the lowest first; of eight, with a sign."""
    value = np.int64(0)
    for i in range(count):
        value |= np.int64(memory[place + i]) << (8 * i)
    return value


@kernel
def read_request(vimsg, request, memory, place, count, is_receive):
    """FORMAT_ERROR or 0, after the descriptor of ``count`` bytes at ``place`` was read.

    It is then ``vimsg.requests[request]``.  ``is_receive``: of a receive queue, where a descriptor
    asks for nothing but a message.
    """
    found = vimsg.requests[request]
    segments = little(memory, place + 12, 2)
    control = little(memory, place + 14, 2)
    found.control = control
    found.immediate = little(memory, place + 20, 4)
    found.segments = 0
    found.length = 0
    found.next = NOWHERE
    found.remote_address = 0
    found.remote_handle = 0
    operation = control & CONTROL_OP_MASK
    if control & CONTROL_RESERVED != 0 or operation > RDMA_READ or segments > MOST_SEGMENTS:
        return FORMAT_ERROR
    if count < CONTROL_BYTES + SEGMENT_BYTES * segments or (operation != 0 and segments == 0):
        return FORMAT_ERROR
    if is_receive and operation != 0:
        return FORMAT_ERROR
    at = place + CONTROL_BYTES
    if operation != 0:
        found.remote_address = little(memory, at, 8)
        found.remote_handle = little(memory, at + 8, 4)
        at += SEGMENT_BYTES
        segments -= 1
    found.segments = segments
    for s in range(segments):
        one = vimsg.segments[request, s]
        one.address = little(memory, at, 8)
        one.handle = little(memory, at + 8, 4)
        one.length = little(memory, at + 12, 4)
        found.length += one.length
        at += SEGMENT_BYTES
    return 0


@kernel
def status_word(is_receive, control, status):
    """The status word of a descriptor that is done: with what it was and how it went."""
    if is_receive:
        if status & STATUS_OP_MASK != OP_REMOTE_WRITE:
            status |= OP_RECEIVE
    elif control & CONTROL_OP_MASK == RDMA_WRITE:
        status |= OP_WRITE
    elif control & CONTROL_OP_MASK == RDMA_READ:
        status |= OP_READ
    return status | DONE
