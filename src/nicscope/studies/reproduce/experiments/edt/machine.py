"""EDT on its machine: bus transactions, the processor against DMA, and memory on the NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.bus.alone import BusAlone, asked
from nicscope.drivers.simulate.bus.state import machine_parameters, unfitted
from nicscope.drivers.simulate.machine import ACCESS, COMPUTE
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.interfaces.via import Cluster
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import CPU, DEVICE, READ, UPGRADE
from nicscope.memory.coherence.processor import STORE
from nicscope.nic.coherent import Mechanism
from nicscope.studies.reproduce.experiments.edt.latencies import SIZES, latency, listed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.interfaces.via.cluster import Host
    from nicscope.studies.reproduce.verdict import Item, Outcome

BLOCK = 128
WORD = 4  # bytes
WORDS = BLOCK // WORD
MOST_BLOCKS = 64
BUFFER = 1 << 13  # where the host's memory has it, in pages that a NIC may keep
LONG = 1_000_000  # ps; longer than a block takes to reach the NIC
PASSES = 4


def bus_transactions(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - all are given it
    """Section 5: bus transactions of EDT and of coherent queues, counted.

    Count on a warm machine; a number that is not the same everywhere is shown as its mean.
    """
    bus = _warm()
    best, worst = [], []
    for blocks in range(1, MOST_BLOCKS + 1):
        for words in range(2, WORDS + 1):
            best.append(_count(bus, _in_order(blocks, words), blocks) / blocks)
            worst.append(_count(bus, _by_strides(blocks, words), blocks) / (blocks * words))
    outcome.point("edt_best", "transactions/block", _agreed(best))
    outcome.point("edt_worst", "transactions/word", _agreed(worst))
    per_block, extra = _queue()
    outcome.point("cni_best", "transactions/block", per_block)
    outcome.point("cni_extra", "invalidations/pass", extra)


def _agreed(counts: Iterable[float]) -> float:
    """The one number of all, or else their mean, which then is not whole."""
    return float(np.mean(list(counts)))


def _warm() -> BusAlone:
    """A registered region of which host and NIC both have every block."""
    bus = BusAlone()
    bus.register(BUFFER, MOST_BLOCKS * BLOCK)
    _count(bus, _in_order(MOST_BLOCKS, WORDS), MOST_BLOCKS)
    return bus


def _in_order(blocks: int, words: int) -> NDArray[Any]:
    """Stores of so many words of each block, block after block."""
    return asked(ACCESS, STORE, BUFFER + BLOCK * np.arange(blocks), words * WORD)


def _by_strides(blocks: int, words: int) -> NDArray[Any]:
    """The first word of every block, then the second of every block, a long pause after each."""
    places = BLOCK * np.arange(blocks) + WORD * np.arange(words)[:, None]
    rows = np.repeat(asked(ACCESS, STORE, BUFFER + places.ravel(), WORD), 2)
    rows[1::2] = asked(COMPUTE, duration=LONG)
    return rows


def _count(bus: BusAlone, stores: NDArray[Any], blocks: int) -> int:
    """Transactions of a message written so and fetched, a long time after the one before."""
    bus.pause(LONG)
    before = bus.transactions()
    bus.do(stores)
    bus.fetch(Mechanism.EDT, BUFFER, blocks * BLOCK, 0)
    return bus.transactions() - before


def _queue() -> tuple[float, float]:
    """Transactions per block, pointers aside, and invalidations per pass beside the blocks'."""
    bus = BusAlone()
    entries = int(bus.bus.ways.nics.config[0, 0]["queue_blocks"])
    for _ in range(3 * entries):
        _send_entry(bus)
    before = bus.counts().copy()
    for _ in range(PASSES * entries):
        _send_entry(bus)
    counts = bus.counts() - before
    blocks = PASSES * entries
    extra = int(counts[:, UPGRADE].sum()) - blocks
    return (int(counts[CPU, UPGRADE]) + int(counts[DEVICE, READ])) / blocks, extra / PASSES


def _send_entry(bus: BusAlone) -> None:
    """A message that fills one entry, written and taken."""
    count = BLOCK - WORD
    bus.publish(Mechanism.CNI, BUFFER, count, 0)
    bus.fetch(Mechanism.CNI, BUFFER, count, 0)


STEP = 8  # bytes
MOST = 4096
PLATFORM = "sonic-via"
ON_IO_BUS = "p6-pci"
PLATFORM_OF_PROGRAMS = "sonic-via-utlb"  # the same machine, with links


def crossover(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - every experiment is given its item
    """Up to which size the processor moves a message to the NIC faster than DMA.

    The machines on which the cited sizes were measured snoop DMA, so it is DMA with intervention
    here.

    Time the way from host memory to NIC memory, no messaging around it.
    """
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
    both = ("cni", "pio")
    pairs = [tuple(latency(name, size).until_seen() for name in both) for size in SIZES]
    shares = [100 * (1 - queue / words) for queue, words in pairs]
    outcome.shape(
        "queues-beat-uncached",
        all(queue < words for queue, words in pairs),
        f"lower by {listed(shares)} % at {listed(list(SIZES))} B",
    )
    outcome.point("gain_of_coherent_queues", "%", min(shares), end="low")
    outcome.point("gain_of_coherent_queues", "%", max(shares), end="high")
    there = _crossover(Mechanism.PIO_COMBINED, ON_IO_BUS)
    outcome.point("crossover_on_io_bus", "bytes", there)


def _crossover(mechanism: Mechanism, platform: str = PLATFORM) -> int:
    """The largest multiple of 8 bytes up to which DMA is not faster."""
    size, dma = STEP, Mechanism.DMA_INTERVENTION
    while size <= MOST and moved(mechanism, size, platform) <= moved(dma, size, platform):
        size += STEP
    return size - STEP


def moved(mechanism: Mechanism, byte_count: int, platform: str = PLATFORM) -> int:
    """Picoseconds to move a message, just written, to the NIC's memory."""
    host, nic = machine_parameters(load_platform(platform))
    bus = BusAlone(host, nic)
    began = bus.store(BUFFER, bytes(byte_count))
    bus.publish(mechanism, BUFFER, byte_count, 0)
    return bus.fetch(mechanism, BUFFER, byte_count, 0) - began


ROOM = 1 << 23  # bytes of host memory
TABLES = PortSize(segments=8, receives=64, regions=1200, entries=256, longest=8, connections=4)


def ni_memory(outcome: Outcome, item: Item) -> None:
    """How many regions of 4 KB can be registered with 4 MB on the NIC, and what happens then.

    Register until the NIC has no room, then send from the region that has none.
    """
    size = item.printed["buffer_kbytes"] << 10
    memory = item.printed["ni_memory_mbytes"] << 20
    cluster = Cluster(
        PLATFORM_OF_PROGRAMS,
        "edt",
        size=TABLES,
        settings={
            "memory_bytes": ROOM,
            "nic_memory_bytes": memory,
            "staging_bytes": unfitted().nic["staging_bytes"],  # of the paper's machine
            "max_transfer": 1 << 14,  # of which that has to stage two
            "pinned_bytes_max": ROOM,
        },
    )
    held, by_engine, intact = _fill(cluster, size)
    outcome.point("registrations", "regions", held)
    outcome.shape(
        "then-it-falls-back",
        by_engine and intact,
        f"registration {held + 1:,} falls back; {size:,} bytes from such a region arrive by DMA",
    )


def _fill(cluster: Cluster, size: int) -> tuple[int, bool, bool]:
    """Regions that found room, and whether the engine moved the next, and its bytes arrived."""
    sent = bytes(i % 251 for i in range(size))

    def seen(name: str) -> int:
        """What the sender's interface has counted."""
        assert cluster.simulation is not None
        bus = cluster.simulation.machine.bus
        if name == "transfers":
            return int(bus.timing[0, ENGINE_OUT][name])
        return int(bus.ways.nics.registers[0, 0][name])

    async def send(host: Host) -> tuple[int, bool]:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        places = await nic.descriptors(tag, 8)
        region = await nic.register_mem(nic.allocate(size), tag)
        while not seen("fallbacks"):
            region = await nic.register_mem(nic.allocate(size), tag)
        held = seen("registrations")  # the descriptors' is one of them
        await nic.connect_request(vi, 1, "full")
        await nic.write(region.address, sent)
        before = seen("transfers")
        await nic.post_send(vi, places.request(region.segment()))
        await nic.send_wait(vi)
        return held, seen("transfers") - before >= size // BLOCK

    async def receive(host: Host) -> bool:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        places = await nic.descriptors(tag, 8)
        region = await nic.register_mem(nic.allocate(size), tag)
        await nic.post_recv(vi, places.request(region.segment()))
        await nic.connect_accept(await nic.connect_wait("full"), vi)
        await nic.recv_wait(vi)
        return await nic.read(region.address, size) == sent

    cluster.start(0, send)
    cluster.start(1, receive)
    filled, intact = cluster.run()
    assert isinstance(filled, tuple)
    held, by_engine = filled
    return held, by_engine, bool(intact)
