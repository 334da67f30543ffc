"""The DMA engine between host and NIC memory: set-up, blocks over the bus, interrupt."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import charge
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.cpu import flush_block
from nicscope.memory.coherence.device import device_read, device_write
from nicscope.memory.coherence.layout import EMPTY, INVALID, MODIFIED, WRITE
from nicscope.memory.coherence.watched import agent_write_back
from nicscope.memory.coherence.watcher import NEVER, ask_for, give_way
from nicscope.nic.coherent.layout import WINDOW, Component


@step
def next_slot(node, now):
    """When the engine may ask for its next block: so many may be under way."""
    registers = node.nic.registers[0]
    return max(now, node.nic.ends[(registers.transfers - node.nic.config[0].dma_window) % WINDOW])


@step
def take_slot(node, end):
    """A block of the engine's will have crossed at ``end``."""
    registers = node.nic.registers[0]
    node.nic.ends[registers.transfers % WINDOW] = end
    registers.transfers += 1


@step
def block_part(node, address, left):
    """Bytes from ``address`` to the end of its block, at most ``left``."""
    block = node.nic.config[0].block
    return min(block - (address & (block - 1)), left)


@routine
def dma_from_host(node, answer, address, count, place, now):
    """When ``count`` bytes at the host's ``address`` are in NIC memory at ``place`` (ps)."""
    config = node.nic.config[0]
    now = charge(node, Component.DMA_INIT, now, now + config.dma_init)
    done = 0
    end = now
    while done < count:
        size = block_part(node, address + done, count - done)
        asks = next_slot(node, now)
        asks = _own_copy_to_host(node, address + done, asks)
        memory = node.agent.memory
        end = device_read(
            node.host, address + done, size, memory, place + done, asks, config.dma_mbytes_s, answer
        )
        take_slot(node, end)
        done += size
    charge(node, Component.DMA_EXEC, now, end)
    return charge(node, Component.DMA_INTERRUPT, end, end + config.dma_interrupt)


@routine
def dma_to_host(node, answer, address, count, place, now):
    """When ``count`` bytes of NIC memory at ``place`` are at the host's ``address`` (ps)."""
    config = node.nic.config[0]
    now = charge(node, Component.DMA_INIT, now, now + config.dma_init)
    done = 0
    end = now
    while done < count:
        size = block_part(node, address + done, count - done)
        asks = next_slot(node, now)
        asks = _own_copy_to_host(node, address + done, asks)
        end = device_write(
            node.host,
            address + done,
            size,
            node.agent.memory,
            place + done,
            asks,
            config.dma_mbytes_s,
            answer,
            WRITE,
        )
        _own_copy_is_old(node, address + done, end)
        take_slot(node, end)
        done += size
    charge(node, Component.DMA_EXEC, now, end)
    return charge(node, Component.DMA_INTERRUPT, end, end + config.dma_interrupt)


@step
def _own_copy_to_host(node, address, asks):
    """When the engine may ask for a block: the NIC's own modified copy reaches memory before.

    Reads of the agent that asked earlier go first.
    """
    give_way(node.host, node.agent, asks)
    block = address >> node.host.config[0].l2_shift
    home = np.int64(node.agent.home[block])
    if home != EMPTY and node.agent.copies[home].state == MODIFIED:
        rate = node.nic.config[0].dma_mbytes_s
        asks = agent_write_back(node.host, node.agent, home, asks, rate)
        give_way(node.host, node.agent, asks)
    return asks


@step
def _own_copy_is_old(node, address, when):
    """The NIC's engine has changed a block in memory of which the NIC keeps a copy."""
    home = np.int64(node.agent.home[address >> node.host.config[0].l2_shift])
    if home != EMPTY:
        node.agent.copies[home].state = INVALID
        if node.agent.copies[home].reaction != NEVER:
            ask_for(node.agent, home, when)


@routine
def flush_range(node, address, count, now):
    """When the CPU has flushed every block of the range from its caches (ps)."""
    shift = node.host.config[0].l2_shift
    end = now
    for block in range(address >> shift, (address + count - 1 >> shift) + 1):
        end = flush_block(node.host, block, end)
    return charge(node, Component.FLUSH, now, end)
