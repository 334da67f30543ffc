"""EDT on the NIC's side: waiting for blocks, and both ways to receive."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.engine import block_part, next_slot, take_slot
from nicscope.drivers.coherent.machine import charge
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.layout import EMPTY
from nicscope.memory.coherence.lines import copy_bytes
from nicscope.memory.coherence.watched import agent_write, agent_write_back
from nicscope.memory.coherence.watcher import await_copies, catch_up
from nicscope.nic.coherent.layout import COHERENT_METHOD, VALID, Component


@step
def home_of(node, address):
    """Where in NIC memory the host's byte ``address`` is kept, or ``EMPTY``."""
    shift = node.host.config[0].l2_shift
    home = np.int64(node.agent.home[address >> shift])
    if home == EMPTY:
        return home
    return (home << shift) + (address & ((np.int64(1) << shift) - 1))


@step
def is_registered(node, address, count):
    """Whether the NIC keeps every block of the range, in one buffer."""
    shift = node.host.config[0].l2_shift
    first = address >> shift
    home = np.int64(node.agent.home[first])
    for block in range(first, (address + max(count, 1) - 1 >> shift) + 1):
        if home == EMPTY or node.agent.home[block] != home + (block - first):
            return False
    return True


@routine
def eager_fetch(node, address, count, now):
    """When the NIC has every block of the registered range: it may still wait for some (ps)."""
    if count == 0:
        return now
    shift = node.host.config[0].l2_shift
    first = home_of(node, address) >> shift
    last = (home_of(node, address + count - 1) >> shift) + 1
    end = await_copies(node.host, node.agent, first, last, now)
    return charge(node, Component.EDT_WAIT, now, end)


@routine
def eager_deliver(node, place, address, count, now):
    """When the host may read, at ``address``, the bytes that arrived at ``place`` (ps)."""
    if node.nic.config[0].receive_method == COHERENT_METHOD:
        return _deliver_coherently(node, place, address, count, now)
    end = _put_in_buffer(node, place, address, count, now)
    end = _write_buffer_back(node, address, count, end)
    return charge(node, Component.EDT_WRITE_BACK, now, end)


@step
def _deliver_coherently(node, place, address, count, now):
    """Each block becomes MODIFIED on the NIC, and leaves the host's caches."""
    memory = node.agent.memory
    done = 0
    end = now
    while done < count:
        size = block_part(node, address + done, count - done)
        home = home_of(node, address + done)
        end = agent_write(node.host, node.agent, home, size, memory, place + done, end)
        done += size
    return charge(node, Component.EDT_INVALIDATE, now, end)


@step
def _put_in_buffer(node, place, address, count, now):
    """The network's engine writes the blocks, which become VALID; of parts, the rest is read."""
    shift = node.host.config[0].l2_shift
    done = 0
    while done < count:
        size = block_part(node, address + done, count - done)
        catch_up(node.host, node.agent, now)  # what is VALID need not be read any more
        to = home_of(node, address + done)
        copy = node.agent.copies[to >> shift]
        if size < np.int64(1) << shift:
            now = await_copies(node.host, node.agent, to >> shift, (to >> shift) + 1, now)
        copy_bytes(node.agent.memory, to, node.agent.memory, place + done, size)
        copy.state = VALID
        copy.arrived = now
        done += size
    return now


@step
def _write_buffer_back(node, address, count, now):
    """The cache controller writes VALID blocks to memory; stale copies of the host go."""
    shift = node.host.config[0].l2_shift
    first = home_of(node, address) >> shift
    last = home_of(node, address + count - 1) >> shift
    end = now
    for home in range(first, last + 1):
        asks = next_slot(node, now)
        rate = node.nic.config[0].dma_mbytes_s
        end = agent_write_back(node.host, node.agent, home, asks, rate)
        take_slot(node, end)
    return end
