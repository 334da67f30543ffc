"""The bytes themselves: host memories, NIC buffers, rings; copied as transfers proceed.

Nothing is copied before the counters say that it has moved: what a transfer to the sink reads has
been deposited.  A simulation without bytes has arrays of no length here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import copy_bytes, step
from nicscope.memory_limit import zeroed
from nicscope.nic.delivery import CONTROL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory_limit import Shapes

UNMAPPED = -1
BYTE, PLACE = np.dtype(np.uint8), np.dtype(np.int64)


class Store(NamedTuple):
    """Bytes of every node; the first axis is the node."""

    host: NDArray[np.uint8]  # shape (nodes, bytes)
    send_buffers: NDArray[np.uint8]  # shape (nodes, buffers, max_payload)
    receive_buffers: NDArray[np.uint8]
    send_ring: NDArray[np.uint8]  # shape (nodes, ring, CONTROL_BYTES)
    arriving: NDArray[np.uint8]  # likewise, by packet accepted
    receive_ring: NDArray[np.uint8]
    control: NDArray[np.uint8]  # shape (processes, CONTROL_BYTES): what the program sees of it
    payload_table: NDArray[np.int64]  # shape (nodes, tags): address, or UNMAPPED
    attached: NDArray[np.int64]  # shape (nodes, ring): addresses of buffers for untagged payloads
    attached_head: NDArray[np.int64]  # shape (nodes,): taken and given back so far
    attached_tail: NDArray[np.int64]
    marks: NDArray[np.int64]  # shape (nodes, 2): bytes copied by hostTx and netRcv


def new_store(
    nodes: int,
    processes: int,
    host_bytes: int,
    rings: tuple[int, int],
    buffers: tuple[int, int],
    max_payload: int,
    tags: int,
) -> Store:
    """Zeroed bytes; ``rings`` and ``buffers`` of the send and the receive side."""
    arrays = zeroed(store_shapes(nodes, processes, host_bytes, rings, buffers, max_payload, tags))
    sent, received = buffers_in(arrays.pop("buffers"), buffers, max_payload)
    store = Store(send_buffers=sent, receive_buffers=received, **arrays)
    store.payload_table[:] = UNMAPPED
    return store


def buffers_in(
    memory: NDArray[np.uint8], buffers: tuple[int, int], max_payload: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The buffers of the send and of the receive side in the NICs' ``memory``, side by side.

    They lie alike whether a bus leads to that memory or not, or all that simulates would be
    compiled once for each.
    """
    sent, received = buffers
    whole = memory[:, : (sent + received) * max_payload]
    shared = whole.reshape((len(memory), sent + received, max_payload), copy=False)
    return shared[:, :sent], shared[:, sent:]


def store_shapes(
    nodes: int,
    processes: int,
    host_bytes: int,
    rings: tuple[int, int],
    buffers: tuple[int, int],
    max_payload: int,
    tags: int,
) -> Shapes:
    """The arrays of a ``Store``, the buffers of both sides as one; see ``new_store``."""
    return {
        "host": ((nodes, host_bytes), BYTE),
        "buffers": ((nodes, sum(buffers) * max_payload), BYTE),
        "send_ring": ((nodes, rings[0], CONTROL_BYTES), BYTE),
        "arriving": ((nodes, rings[1], CONTROL_BYTES), BYTE),
        "receive_ring": ((nodes, rings[1], CONTROL_BYTES), BYTE),
        "control": ((processes, CONTROL_BYTES), BYTE),
        "payload_table": ((nodes, tags), PLACE),
        "attached": ((nodes, rings[1]), PLACE),
        "attached_head": ((nodes,), PLACE),
        "attached_tail": ((nodes,), PLACE),
        "marks": ((nodes, 2), PLACE),
    }


def no_store(nodes: int) -> Store:
    """No bytes: for traffic of which only the times matter."""
    return new_store(nodes, 0, 0, (0, 0), (0, 0), 0, 0)


@step
def has_bytes(store):
    """Whether this simulation carries bytes."""
    return store.host.size > 0


@step
def fetch(store, n, packet, upto):
    """HostTx: the payload's bytes up to ``upto``, from the host's memory to the NIC's buffer."""
    done = store.marks[n, 0]
    if upto > done:
        target = store.send_buffers[n, packet.buffer]
        copy_bytes(target, done, store.host[n], packet.address + done, upto - done)
    store.marks[n, 0] = max(done, upto)


@step
def carry(store, sent, d, accepted, upto):
    """NetTx and netRcv: the bytes of a payload as it was ``sent`` up to ``upto``, into the NIC."""
    done = store.marks[d, 1]
    if upto > done:
        target = store.receive_buffers[d, accepted.buffer]
        copy_bytes(target, done, sent, done, upto - done)
    store.marks[d, 1] = max(done, upto)


@step
def deliver(store, n, packet, begin, end):
    """HostRcv: bytes ``begin`` up to ``end`` of the payload, from the NIC to the host's memory."""
    if end > begin:
        source = store.receive_buffers[n, packet.buffer]
        copy_bytes(store.host[n], packet.address + begin, source, begin, end - begin)


@step
def copy_control(source, place, target, slot, n, d):
    """One control message, from ring slot to ring slot."""
    copy_bytes(target[d, slot], 0, source[n, place], 0, CONTROL_BYTES)


@step
def take_attached(store, n):
    """Takes the receive ring's host buffer for the next untagged payload; its address."""
    ring = store.attached.shape[1]
    address = store.attached[n, store.attached_head[n] % ring]
    store.attached_head[n] += 1
    return address


@step
def give_back(store, n, address):
    """Attaches a host buffer to the receive ring again."""
    ring = store.attached.shape[1]
    store.attached[n, store.attached_tail[n] % ring] = address
    store.attached_tail[n] += 1
