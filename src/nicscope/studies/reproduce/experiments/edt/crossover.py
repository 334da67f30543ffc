"""Up to which size the processor moves a message to the NIC faster than DMA.

The machines on which the cited sizes were measured snoop DMA, so it is DMA with intervention here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.platform import load_platform
from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.machine import new_machine
from nicscope.interfaces.via.settings import read_settings
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.studies.reproduce.edt_latencies import SIZES, latency, listed
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

STEP = 8  # bytes
MOST = 4096
PLATFORM = "sonic-via"


def run(item: Item) -> Outcome:  # noqa: ARG001 - every experiment is given its item
    """Time the way from host memory to NIC memory, no messaging around it."""
    outcome = Outcome()
    ends = {
        "uncached": _crossover(Mechanism.PIO),
        "write-combining": _crossover(Mechanism.PIO_COMBINED),
    }
    for kind, size in ends.items():
        outcome.point("crossover", "bytes", size, pio=kind)
    outcome.shape(
        "write-combining-reaches-further",
        ends["write-combining"] >= 4 * ends["uncached"],
        f"{ends['uncached']} bytes uncached, {ends['write-combining']} with write combining",
    )
    pairs = [(latency("cni", size).us, latency("pio", size).us) for size in SIZES]
    shares = [100 * (1 - queue / words) for queue, words in pairs]
    outcome.shape(
        "queues-beat-uncached",
        all(queue < words for queue, words in pairs),
        f"lower by {listed(shares)} % at {listed(list(SIZES))} B",
    )
    return outcome


def _crossover(mechanism: Mechanism) -> int:
    """The largest multiple of 8 bytes up to which DMA is not faster."""
    size = STEP
    while size <= MOST and moved(mechanism, size) <= moved(Mechanism.DMA_INTERVENTION, size):
        size += STEP
    return size - STEP


def moved(mechanism: Mechanism, byte_count: int) -> int:
    """Picoseconds to move a message, just written, to the NIC's memory."""
    settings = read_settings(load_platform(PLATFORM))
    machine = new_machine(1, settings.host, settings.nic)
    node = Boundary(machine, 0, mechanism)
    now = node.write(0, bytes(byte_count), 0)
    end = node.publish(0, byte_count, 0, now)
    return node.fetch(0, byte_count, 0, end) - now
