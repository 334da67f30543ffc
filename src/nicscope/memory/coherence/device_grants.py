"""A device's request is granted: one transaction, ordered now, changes states and bytes.

Each grant returns how it went (MADE, VOID, AGAIN) and a time in ps: the transaction's end, or from
when on the master asks again.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.asks import AGAIN, CACHE, FAR, MADE, VOID
from nicscope.memory.coherence.bus import data_phase, order
from nicscope.memory.coherence.device import INTERVENED, RETRIED, absorb, is_dirty, supply
from nicscope.memory.coherence.layout import (
    CPU,
    DEVICE,
    EMPTY,
    INVALID,
    MODIFIED,
    READ,
    RETRY,
    SHARED,
    UPGRADE,
    WRITE_BACK,
)
from nicscope.memory.coherence.lines import clean, discard, find_l2
from nicscope.memory.coherence.watcher import NEVER, WINDOW, ask_for


@routine
def grant_agent(host, agent, now):
    """The agent's oldest pending read; VOID if it has the block, or keeps none there, by now."""
    watch = agent.watch[0]
    place = np.int64(agent.pending[watch.head % agent.pending.size])
    copy = agent.copies[place]
    watch.head += 1
    copy.due = FAR
    if copy.block == EMPTY or copy.state != INVALID:
        if watch.head < watch.tail:  # what stood behind it could not ask before
            behind = agent.copies[np.int64(agent.pending[watch.head % agent.pending.size])]
            behind.due = max(behind.due, now)
        return VOID, now
    width = np.int64(1) << host.config[0].l2_shift
    order(host, DEVICE, READ, now)
    memory, start = agent.memory, copy.block * width
    rate = watch.mbytes_s
    end = supply(host, start, width, memory, place * width, now, rate, INTERVENED)
    copy.state = SHARED
    copy.arrived = end
    agent.ends[watch.reads % WINDOW] = end
    watch.reads += 1
    return MADE, end


@step
def agent_asks_at(agent):
    """Since when the agent's oldest pending read stands, or ``FAR``."""
    watch = agent.watch[0]
    if watch.head == watch.tail:
        return FAR
    place = np.int64(agent.pending[watch.head % agent.pending.size])
    return max(agent.copies[place].due, agent.ends[(watch.reads - watch.window) % WINDOW])


@routine
def grant_device(host, agent, memory, asks, master, now):
    """A read, write, write-back or upgrade of a device whose bytes are in ``memory``."""
    ask = asks[master]
    block = ask.address >> host.config[0].l2_shift
    home = np.int64(agent.home[block])
    if ask.kind == UPGRADE:
        return _grant_upgrade(host, agent, ask, home, now)
    if ask.kind == WRITE_BACK:
        return _grant_write_back(host, agent, home, now)
    if home != EMPTY and agent.copies[home].state == MODIFIED:
        # The interface's own copy reaches memory before a device uses the block.
        return AGAIN, _write_back_copy(host, agent, home, now)
    if ask.answer == RETRIED and _must_retry(host, asks, ask, block):
        return AGAIN, _tell_to_retry(host, asks, block, now)
    order(host, DEVICE, ask.kind, now)
    address, count, place, rate = ask.address, ask.count, ask.place, ask.rate
    if ask.kind == READ:
        return MADE, supply(host, address, count, memory, place, now, rate, ask.answer)
    end = absorb(host, address, count, memory, place, now, rate, ask.answer)
    if home != EMPTY:
        agent.copies[home].state = INVALID
        if agent.copies[home].reaction != NEVER:
            ask_for(agent, home, end)
    return MADE, end


@step
def _must_retry(host, asks, ask, block):
    """Whether the cache has modified the block, of which more is wanted than to replace it."""
    if ask.kind != READ and ask.count == np.int64(1) << host.config[0].l2_shift:
        return False
    if is_dirty(host, block):
        return True
    # ``place`` and ``count`` of the cache's own request: what it wrote back last, and until when.
    return asks[CACHE].place == block and ask.at < asks[CACHE].count


@step
def _tell_to_retry(host, asks, block, now):
    """When the device asks again; meanwhile the cache writes the block back, if it is free to."""
    config = host.config[0]
    order(host, DEVICE, RETRY, now)
    if asks[CACHE].at == FAR and is_dirty(host, block):
        asks[CACHE].at = now
        asks[CACHE].address = block << config.l2_shift
    return now + config.retry_delay * config.bus_cycle


@routine
def grant_cache(host, asks, now):
    """The write-back of a block that a device was told to retry."""
    ask = asks[CACHE]
    block = ask.address >> host.config[0].l2_shift
    if not is_dirty(host, block):
        return VOID, now
    order(host, CPU, WRITE_BACK, now)
    end = data_phase(host, now, np.int64(1) << host.config[0].l2_shift, 0)
    clean(host, find_l2(host, block))
    ask.place = block
    ask.count = end
    return MADE, end


@routine
def _write_back_copy(host, agent, home, now):
    """When the agent's whole block is in memory (ps); it stays, SHARED.

    The interface's engine writes it, also where another device's use of the block makes it do so.
    """
    width = np.int64(1) << host.config[0].l2_shift
    start = agent.copies[home].block * width
    rate = agent.watch[0].writing_mbytes_s
    order(host, DEVICE, WRITE_BACK, now)
    end = absorb(host, start, width, agent.memory, home * width, now, rate, INTERVENED)
    agent.copies[home].state = SHARED
    return end


@step
def _grant_write_back(host, agent, home, now):
    """VOID if the host has taken the block since: what it held is lost, or was read anew."""
    if home == EMPTY or agent.copies[home].state in (INVALID, SHARED):
        return VOID, now
    return MADE, _write_back_copy(host, agent, home, now)


@step
def _grant_upgrade(host, agent, ask, home, now):
    """The block becomes the agent's alone; VOID if it would lack bytes that it does not write."""
    copy = agent.copies[home]
    width = np.int64(1) << host.config[0].l2_shift
    if copy.state == INVALID and ask.count < width:
        return VOID, now
    order(host, DEVICE, UPGRADE, now)
    line = find_l2(host, ask.address >> host.config[0].l2_shift)
    if line != EMPTY:
        discard(host, line)
    copy.state = MODIFIED
    copy.arrived = now
    return MADE, now
