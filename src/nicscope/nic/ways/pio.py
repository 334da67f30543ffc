"""PIO: the CPU moves a message between its buffer and NIC memory by uncached accesses."""

from nicscope.kernel.decorators import routine
from nicscope.memory.coherence import processor
from nicscope.nic.ways.state import ACCESS, FINISHED, PIO_COMBINED


@routine
def publish(ways, n, m):
    """The CPU moves the bytes to their place, past the caches or through combining buffers."""
    if m.stage != 0:
        return FINISHED
    m.stage = 1
    kind = processor.TO_DEVICE_COMBINED if m.way == PIO_COMBINED else processor.TO_DEVICE
    processor.begin_access(ways.access[n, 0], kind, m.address, m.place, m.count, processor.SCRATCH)
    return ACCESS


@routine
def collect(ways, n, m):
    """The CPU moves the bytes from their place to the program's buffer."""
    if m.stage != 0:
        return FINISHED
    m.stage = 1
    processor.begin_access(
        ways.access[n, 0], processor.FROM_DEVICE, m.address, m.place, m.count, processor.SCRATCH
    )
    return ACCESS
