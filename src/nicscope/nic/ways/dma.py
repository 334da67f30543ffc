"""DMA, block by block: past the caches, or with one of two answers to a block modified there."""

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.bus import ENGINE_IN, ENGINE_OUT, INTERVENED, RETRIED, UNSNOOPED
from nicscope.memory.coherence.layout import READ, WRITE
from nicscope.memory.coherence.processor import FLUSH, WINDOW, begin_access
from nicscope.nic.ways import state

# Stages of a transfer.
_BEGUN = 0
_MOVING = 1
_MOVED = 2


@step
def answer_of(way):
    """How the host's cache answers the engine under this way."""
    if way == state.DMA:
        return UNSNOOPED
    return RETRIED if way == state.RETRYING else INTERVENED


@routine
def publish(ways, n, m):
    """The CPU flushes the blocks, where the engine sees memory alone."""
    if m.way != state.DMA or m.stage != 0:
        return state.FINISHED
    m.stage = 1
    begin_access(ways.access[n, 0], FLUSH, m.address, m.place, m.count, WINDOW)
    return state.ACCESS


@routine
def fetch(ways, n, m):
    """The engine reads the host's blocks into the NIC's memory."""
    return _transfer(ways, n, m, ENGINE_OUT, READ)


@routine
def deliver(ways, n, m):
    """The engine writes bytes of the NIC's memory to the host's blocks."""
    return _transfer(ways, n, m, ENGINE_IN, WRITE)


@routine
def report(ways, n, m, master):
    """A completion, at most the rest of a block, is written to the host's memory."""
    if m.stage != 0:
        return state.FINISHED
    m.stage = 1
    return state.request_bus(ways, n, master, WRITE, m.address, m.count, m.place, INTERVENED)


@step
def _transfer(ways, n, m, master, kind):
    if m.stage == _BEGUN:
        m.stage = _MOVING
        m.window = ways.nics.config[n, 0].dma_window
        m.pause = state.SET_UP
        return state.PAUSE
    m.done += m.length
    m.length = 0
    if m.stage == _MOVING and m.done < m.count:
        address = m.address + m.done
        m.length = state.block_part(ways, n, address, m.count - m.done)
        place = m.place + m.done
        return state.request_bus(ways, n, master, kind, address, m.length, place, answer_of(m.way))
    if m.stage == _MOVING:
        m.stage = _MOVED
        m.pause = state.INTERRUPT
        return state.PAUSE
    return state.FINISHED
