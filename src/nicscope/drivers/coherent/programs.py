"""A program's loads, stores and doorbell, and EDT's registrations, as kernels of their own."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import charge, node_of
from nicscope.drivers.coherent.registration import deregister_region, register_region
from nicscope.drivers.coherent.words import load_words, store_words
from nicscope.kernel.decorators import kernel
from nicscope.memory.coherence.uncached import WIDEST, drain, uncached_write
from nicscope.memory.coherence.watcher import give_way
from nicscope.nic.coherent.layout import Component


@kernel
def host_write(machine, n, mechanism, address, payload, count, now):  # noqa: ARG001
    """When the program has stored the first ``count`` bytes of ``payload`` at ``address``."""
    node = node_of(machine, n)
    end = store_words(node.host, node.agent, address, payload, np.int64(0), count, now)
    return charge(node, Component.USER_WRITE, now, end)


@kernel
def host_read(machine, n, mechanism, address, payload, count, now):  # noqa: ARG001
    """When the program has the ``count`` bytes at ``address`` in ``payload``."""
    node = node_of(machine, n)
    end = load_words(node.host, node.agent, address, payload, np.int64(0), count, now)
    return charge(node, Component.USER_READ, now, end)


@kernel
def doorbell(machine, n, token, now):
    """When ``token`` is in the NIC's doorbell register; combining buffers leave before it."""
    node = node_of(machine, n)
    scratch = node.nic.scratch
    give_way(node.host, node.agent, now)
    end = drain(node.host, node.agent.memory, now)
    give_way(node.host, node.agent, end)
    for i in range(WIDEST):
        scratch[i] = (token >> (8 * i)) & 255
    # The register is no part of NIC memory: what the uncached write carries is put into it here.
    end = uncached_write(
        node.host, scratch, 0, min(WIDEST, node.nic.config[0].doorbell_bytes), scratch, 0, end
    )
    node.nic.registers[0].token = token
    node.nic.registers[0].doorbells += 1
    return charge(node, Component.DOORBELL, now, end)


@kernel
def register(machine, n, address, count, now):
    """What became of registering the range for EDT (``registration``), and when."""
    return register_region(node_of(machine, n), address, count, now)


@kernel
def deregister(machine, n, address, count, now):
    """What became of the end of that registration, and when."""
    return deregister_region(node_of(machine, n), address, count, now)
