"""Each mechanism's steps of a message as kernels of their own, so that a run compiles only its own.

All take the machine, the node's number, the mechanism as an int and the present in ps, and return
when the step is done, in ps, or ``REFUSED``.  ``boundary`` chooses among them.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.eager import eager_deliver, eager_fetch, home_of, is_registered
from nicscope.drivers.coherent.engine import dma_from_host, dma_to_host, flush_range
from nicscope.drivers.coherent.machine import node_of
from nicscope.drivers.coherent.programmed import pio_to_host, pio_to_nic
from nicscope.drivers.coherent.receive_queue import queue_collect, queue_deliver
from nicscope.drivers.coherent.send_queue import queue_fetch, queue_write
from nicscope.kernel.decorators import kernel, step
from nicscope.memory.coherence.device import INTERVENED, RETRIED, UNSNOOPED
from nicscope.nic.coherent.mechanism import Mechanism

UNREGISTERED = -2  # EDT keeps no buffer for the range: DMA with intervention has to serve it


@step
def answer_of(mechanism):
    """How the host's cache meets the DMA engine."""
    if mechanism == Mechanism.DMA:
        return UNSNOOPED
    return RETRIED if mechanism == Mechanism.DMA_RETRY else INTERVENED


@kernel
def pio_publish(machine, n, mechanism, address, count, place, now):
    """When the CPU has moved the bytes to ``place``."""
    combined = mechanism == Mechanism.PIO_COMBINED
    return pio_to_nic(node_of(machine, n), combined, address, count, place, now)


@kernel
def pio_collect(machine, n, mechanism, place, address, count, now):  # noqa: ARG001
    """When the CPU has moved the bytes at ``place`` to ``address``."""
    return pio_to_host(node_of(machine, n), place, address, count, now)


@kernel
def flush(machine, n, mechanism, address, count, now):  # noqa: ARG001
    """When the CPU has no block of the range in its caches."""
    return flush_range(node_of(machine, n), address, count, now)


@kernel
def dma_fetch(machine, n, mechanism, address, count, place, now):
    """When the engine has brought the bytes to ``place``."""
    return dma_from_host(node_of(machine, n), answer_of(mechanism), address, count, place, now)


@kernel
def dma_deliver(machine, n, mechanism, place, address, count, now):
    """When the engine has brought the bytes at ``place`` to the host."""
    return dma_to_host(node_of(machine, n), answer_of(mechanism), address, count, place, now)


@kernel
def cni_publish(machine, n, mechanism, address, count, place, now):  # noqa: ARG001
    """When the CPU has copied the bytes into the send queue; ``REFUSED``: it has no room."""
    return queue_write(node_of(machine, n), address, count, now)


@kernel
def cni_fetch(machine, n, mechanism, address, count, place, now):  # noqa: ARG001
    """When the NIC has the next bytes of the send queue at ``place``."""
    return queue_fetch(node_of(machine, n), count, place, now)


@kernel
def cni_deliver(machine, n, mechanism, place, address, count, now):  # noqa: ARG001
    """When the bytes are in the receive queue; ``REFUSED``: others are in the way."""
    return queue_deliver(node_of(machine, n), place, address, count, now)


@kernel
def cni_collect(machine, n, mechanism, place, address, count, now):  # noqa: ARG001
    """When the CPU has copied the oldest message of the receive queue to ``address``."""
    return queue_collect(node_of(machine, n), address, count, now)


@kernel
def edt_fetch(machine, n, mechanism, address, count, place, now):  # noqa: ARG001
    """When the NIC has every block of the range, or ``UNREGISTERED``."""
    node = node_of(machine, n)
    if not is_registered(node, address, count):
        return np.int64(UNREGISTERED)
    return eager_fetch(node, address, count, now)


@kernel
def edt_deliver(machine, n, mechanism, place, address, count, now):  # noqa: ARG001
    """When the host may read the bytes that arrived at ``place``, or ``UNREGISTERED``."""
    node = node_of(machine, n)
    if not is_registered(node, address, count):
        return np.int64(UNREGISTERED)
    return eager_deliver(node, place, address, count, now)


@kernel
def edt_place(machine, n, address, count, place):
    """Where in NIC memory the range has its buffer; ``place`` if it has none."""
    node = node_of(machine, n)
    return home_of(node, address) if is_registered(node, address, count) else place
