"""Descriptors in their processes' memory, where the CPU writes them.

A library that has its descriptors in registered memory names one by a token (``nic.ports.tokens``).
Its CPU stores it word by word and does the way's part of handing it over, before the message's own.
What the NIC does is in ``fetching``.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.engine import await_engine, is_engine_free
from nicscope.drivers.simulate.bus.stretches import (
    OUT,
    begin_stretch,
    physical_of,
    turn_to,
)
from nicscope.drivers.simulate.machine import ACCESSING, CPU, KINDS, POST, PROVIDE
from nicscope.drivers.simulate.ports.posting import FLAG_BITS
from nicscope.drivers.simulate.ports.reporting import KIND_BITS
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.access import SCRATCH, STORE, begin_access
from nicscope.memory.coherence.asks import PROCESSOR
from nicscope.nic.ports.layout import FENCED, IMMEDIATE, ONE, WRITE
from nicscope.nic.ports.layout import FETCH as READ
from nicscope.nic.ports.tokens import address_of, bytes_of
from nicscope.nic.ways.state import CNI, DMA, NO_CALL, PIO, PIO_COMBINED, PUBLISH

WORD = 8
CONTROL_WORDS = 4
# Of a descriptor's control word (VIA Specification 1.0).
TO_WRITE, TO_READ, HAS_IMMEDIATE, HAS_FENCE = 1, 2, 4, 8


@step
def hand_descriptor(machine, n, p, now):
    """Whether the CPU has more to do with the descriptor of process ``p``, which it begins."""
    token = _posted(machine, n, p)
    errand = machine.bus.errands[n]
    count = bytes_of(token)
    if errand.written < count:
        return _store(machine, n, p, token, now)
    if errand.handed < count and machine.bus.rules[n].way in (DMA, PIO, PIO_COMBINED, CNI):
        return _hand_over(machine, n, p, token, now)
    return False


@step
def _posted(machine, n, p):
    """The token of what process ``p`` posts, or 0: it has no descriptor in memory."""
    process = machine.processes[p]
    if process.operation not in (POST, PROVIDE):
        return np.int64(0)
    takes = machine.ports.table[n, process.peer].takes
    return np.int64(process.address) if takes == ONE else np.int64(0)


@step
def stretch_of(machine, n, port, token, done, most):
    """Where in memory a descriptor goes on behind ``done`` bytes, and how many of it are there.

    At most ``most``, and all in one page.
    """
    address = address_of(token) + done
    page = np.int64(1) << machine.ports.rules[0].page_bits
    size = min(min(bytes_of(token) - done, most), page - (address & (page - 1)))
    return physical_of(machine, n, machine.ports.table[n, port].space, address), size


@step
def _store(machine, n, p, token, now):
    """Store the next part of the descriptor, at most what scratch holds."""
    errand = machine.bus.errands[n]
    scratch = machine.bus.ways.nics.scratch[n]
    port = machine.processes[p].peer
    physical, size = stretch_of(machine, n, port, token, errand.written, scratch.size)
    if physical == OUT:  # not registered any more: there is nothing to be written to
        errand.written = errand.handed = bytes_of(token)
        return False
    for at in range(0, size, WORD):
        word = _word_of(machine, p, (errand.written + at) // WORD)
        for i in range(WORD):
            scratch[at + i] = (word >> (WORD * i)) & 255
    errand.written += size
    turn_to(machine, n, ACCESSING, now)
    machine.bus.ways.moves[n, PROCESSOR].call = NO_CALL
    begin_access(machine.bus.ways.access[n, 0], STORE, physical, 0, size, SCRATCH)
    put(machine.agenda, n * KINDS + CPU, now)
    return True


@step
def _hand_over(machine, n, p, token, now):
    """Flush the next part of the descriptor, or move it to the NIC."""
    errand = machine.bus.errands[n]
    if machine.bus.rules[n].way == CNI and not is_engine_free(machine, n):
        await_engine(machine, n)
        return True
    port, most = machine.processes[p].peer, bytes_of(token)
    physical, size = stretch_of(machine, n, port, token, errand.handed, most)
    place = machine.bus.rules[n].descriptor + errand.handed
    errand.handed += size
    begin_stretch(machine, n, PUBLISH, physical, place, size, now)
    return True


@step
def _word_of(machine, p, number):
    """Word ``number`` of the descriptor of process ``p``, as VIPL's header lays it out.

    A control segment of four words, for remote memory an address segment, then data segments.
    """
    process = machine.processes[p]
    operation = process.own & ((1 << KIND_BITS) - 1) if process.operation == POST else 0
    remote = 1 if operation in (WRITE, READ) else 0
    if number < CONTROL_WORDS:
        return _control_word(machine, p, number, operation, remote)
    place = (number - CONTROL_WORDS) // 2 - remote
    second = number % 2
    if place < 0:
        return np.int64(process.tag if second == 1 else process.duration)
    if place >= process.payload:
        return np.int64(0)
    piece = machine.ports.gathers[p, place]
    return np.int64(piece.key + (piece.length << 32) if second == 1 else piece.address)


@step
def _control_word(machine, p, number, operation, remote):
    process = machine.processes[p]
    if number == 1:
        control = TO_WRITE * (operation == WRITE) + TO_READ * (operation == READ)
        flags = (process.own >> KIND_BITS) & ((1 << FLAG_BITS) - 1)
        if process.operation == POST and flags & IMMEDIATE:
            control += HAS_IMMEDIATE
        if process.operation == POST and flags & FENCED:
            control += HAS_FENCE
        return np.int64(((process.payload + remote) << 32) + (control << 48))
    total = np.int64(0)
    if number == CONTROL_WORDS - 1:
        for i in range(process.payload):
            total += machine.ports.gathers[p, i].length
    return total
