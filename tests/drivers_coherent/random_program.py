"""Random programs of a CPU, a DMA engine and a coherent interface over the same few blocks.

``perform`` is one kernel: each step is taken by the machine, reads go to ``results`` and writes
also to ``truth``, the sequential memory; after each step everything that holds a valid copy of a
byte must agree with ``truth`` and nothing may have two owners.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.eager import eager_deliver, eager_fetch, home_of, is_registered
from nicscope.drivers.coherent.engine import dma_from_host, dma_to_host, flush_range
from nicscope.drivers.coherent.machine import new_machine, node_of
from nicscope.drivers.coherent.registration import (
    NOT_REGISTERED,
    deregister_region,
    register_region,
)
from nicscope.drivers.coherent.words import load_words, store_words
from nicscope.kernel.decorators import kernel, routine, step
from nicscope.memory.coherence.device import INTERVENED, RETRIED, UNSNOOPED
from nicscope.memory.coherence.layout import EMPTY, INVALID, MODIFIED, SHARED
from nicscope.memory.coherence.watched import agent_write

WIDTH = 16  # bytes of a step, at most
BLOCK = 64
BYTES = 2048  # of the host's memory that programs use

CPU_WRITE = 0
CPU_READ = 1
DMA_TO_HOST = 2
DMA_FROM_HOST = 3
AGENT_WRITE = 4
AGENT_READ = 5
DELIVER = 6
FLUSH = 7
REGISTER = 8
DEREGISTER = 9
KINDS = 10

# What may be wrong after a step.
FINE = 0
WRONG_READ = 1
NOT_INCLUDED = 2
TWO_OWNERS = 3
STALE_ON_NIC = 4
STALE_IN_CACHE = 5
STALE_IN_MEMORY = 6
TIME_WENT_BACK = 7


def small_machine(**nic):
    """Caches so small that blocks leave them all the time."""
    return new_machine(
        1,
        {
            "memory_bytes": 4096,
            "l1_bytes": 128,
            "l1_line": 32,
            "l2_bytes": 512,
            "l2_line": BLOCK,
            "fill_then_invalidate": nic.pop("fill_then_invalidate", 1),
        },
        {
            "memory_bytes": 4096,
            "staging_bytes": 1024,
            "queue_blocks": 2,
            "pinned_bytes_max": 1024,
            **nic,
        },
        tags=8,
    )


@step
def _answer(choice):
    if choice == 0:
        return UNSNOOPED
    return RETRIED if choice == 1 else INTERVENED


@routine
def _load(node, kind, address, count, choice, results, start, now):
    """Read by the CPU, by DMA or by the NIC; the bytes are in ``results[start:]``."""
    if kind == CPU_READ:
        return load_words(node.host, node.agent, address, results, start, count, now)
    place = np.int64(0)
    if kind == AGENT_READ and is_registered(node, address, count):
        now = eager_fetch(node, address, count, now)
        place = home_of(node, address)
    else:
        if choice == 0:
            now = flush_range(node, address, count, now)
        now = dma_from_host(node, _answer(choice), address, count, place, now)
    for i in range(count):
        results[start + i] = node.agent.memory[place + i]
    return now


@routine
def _store(node, kind, address, count, choice, data, now):
    """Write by the CPU, by DMA or by the NIC."""
    if kind == CPU_WRITE:
        return store_words(node.host, node.agent, address, data, 0, count, now)
    for i in range(count):
        node.agent.memory[i] = data[i]
    registered = is_registered(node, address, count)
    if kind == DELIVER and registered:
        node.nic.config[0].receive_method = 1 + (choice & 1)
        return eager_deliver(node, 0, address, count, now)
    within = min(count, BLOCK - address % BLOCK)
    if kind == AGENT_WRITE and registered and within == count:
        return agent_write(node.host, node.agent, home_of(node, address), count, data, 0, now)
    if choice == 0:
        now = flush_range(node, address, count, now)
    return dma_to_host(node, _answer(choice), address, count, 0, now)


@routine
def _cached_bytes_agree(node, truth):
    """Lines of both levels: included, owned alone, and their bytes those of ``truth``."""
    host = node.host
    for upper in range(host.l1.size):
        tag = host.l1[upper].tag
        if tag == EMPTY:
            continue
        below = np.int64(EMPTY)
        for lower in range(host.l2.size):
            if host.l2[lower].tag == tag * 32 // BLOCK:
                below = np.int64(lower)
        if below == EMPTY:
            return NOT_INCLUDED
        if host.l1[upper].state == MODIFIED and host.l2[below].state != MODIFIED:
            return TWO_OWNERS
        for i in range(32):
            if tag * 32 + i < BYTES and host.l1_data[upper * 32 + i] != truth[tag * 32 + i]:
                return STALE_IN_CACHE
    for lower in range(host.l2.size):
        tag = host.l2[lower].tag
        if tag == EMPTY or tag * BLOCK >= BYTES:
            continue
        home = np.int64(host.l2.size * 0 + node.agent.home[tag])
        owned = host.l2[lower].state > SHARED
        if home != EMPTY and owned and node.agent.copies[home].state != INVALID:
            return TWO_OWNERS
        if home != EMPTY and node.agent.copies[home].state == MODIFIED:
            return TWO_OWNERS
    return FINE


@routine
def _others_agree(node, truth):
    """The NIC's valid blocks hold ``truth``, and so does memory where nobody is the owner."""
    host = node.host
    for block in range(BYTES // BLOCK):
        home = np.int64(node.agent.home[block])
        dirty = False
        if home != EMPTY and node.agent.copies[home].state != INVALID:
            dirty = node.agent.copies[home].state == MODIFIED
            for i in range(BLOCK):
                if node.agent.memory[home * BLOCK + i] != truth[block * BLOCK + i]:
                    return STALE_ON_NIC
        for lower in range(host.l2.size):
            if host.l2[lower].tag == block and host.l2[lower].state == MODIFIED:
                dirty = True
        for i in range(BLOCK):
            if not dirty and host.memory[block * BLOCK + i] != truth[block * BLOCK + i]:
                return STALE_IN_MEMORY
    return FINE


@step
def _take(node, row, data, results, start, now):
    kind, address, count, choice = row
    if kind == FLUSH:
        return flush_range(node, address, count, now)
    if kind == REGISTER:
        _, now = register_region(node, address, count * 8, now)
        return now
    if kind == DEREGISTER:
        became, now = deregister_region(node, address, 1, now)
        while became != NOT_REGISTERED:  # until nobody uses the region, and it may go
            became, now = deregister_region(node, address, 1, now)
        return now
    if kind in (CPU_READ, DMA_FROM_HOST, AGENT_READ):
        return _load(node, kind, address, count, choice, results, start, now)
    return _store(node, kind, address, count, choice, data, now)


@kernel
def perform(machine, program, data, truth, results, every, now):
    """The first step after which something is wrong, what, and the time; -1, FINE if none is.

    ``program`` int64 (steps, 4): kind, address, count, choice.  ``data`` uint8 (steps, WIDTH).
    ``results`` uint8 (steps * WIDTH,).  All copies are compared every ``every`` steps.
    """
    node = node_of(machine, 0)
    for s in range(program.shape[0]):
        kind, address, count = program[s, 0], program[s, 1], program[s, 2]
        before = now
        row = (kind, address, count, program[s, 3])
        now = _take(node, row, data[s], results, s * WIDTH, now)
        if now < before:
            return s, TIME_WENT_BACK, now
        writes = kind in (CPU_WRITE, DMA_TO_HOST, AGENT_WRITE)
        if writes or kind == DELIVER:
            for i in range(count):
                truth[address + i] = data[s, i]
        if kind in (CPU_READ, DMA_FROM_HOST, AGENT_READ):
            for i in range(count):
                if results[s * WIDTH + i] != truth[address + i]:
                    return s, WRONG_READ, now
        if s % every == 0:
            found = _cached_bytes_agree(node, truth)
            found = found if found != FINE else _others_agree(node, truth)
            if found != FINE:
                return s, found, now
    return -1, FINE, now
