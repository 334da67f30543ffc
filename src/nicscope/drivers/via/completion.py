"""A completion on its way to the host: a few bytes that the NIC writes to host memory.

Every mechanism reports completions alike, by one snooped write on the bus, so that the transport
does not depend on how the data travel.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import node_of
from nicscope.kernel.decorators import kernel
from nicscope.memory.coherence.device import INTERVENED, device_write
from nicscope.memory.coherence.layout import EMPTY, INVALID, WRITE
from nicscope.memory.coherence.lines import copy_bytes
from nicscope.memory.coherence.watcher import give_way


@kernel
def write_completion(handling, n, mechanism, address, count, now):  # noqa: ARG001
    """When ``count`` bytes of the payload, within one block, are in host memory (ps).

    Copies in the host's caches go.  A copy that the NIC keeps of the block gets the bytes as well.
    """
    node = node_of(handling.machine, n)
    payload = handling.payload
    give_way(node.host, node.agent, now)
    end = device_write(node.host, address, count, payload, 0, now, 0, INTERVENED, WRITE)
    shift = node.host.config[0].l2_shift
    home = np.int64(node.agent.home[address >> shift])
    if home != EMPTY and node.agent.copies[home].state != INVALID:
        within = address & ((np.int64(1) << shift) - 1)
        copy_bytes(node.agent.memory, (home << shift) + within, payload, 0, count)
    return end
