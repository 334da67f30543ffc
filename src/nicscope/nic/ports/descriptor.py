"""Descriptors: copied from the queue of their process, then checked, and only then believed."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import (
    check_work_request,
    load_from_program,
    store_to_program,
)
from nicscope.nic.ports.lookup import NO_KEY
from nicscope.nic.ports.streams import is_reliable, peer_of, stream_to

UNIT = 16  # bytes
ALIGNMENT = 64
MOST_BYTES = UNIT * (ALIGNMENT - 1)  # of a descriptor


@step
def bytes_of(token):
    """Bytes of the descriptor that a token names."""
    return UNIT * (token & (ALIGNMENT - 1))


@step
def address_of(token):
    """Address of the descriptor that a token names."""
    return token - (token & (ALIGNMENT - 1))


WORD_BYTES = 8
_BITS = 32
_HALF = (1 << _BITS) - 1


@step
def is_atomic(operation):
    """Whether ``operation`` is an atomic one."""
    return operation in (layout.COMPARE_SWAP, layout.FETCH_ADD)


@step
def is_atomic_answer(port, p):
    """Whether the current descriptor of port ``p`` answers an atomic operation."""
    return p == layout.OWN_PORT and port.atomic != 0


@step
def is_aligned(address):
    """Whether ``address`` is aligned to a word."""
    return address & (WORD_BYTES - 1) == 0


@routine
def perform_atomic(nics, n, p, packet, head):
    """Perform the atomic operation, if any, on the word that the packet of ``head`` returns."""
    port = nics.ports.table[n, p]
    if not is_atomic_answer(port, p) or packet.payload != WORD_BYTES:
        return
    head.atomic = port.atomic
    memory = nics.store.host[n]
    mirrors = nics.ports.rules[0].mirrors == 1
    if mirrors:
        address, is_answer = np.int64(packet.address), np.int64(1)
        load_from_program(nics, n, address, np.int64(WORD_BYTES), is_answer)
    found = _word_at(memory, packet.address)
    head.swap = found
    if port.atomic == layout.FETCH_ADD:
        _put_word(memory, packet.address, _sum(found, np.int64(port.immediate)))
    elif found == port.immediate:
        _put_word(memory, packet.address, np.int64(port.swap))
    if mirrors:
        store_to_program(nics, n, np.int64(packet.address), np.int64(WORD_BYTES))


@routine
def put_atomic_result(nics, n, place):
    """Set the payload of an atomic's answer, at ``place`` of the send ring, to the old word.

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


NO_PAGE = -1


@step
def copy_descriptor(nics, n, p):
    """Copy the next descriptor of port ``p``, so that its process cannot change it any more."""
    ports = nics.ports
    port = ports.table[n, p]
    slot = place_in(port.taken, ports.rules[0].ring)
    if p == layout.OWN_PORT:
        slot = ports.answer_slots[n, slot]
    request = ports.requests[n, p, slot]
    port.taken += 1
    port.busy = 1
    port.slot = slot
    port.operation = request.operation
    port.name = request.name
    port.offset = request.offset
    port.segments = request.segments
    port.options = request.options
    port.cookie = request.cookie
    port.length = request.length
    port.immediate = request.immediate
    port.swap = request.swap
    port.atomic = 0
    if port.takes == layout.WORK_QUEUE and is_atomic(request.operation):
        port.atomic = request.operation
        port.operation = layout.FETCH
    port.reply_port = layout.NOBODY
    if p == layout.OWN_PORT:
        port.reply_space = request.space
        port.reply_port = request.port
        port.reply_owner = request.owner
        port.atomic = request.atomic
    for i in range(ports.current.shape[2]):
        ports.current[n, p, i] = ports.segments[n, p, slot, i]
    if port.options & layout.INLINE:
        copy_bytes(ports.carried[n, p], 0, ports.inline[n, p, slot], 0, layout.INLINE_BYTES)
    port.done = 0
    port.segment = 0
    port.segment_done = 0
    port.page = NO_PAGE
    port.missed = NO_PAGE
    port.until = 0
    port.key = NO_KEY
    if p == layout.OWN_PORT:
        _go_on_with_answer(port, ports.answers[n, slot])


@step
def _go_on_with_answer(port, answer):
    """Go on where the answer was put aside, with the page that was brought for it."""
    port.done = answer.done
    port.segment_done = answer.done
    port.missed = answer.missed
    port.page = answer.page
    port.frame = answer.frame
    port.key = answer.key


@step
def check_descriptor(nics, n, p):
    """Check the copied descriptor of port ``p``: ``DONE``, or the status of its failure."""
    ports = nics.ports
    port = ports.table[n, p]
    if p == layout.OWN_PORT:
        port.total = ports.current[n, p, 0].length if port.segments > 0 else 0
        return ports.answers[n, port.slot].failure
    if port.takes == layout.WORK_QUEUE:
        return check_work_request(nics, n, p)
    if ports.rules[0].sparse == 0:  # a trace was checked when it was read
        status = check_request(port, ports.current[n, p], ports.rules[0].space_bytes)
        if status != layout.DONE:
            return status
        if port.operation != layout.SEND and ports.rules[0].serves == 0:
            return layout.BAD_DESCRIPTOR  # U-Net has no remote memory, and no handler for it
    port.total = _total(ports.current[n, p], port)
    if port.operation == layout.SEND:
        return _check_channel(nics, n, p)
    return _check_import(nics, n, p)


@step
def _total(segments, port):
    if port.options & layout.INLINE:
        return port.length
    total = np.int64(0)
    for i in range(port.segments):
        total += segments[i].length
    return total


@step
def _check_channel(nics, n, p):
    ports = nics.ports
    port = ports.table[n, p]
    if port.name < 0 or port.name >= ports.channels.shape[1]:
        return layout.BAD_TAG
    channel = ports.channels[n, port.name]
    if channel.port != p:
        return layout.BAD_TAG
    if port.total > channel.most:
        return layout.OUT_OF_BOUNDS
    if stream_to(ports, n, peer_of(channel)).dead == 1:
        return layout.PEER_DEAD
    channel.sent += 1
    port.message = channel.sent
    return layout.DONE


@step
def _check_import(nics, n, p):
    ports = nics.ports
    port = ports.table[n, p]
    if port.name < 0 or port.name >= ports.shared.imports.shape[1]:
        return layout.BAD_HANDLE
    imported = ports.shared.imports[n, port.name]
    if imported.port != p:
        return layout.BAD_HANDLE
    if port.options & layout.INLINE or ports.rules[0].serves == 0:
        return (
            layout.BAD_DESCRIPTOR
        )  # a controller that knows no ports knows no memory of others either
    if port.operation == layout.FETCH and not is_reliable(
        ports, stream_to(ports, n, peer_of(imported))
    ):
        return layout.BAD_DESCRIPTOR  # nobody would learn that the question or its answer is lost
    if port.offset < 0 or port.offset > imported.length - port.total:
        return layout.OUT_OF_BOUNDS
    needed = layout.MAY_FETCH if port.operation == layout.FETCH else layout.MAY_WRITE
    if imported.rights & needed == 0:
        return layout.NO_RIGHTS
    if stream_to(ports, n, peer_of(imported)).dead == 1:
        return layout.PEER_DEAD
    return layout.DONE


@step
def check_request(request, segments, ports_ring_page):
    """Check operation and lengths of a copied descriptor: ``DONE`` or a status."""
    if request.operation < layout.SEND or request.operation > layout.FETCH:
        return layout.BAD_DESCRIPTOR
    if request.options & layout.INLINE:
        if (
            request.operation == layout.FETCH
            or request.length < 0
            or request.length > layout.INLINE_BYTES
        ):
            return layout.BAD_DESCRIPTOR
        return layout.DONE
    if request.segments < 1 or request.segments > segments.shape[0]:
        return layout.BAD_DESCRIPTOR
    if request.operation == layout.FETCH and request.segments != 1:
        return layout.BAD_DESCRIPTOR
    for i in range(request.segments):
        segment = segments[i]
        if segment.length < 1 or segment.address < 0:
            return layout.BAD_DESCRIPTOR
        if segment.address >= ports_ring_page or segment.length > ports_ring_page - segment.address:
            return layout.NO_RIGHTS
    return layout.DONE
