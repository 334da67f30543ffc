"""Atomic operations: a word of a peer's memory is read and changed at one stroke.

On its way one is a FETCH of that word.  It is carried out when its answer is made: the answer is
posted once, as its question is delivered once, and what the word was goes with the answer however
often that is sent.  A NIC makes one packet at a time, so all of its atomic operations exclude each
other, whosever they are.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports.layout import COMPARE_SWAP, FETCH_ADD, OWN_PORT

WORD_BYTES = 8
_BITS = 32
_HALF = (1 << _BITS) - 1


@step
def is_atomic(operation):
    """Whether a descriptor of that operation is one."""
    return operation in (COMPARE_SWAP, FETCH_ADD)


@step
def changes_memory(port, p):
    """Whether the descriptor under way at port ``p`` changes the memory that it is sent from."""
    return p == OWN_PORT and port.atomic != 0


@step
def is_aligned(address):
    """Whether a word can be there."""
    return address & (WORD_BYTES - 1) == 0


@routine
def exchange(nics, n, p, packet, head):
    """Do to the word that the packet of ``head`` answers with what was asked, if anything was."""
    port = nics.ports.table[n, p]
    if not changes_memory(port, p) or packet.payload != WORD_BYTES:
        return
    head.atomic = port.atomic
    memory = nics.store.host[n]
    found = _word_at(memory, packet.address)
    head.swap = found
    if port.atomic == FETCH_ADD:
        _put_word(memory, packet.address, _sum(found, np.int64(port.immediate)))
    elif found == port.immediate:
        _put_word(memory, packet.address, np.int64(port.swap))


@routine
def put_result(nics, n, place):
    """The payload of the answer at ``place`` of the send ring is what the word was.

    Nothing else changes, and nothing of other packets: the engine has read the word as it is now.
    """
    head = nics.ports.send_heads[n, place]
    if head.atomic != 0 and nics.sends[n, place].payload == WORD_BYTES:
        buffer = nics.store.send_buffers[n, nics.sends[n, place].buffer]
        _put_word(buffer, 0, np.int64(head.swap))


@step
def _word_at(memory, address):
    word = np.int64(0)
    for i in range(WORD_BYTES):
        word |= np.int64(memory[address + i]) << np.int64(8 * i)
    return word


@step
def _put_word(memory, address, word):
    for i in range(WORD_BYTES):
        memory[address + i] = (word >> np.int64(8 * i)) & np.int64(255)


@step
def _sum(one, other):
    """The sum of two words, as 64 bits have it."""
    low = (one & _HALF) + (other & _HALF)
    high = (one >> _BITS) + (other >> _BITS) + (low >> _BITS)
    return (high << np.int64(_BITS)) | (low & _HALF)
