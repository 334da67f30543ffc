"""PIO: the CPU moves a message between its buffer and NIC memory by uncached accesses."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import charge
from nicscope.drivers.coherent.words import load_words, store_words
from nicscope.kernel.decorators import routine
from nicscope.memory.coherence.uncached import (
    WIDEST,
    combined_write,
    drain,
    uncached_read,
    uncached_write,
)
from nicscope.nic.coherent.layout import Component


@routine
def pio_to_nic(node, combined, address, count, place, now):
    """When the CPU has moved ``count`` bytes at ``address`` to NIC memory at ``place`` (ps).

    Loads are cached; stores go out at up to 8 bytes each, or through combining buffers.
    """
    scratch = node.nic.scratch
    memory = node.agent.memory
    end = now
    done = 0
    while done < count:
        size = min(WIDEST - ((place + done) & (WIDEST - 1)), count - done)
        end = load_words(node.host, node.agent, address + done, scratch, np.int64(0), size, end)
        if combined:
            end = combined_write(node.host, memory, place + done, size, scratch, 0, end)
        else:
            end = uncached_write(node.host, memory, place + done, size, scratch, 0, end)
        done += size
    if combined:
        end = drain(node.host, memory, end)
    return charge(node, Component.PIO_WRITE, now, end)


@routine
def pio_to_host(node, place, address, count, now):
    """When the CPU has moved ``count`` bytes of NIC memory at ``place`` to its buffer (ps)."""
    scratch = node.nic.scratch
    end = now
    done = 0
    while done < count:
        size = min(WIDEST - ((place + done) & (WIDEST - 1)), count - done)
        end = uncached_read(node.host, node.agent.memory, place + done, size, scratch, 0, end)
        end = store_words(node.host, node.agent, address + done, scratch, np.int64(0), size, end)
        done += size
    return charge(node, Component.PIO_READ, now, end)
