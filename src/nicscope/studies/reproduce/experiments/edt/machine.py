"""EDT on its machine: bus transactions, the processor against DMA, and memory on the NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.config.platform import load_platform
from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.machine import new_machine
from nicscope.drivers.coherent.patterns import SEQUENTIAL, STRIDED, write_in_order
from nicscope.drivers.coherent.registration import FALLEN_BACK, REGISTERED
from nicscope.interfaces.via import Cluster
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.settings import read_settings
from nicscope.memory.coherence.layout import CPU, DEVICE, INTERVENTION, READ, UPGRADE
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.studies.reproduce.experiments.edt.latencies import SIZES, latency, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nicscope.interfaces.via import Host
    from nicscope.nic.ways.hosts import AtBuses
    from nicscope.studies.reproduce.verdict import Item, Outcome

BLOCK = 128
WORDS = 32  # of 4 bytes in a block
MOST_BLOCKS = 64
LONG = 1_000_000  # ps; longer than a block takes to reach the NIC
PASSES = 4


def bus_transactions(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - all are given it
    """Section 5: bus transactions of EDT and of coherent queues, counted.

    Count on a warm machine; a number that is not the same everywhere is shown as its mean.
    """
    machine, now = _warm()
    best, worst = [], []
    for blocks in range(1, MOST_BLOCKS + 1):
        for words in range(2, WORDS + 1):
            now += LONG
            count, now = _count(machine, SEQUENTIAL, blocks, words, 0, now)
            best.append(count / blocks)
            now += LONG
            count, now = _count(machine, STRIDED, blocks, words, LONG, now)
            worst.append(count / (blocks * words))
    outcome.point("edt_best", "transactions/block", _agreed(best))
    outcome.point("edt_worst", "transactions/word", _agreed(worst))
    per_block, extra = _queue()
    outcome.point("cni_best", "transactions/block", per_block)
    outcome.point("cni_extra", "invalidations/pass", extra)


def _agreed(counts: Iterable[float]) -> float:
    """The one number of all, or else their mean, which then is not whole."""
    return float(np.mean(list(counts)))


def _transactions(machine: AtBuses) -> int:
    counts = machine.hosts.counts[0]
    return int(counts.sum() - counts[:, INTERVENTION].sum())


def _warm() -> tuple[AtBuses, int]:
    """A registered region of which host and NIC both have every block."""
    machine = new_machine(1)
    _, now = Boundary(machine, 0, Mechanism.EDT).register(0, MOST_BLOCKS * BLOCK, 0)
    _, now = _count(machine, SEQUENTIAL, MOST_BLOCKS, WORDS, 0, int(now))
    return machine, now


def _count(
    machine: AtBuses, order: int, blocks: int, words: int, pause: int, now: int
) -> tuple[int, int]:
    """Transactions of a message written in that order and fetched, and when it was."""
    payload = np.arange(blocks * BLOCK, dtype=np.int64).astype(np.uint8)
    machine.hosts.counts[:] = 0
    now = write_in_order(machine, 0, order, (blocks, words), 0, payload, pause, now)
    end = Boundary(machine, 0, Mechanism.EDT).fetch(0, blocks * BLOCK, 0, now)
    return _transactions(machine), end


def _queue() -> tuple[float, float]:
    """Transactions per block, pointers aside, and invalidations per pass beside the blocks'."""
    machine = new_machine(1)
    entries = int(machine.nics.config[0, 0]["queue_blocks"])
    node = Boundary(machine, 0, Mechanism.CNI)
    now = 0
    for _ in range(3 * entries):
        now = _send_entry(node, now)
    machine.hosts.counts[:] = 0
    for _ in range(PASSES * entries):
        now = _send_entry(node, now)
    counts = machine.hosts.counts[0]
    blocks = PASSES * entries
    extra = int(counts[:, UPGRADE].sum()) - blocks
    return (int(counts[CPU, UPGRADE]) + int(counts[DEVICE, READ])) / blocks, extra / PASSES


def _send_entry(node: Boundary, now: int) -> int:
    """A message that fills one entry, written and taken."""
    count = BLOCK - 4
    return node.fetch(0, count, 0, node.publish(0, count, 0, now))


STEP = 8  # bytes
MOST = 4096
PLATFORM = "sonic-via"


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
    pairs = [(latency("cni", size).us, latency("pio", size).us) for size in SIZES]
    shares = [100 * (1 - queue / words) for queue, words in pairs]
    outcome.shape(
        "queues-beat-uncached",
        all(queue < words for queue, words in pairs),
        f"lower by {listed(shares)} % at {listed(list(SIZES))} B",
    )


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


ROOM = 1 << 23  # bytes of host memory
TAGS = 1200


def ni_memory(outcome: Outcome, item: Item) -> None:
    """How many regions of 4 KB can be registered with 4 MB on the NIC, and what happens then.

    Register until the NIC has no room, then send from a region that has none.
    """
    printed = item.printed
    size = printed["buffer_kbytes"] << 10
    memory = printed["ni_memory_mbytes"] << 20
    machine = new_machine(
        1, {"memory_bytes": ROOM}, {"memory_bytes": memory, "pinned_bytes_max": ROOM}, tags=TAGS
    )
    node = Boundary(machine, 0, Mechanism.EDT)
    held, now = 0, 0
    while True:
        found, now = node.register(held * size, size, now)
        if found != REGISTERED:
            break
        held += 1
    outcome.point("registrations", "regions", held)
    transfers, intact = _send_without_room(size)
    outcome.shape(
        "then-it-falls-back",
        found == FALLEN_BACK and transfers and intact,
        f"registration {held + 1:,} falls back; {size:,} bytes from such a region arrive by DMA",
    )


def _send_without_room(size: int) -> tuple[bool, bool]:
    """Whether DMA served a region that found no room on the NIC, and its bytes arrived."""
    sent = bytes(i % 251 for i in range(size))

    async def send(host: Host) -> bool:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        places = await nic.descriptors(tag, 8)
        for _ in range(4):
            region = await nic.register_mem(nic.allocate(size), tag)
        await nic.connect_request(vi, 1, "full")
        await nic.write(region.address, sent)
        descriptor = places.request(region.segment())
        await nic.post_send(vi, descriptor)
        await nic.send_wait(vi)
        return bool(descriptor.journal and descriptor.journal.parts[Part.DMA_EXEC])

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

    cluster = Cluster(mechanism="edt", settings={"pinned_bytes_max": 3 * size})
    cluster.start(0, send)
    cluster.start(1, receive)
    transfers, intact = cluster.run()
    return bool(transfers), bool(intact)
