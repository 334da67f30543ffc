"""The five calls of every way, by the way that a design names."""

from __future__ import annotations

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ways import cni, dma, edt, pio
from nicscope.nic.ways.state import (
    CNI,
    COLLECT,
    DELIVER,
    DMA,
    EDT,
    FETCH,
    FINISHED,
    PIO_COMBINED,
    PUBLISH,
)


@routine
def take_step(ways, n, master):
    """The next step of the move of ``master``: what it needs now."""
    m = ways.moves[n, master]
    if m.count == 0:
        return FINISHED
    if m.call == PUBLISH:
        return _publish(ways, n, m)
    if m.call == FETCH:
        return _fetch(ways, n, m)
    if m.call == DELIVER:
        return _deliver(ways, n, m)
    if m.call == COLLECT:
        return _collect(ways, n, m)
    return dma.report(ways, n, m, master)


@step
def _publish(ways, n, m):
    if m.way <= PIO_COMBINED:
        return pio.publish(ways, n, m)
    return cni.publish(ways, n, m) if m.way == CNI else dma.publish(ways, n, m)


@step
def _fetch(ways, n, m):
    if m.way == CNI:
        return cni.fetch(ways, n, m)
    if m.way == EDT:
        return edt.fetch(ways, n, m)
    return FINISHED if m.way < DMA else dma.fetch(ways, n, m)


@step
def _deliver(ways, n, m):
    if m.way == CNI:
        return cni.deliver(ways, n, m)
    if m.way == EDT:
        return edt.deliver(ways, n, m)
    return FINISHED if m.way < DMA else dma.deliver(ways, n, m)


@step
def _collect(ways, n, m):
    if m.way <= PIO_COMBINED:
        return pio.collect(ways, n, m)
    return cni.collect(ways, n, m) if m.way == CNI else FINISHED
