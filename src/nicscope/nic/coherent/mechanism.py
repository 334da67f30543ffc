"""The ways in which data get from a host's memory to its NIC and back."""

from enum import IntEnum


class Mechanism(IntEnum):
    """In the order of appearance in EDT, 1 and 2."""

    PIO = 0  # the processor moves words, uncached
    PIO_COMBINED = 1  # the same through write-combining buffers
    DMA = 2  # software flushes the cache, the engine sees memory alone
    DMA_RETRY = 3  # the engine retries until dirty blocks are written back
    DMA_INTERVENTION = 4  # the cache supplies dirty blocks
    CNI = 5  # cacheable queues
    EDT = 6  # the NIC reads registered blocks as they are written


NAMES = {
    "pio": Mechanism.PIO,
    "pio-combined": Mechanism.PIO_COMBINED,
    "dma": Mechanism.DMA,
    "cc-dma-retry": Mechanism.DMA_RETRY,
    "cc-dma-intervention": Mechanism.DMA_INTERVENTION,
    "cni": Mechanism.CNI,
    "edt": Mechanism.EDT,
}
