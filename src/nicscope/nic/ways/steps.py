"""The five calls of every way, by the way that a design names."""

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ways import cni, dma, edt, pio, state


@routine
def take_step(ways, n, master):
    """The next step of the move of ``master``: what it needs now."""
    m = ways.moves[n, master]
    if m.count == 0:
        return state.FINISHED
    if m.call == state.PUBLISH:
        return _publish(ways, n, m)
    if m.call == state.FETCH:
        return _fetch(ways, n, m)
    if m.call == state.DELIVER:
        return _deliver(ways, n, m)
    if m.call == state.COLLECT:
        return _collect(ways, n, m)
    return dma.report(ways, n, m, master)


@step
def _publish(ways, n, m):
    if m.way <= state.PIO_COMBINED:
        return pio.publish(ways, n, m)
    return cni.publish(ways, n, m) if m.way == state.CNI else dma.publish(ways, n, m)


@step
def _fetch(ways, n, m):
    if m.way == state.CNI:
        return cni.fetch(ways, n, m)
    if m.way == state.EDT:
        return edt.fetch(ways, n, m)
    return state.FINISHED if m.way < state.DMA else dma.fetch(ways, n, m)


@step
def _deliver(ways, n, m):
    if m.way == state.CNI:
        return cni.deliver(ways, n, m)
    if m.way == state.EDT:
        return edt.deliver(ways, n, m)
    return state.FINISHED if m.way < state.DMA else dma.deliver(ways, n, m)


@step
def _collect(ways, n, m):
    if m.way <= state.PIO_COMBINED:
        return pio.collect(ways, n, m)
    return cni.collect(ways, n, m) if m.way == state.CNI else state.FINISHED
