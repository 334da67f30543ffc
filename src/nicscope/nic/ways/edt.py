"""EDT: the NIC reads registered blocks as they are written, and writes back what has come."""

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.memory.coherence.bus import ENGINE_IN, INTERVENED
from nicscope.memory.coherence.layout import EMPTY, MODIFIED, UPGRADE, WRITE, WRITE_BACK
from nicscope.nic.coherent import COHERENT_METHOD, VALID
from nicscope.nic.ways import dma, state


@step
def own_block(ways, n, m, master, place, count):
    """What is needed before ``count`` bytes at ``place`` may be stored; FINISHED if nothing."""
    block = ways.nics.config[n, 0].block
    home = place // block
    copy = ways.agents.copies[n, home]
    if copy.state == MODIFIED:
        return state.FINISHED
    if count < block:
        needed = state.await_rest(ways, n, m, home)
        if needed != state.FINISHED:
            return needed
    zero = np.int64(0)
    return state.request_bus(ways, n, master, UPGRADE, copy.block * block, count, zero, INTERVENED)


# Stages of a delivery.
_FILLING = 0
_BEGINNING = 1
_WRITING_BACK = 2
_MERGING = 3  # the host has taken the block meanwhile: only the message's bytes are written


@step
def home_of(ways, n, address):
    """Where in NIC memory the host's byte ``address`` is kept, or ``EMPTY``."""
    block = ways.nics.config[n, 0].block
    home = np.int64(ways.agents.home[n, address // block])
    return home if home == EMPTY else home * block + (address & (block - 1))


@step
def is_registered(ways, n, address, count):
    """Whether the NIC keeps every block of the range, in one buffer."""
    block = ways.nics.config[n, 0].block
    first = address // block
    home = np.int64(ways.agents.home[n, first])
    for b in range(first, (address + max(count, 1) - 1) // block + 1):
        if home == EMPTY or ways.agents.home[n, b] != home + (b - first):
            return False
    return True


@routine
def fetch(ways, n, m):
    """The NIC has every block of the range; ``place`` is where its buffer holds them."""
    if m.stage == 0 and not is_registered(ways, n, m.address, m.count):
        m.way = state.INTERVENING  # what is not registered
        return dma.fetch(ways, n, m)
    if m.stage != 0:
        m.done = m.count
        return state.FINISHED
    m.stage = 1
    block = ways.nics.config[n, 0].block
    m.place = home_of(ways, n, m.address)
    return state.await_blocks(m, m.place // block, (m.place + m.count - 1) // block + 1)


@routine
def deliver(ways, n, m):
    """Bytes that arrived at ``place`` are in the NIC's buffer, and the host reads them there."""
    if m.stage == 0 and m.done == 0 and not is_registered(ways, n, m.address, m.count):
        m.way = state.INTERVENING
        return dma.deliver(ways, n, m)
    if ways.nics.config[n, 0].receive_method == COHERENT_METHOD:
        return _deliver_coherently(ways, n, m)
    if m.stage == _FILLING:
        return _fill_buffer(ways, n, m)
    return _write_back_buffer(ways, n, m)


@step
def _deliver_coherently(ways, n, m):
    """Each block becomes MODIFIED on the NIC, and leaves the host's caches."""
    while m.done < m.count:
        address = m.address + m.done
        size = state.block_part(ways, n, address, m.count - m.done)
        home = home_of(ways, n, address)
        needed = own_block(ways, n, m, ENGINE_IN, home, size)
        if needed != state.FINISHED:
            return needed
        copy_bytes(ways.agents.memory[n], home, ways.agents.memory[n], m.place + m.done, size)
        m.done += size
    return state.FINISHED


@step
def _fill_buffer(ways, n, m):
    """The network's engine writes the blocks, which become VALID; of parts, the rest is read."""
    block = ways.nics.config[n, 0].block
    memory = ways.agents.memory[n]
    while m.done < m.count:
        address = m.address + m.done
        size = state.block_part(ways, n, address, m.count - m.done)
        home = home_of(ways, n, address)
        copy = ways.agents.copies[n, home // block]
        if size < block:
            needed = state.await_rest(ways, n, m, home // block)
            if needed != state.FINISHED:
                return needed
        copy_bytes(memory, home, memory, m.place + m.done, size)
        copy.state = VALID
        copy.arrived = 0  # nobody need wait for its bytes
        m.done += size
    m.done = 0
    m.length = 0
    m.window = ways.nics.config[n, 0].dma_window
    m.stage = _BEGINNING
    return _write_back_buffer(ways, n, m)


@step
def _write_back_buffer(ways, n, m):
    """The cache controller writes VALID blocks to memory; stale copies of the host go."""
    block = ways.nics.config[n, 0].block
    taken = m.stage == _WRITING_BACK and m.void != 0
    if not taken:
        m.done += m.length
    m.stage = _WRITING_BACK
    if m.done == m.count:
        return state.FINISHED
    address = m.address + m.done
    m.length = state.block_part(ways, n, address, m.count - m.done)
    home = home_of(ways, n, address)
    zero = np.int64(0)
    if ways.agents.copies[n, home // block].state != VALID:
        m.stage = _MERGING
        place = m.place + m.done
        return state.request_bus(ways, n, ENGINE_IN, WRITE, address, m.length, place, INTERVENED)
    start = address // block * block
    return state.request_bus(ways, n, ENGINE_IN, WRITE_BACK, start, block, zero, INTERVENED)
