"""EDT's latencies and gains, bus transactions, the processor against DMA, and memory on the NIC."""

from __future__ import annotations

import functools
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.bus.bus_harness import BusAlone, asked
from nicscope.drivers.simulate.bus.state import machine_parameters, unfitted
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.drivers.simulate.records import ACCESS, COMPUTE
from nicscope.interfaces.via import Cluster
from nicscope.memory.coherence.bus import ENGINE_OUT
from nicscope.memory.coherence.layout import CPU, DEVICE, READ, UPGRADE
from nicscope.memory.coherence.processor import STORE
from nicscope.nic.coherent import Mechanism
from nicscope.studies.latency import PLATFORM, Latency, Part, ask, measure
from nicscope.studies.reproduce.verdict import Item, Outcome, rising

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from nicscope.interfaces.via.cluster import Host

EDT, INTERVENTION, RETRY = MEASURED = ("edt", "cc-dma-intervention", "cc-dma-retry")
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)  # bytes; the plotted ones are not stated
BELOW_THE_MTU = SIZES[:5]
MTU = 1500
PEAK = 1600  # MB/s


@functools.cache
def latency(
    mechanism: str, byte_count: int, dma_rate: int = PEAK, changes: tuple[str, ...] = ()
) -> Latency:
    """Of that mechanism and size on the platform of the paper, with ``changes`` of its settings."""
    question = ask(
        mechanisms=mechanism, sizes=str(byte_count), dma_rate=dma_rate, overrides=changes
    )
    return measure(question).latencies[0]


def gain(
    byte_count: int,
    dma_rate: int = PEAK,
    changes: tuple[str, ...] = (),
    *,
    over: str = INTERVENTION,
) -> float:
    """Percent by which EDT's latency is below that of another; the receiver's loads are in none."""
    edt, other = (latency(name, byte_count, dma_rate, changes) for name in (EDT, over))
    return 100 * (1 - edt.until_seen() / other.until_seen())


def same(counts: Iterable[float], within: float = 0.01) -> bool:
    """Whether no two differ by more than that share of the larger."""
    least, *_, most = sorted(counts)
    return most - least <= within * most


def listed(counts: Iterable[float], digits: int = 0) -> str:
    """Numbers in a line of evidence."""
    return ", ".join(f"{count:,.{digits}f}" for count in counts)


def figure8(outcome: Outcome, item: Item) -> None:
    """Figure 8: latency of three mechanisms from 64 to 4096 bytes, and what EDT gains.

    Play ping-pong at every size and look at the parts.
    """
    outcome.measure(
        item,
        gain=gain,
        gain_over_both=lambda size: max(gain(size, over=one) for one in (INTERVENTION, RETRY)),
    )
    gains = [gain(size) for size in SIZES]
    outcome.shape("gain-grows", rising(gains), f"{listed(gains, 1)} % at {listed(SIZES)} B")
    by_size = {size: {name: latency(name, size) for name in MEASURED} for size in SIZES}
    runs = {size: one.values() for size, one in by_size.items()}
    seen = {size: [one.until_seen() for one in each] for size, each in runs.items()}
    written = {size: [one.user_data() for one in each] for size, each in runs.items()}
    moved = {size: [one.transport() for one in each] for size, each in runs.items()}
    outcome.shape(
        "order",
        all(map(rising, seen.values())),
        "; ".join(f"cycles at {size} B: {listed(seen[size])}" for size in (64, 4096)),
    )
    by_edt = [counts[0] for counts in written.values()]
    outcome.shape(
        "user-data-equal",
        all(map(same, written.values())) and rising(by_edt),
        f"cycles of EDT: {listed(by_edt)}",
    )
    outcome.shape(
        "transport-equal",
        all(map(same, moved.values())),
        f"cycles at 4096 B: {listed(moved[4096])}",
    )
    steps = [latency(EDT, size).transport() for size in (64, MTU, MTU + 1, 2 * MTU, 2 * MTU + 1)]
    outcome.shape(
        "transport-steps-at-the-mtu",
        steps[0] == steps[1] < steps[2] == steps[3] < steps[4],
        f"cycles at 64, 1500, 1501, 3000, 3001 B: {listed(steps)}",
    )
    blocks = [one[EDT].cycles(Part.COHERENCE) for one in by_size.values()]
    whole = [one[EDT].data_transfer() for one in by_size.values()]
    outcome.shape(
        "edt-transfers-by-write-back",
        all(map(same, zip(blocks, whole, strict=True))),
        f"cycles of write-back and of all Data Transfer at 4096 B: {blocks[-1]:,.0f}, "
        f"{whole[-1]:,.0f}",
    )


ENGINE = (Part.DMA_INIT, Part.DMA_EXEC, Part.DMA_INTERRUPT)
CONSTANT = (Part.DMA_INIT, Part.DMA_INTERRUPT, Part.SEND, Part.RECEIVE)


def figure9(outcome: Outcome, item: Item) -> None:
    """Figure 9: what a message of 256 bytes spends its latency on.

    Take one latency of each mechanism apart.
    """
    size = item.printed["message_bytes"]
    pies = {name: latency(name, size) for name in MEASURED}
    slices = {
        name: [
            f"{part.name.lower().replace('_', ' ')} {100 * pie.cycles(part) / pie.cycles():.0f} %"
            for part in Part
            if pie.cycles(part)
        ]
        for name, pie in pies.items()
    }
    outcome.shape(
        "parts-add-up",
        all(sum(pie.parts_ps.values()) == pie.total_ps for pie in pies.values()),
        "; ".join(f"{name} {', '.join(each)}" for name, each in slices.items()),
    )
    fixed = all(
        len({latency(name, one).cycles(part) for one in BELOW_THE_MTU}) == 1
        for name, part in product((INTERVENTION, RETRY), CONSTANT)
    )
    grows = {
        name: [latency(name, one).cycles(Part.DMA_EXEC) for one in BELOW_THE_MTU]
        for name in (INTERVENTION, RETRY)
    }
    constant = sum(pies[INTERVENTION].cycles(part) for part in CONSTANT)
    outcome.shape(
        "only-exec-grows",
        fixed and all(map(rising, grows.values())),
        f"64 to 1024 B with intervention: {constant:,.0f} cycles stay, DMA Exec goes from "
        f"{grows[INTERVENTION][0]:,.0f} to {grows[INTERVENTION][-1]:,.0f}",
    )
    retry, intervention = (pies[name].cycles(Part.DMA_EXEC) for name in (RETRY, INTERVENTION))
    outcome.shape(
        "exec-larger-with-retry",
        retry > intervention,
        f"cycles: {retry:,.0f} with retry, {intervention:,.0f} with intervention",
    )
    by_edt = pies[EDT].cycles(*ENGINE)
    outcome.shape("edt-has-no-dma", by_edt == 0, f"cycles of EDT in the DMA engine: {by_edt:.0f}")


def fitted_bursts(rate: int) -> tuple[str, ...]:
    """Another master has what DMA at ``rate`` leaves of the bus, in bursts of the fitted length."""
    return bursts(rate, load_platform(PLATFORM).machine["background_bytes"].value)


def bursts(rate: int, byte_count: int | float) -> tuple[str, ...]:
    """The same in bursts of ``byte_count``."""
    return (f"background_percent={100 - 100 * rate // PEAK}", f"background_bytes={byte_count}")


def contention(outcome: Outcome, item: Item) -> None:
    """The gain of EDT where another master's bursts are why DMA is slower.

    Give the rest of the bus to a background master, in bursts of a page and of the fitted length.
    """
    small, large = item.printed["message_bytes"]
    page = unfitted().host["background_bytes"]
    outcome.measure(
        item,
        low_end_page=lambda rate: gain(small, rate, bursts(rate, page)),
        high_end_page=lambda rate: gain(large, rate, bursts(rate, page)),
        low_end_fitted_at_1200=lambda: gain(small, 1200, fitted_bursts(1200)),
        low_end_fitted_at_800=lambda: gain(small, 800, fitted_bursts(800)),
        high_end_fitted=lambda rate: gain(large, rate, fitted_bursts(rate)),
    )


def dma_rate(outcome: Outcome, item: Item) -> None:
    """The gain of EDT with DMA at 75 and 50 % of its peak rate.

    Repeat Figure 8 at lower rates; nothing is fitted here.
    """
    rates = item.printed["dma_mbytes_s"]
    gains = {rate: [gain(size, rate) for size in SIZES] for rate in rates}
    outcome.measure(
        item, high_end=lambda rate: max(gains[rate]), low_end=lambda rate: min(gains[rate])
    )
    by_size = [*zip(*gains.values(), strict=True)]
    outcome.shape(
        "slower-dma-larger-gain",
        all(map(rising, by_size)),
        f"at 1600, 1200, 800 MB/s: {listed(by_size[0], 2)} % at 64 B, "
        f"{listed(by_size[-1], 2)} % at 4096 B",
    )
    # Let x be T_intervention / T_EDT: what slower DMA must add, in latencies of EDT, and in cycles.
    lows = [1 / (1 - percent / 100) for percent in item.printed["gain_percent_low"]]
    asked = (lows[-1] - lows[0]) * latency(EDT, 64).cycles()
    # Descriptor and message out, message in: 48 + 64 + 64 bytes, at 1/800 - 1/1600 us each.
    given = (48 + 64 + 64) * (1000 / 800 - 1000 / 1600)
    outcome.shape(
        "low-end-moves-too-far",
        given < asked / 4,
        f"printed: {asked:,.0f} cycles more at 800 MB/s; 176 bytes at half the rate: {given:,.0f}",
    )


BLOCK = 128
WORD = 4  # bytes
WORDS = BLOCK // WORD
MOST_BLOCKS = 64
BUFFER = 1 << 13  # where the host's memory has it, in pages that a NIC may keep
LONG = 1_000_000  # ps; longer than a block takes to reach the NIC
PASSES = 4


def bus_transactions(outcome: Outcome, item: Item) -> None:
    """Section 5: bus transactions of EDT and of coherent queues, counted.

    Count on a warm machine; a number that is not the same everywhere is shown as its mean, which
    then is not whole.
    """
    bus = BusAlone()
    bus.register(BUFFER, MOST_BLOCKS * BLOCK)
    # From here on host and NIC both have every block.
    _count(bus, _in_order(MOST_BLOCKS, WORDS), MOST_BLOCKS)
    best, worst = [], []
    for blocks, words in product(range(1, MOST_BLOCKS + 1), range(2, WORDS + 1)):
        best.append(_count(bus, _in_order(blocks, words), blocks) / blocks)
        # The first word of every block, then the second of each, a long pause after each store.
        places = BLOCK * np.arange(blocks) + WORD * np.arange(words)[:, None]
        stores = np.repeat(asked(ACCESS, STORE, BUFFER + places.ravel(), WORD), 2)
        stores[1::2] = asked(COMPUTE, duration=LONG)
        worst.append(_count(bus, stores, blocks) / (blocks * words))
    per_block, extra = _queue()
    outcome.measure(
        item,
        edt_best=float(np.mean(best)),
        edt_worst=float(np.mean(worst)),
        cni_best=per_block,
        cni_extra=extra,
    )


def _in_order(blocks: int, words: int) -> NDArray[Any]:
    """Stores of so many words of each block, block after block."""
    return asked(ACCESS, STORE, BUFFER + BLOCK * np.arange(blocks), words * WORD)


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
    counts = []
    for passes in (3, PASSES):
        for _ in range(passes * entries):
            # A message that fills one entry, written and taken.
            bus.publish(Mechanism.CNI, BUFFER, BLOCK - WORD, 0)
            bus.fetch(Mechanism.CNI, BUFFER, BLOCK - WORD, 0)
        counts.append(bus.counts().copy())
    found, blocks = counts[1] - counts[0], PASSES * entries
    extra = int(found[:, UPGRADE].sum()) - blocks
    return (int(found[CPU, UPGRADE]) + int(found[DEVICE, READ])) / blocks, extra / PASSES


STEP = 8  # bytes
MOST = 4096


def crossover(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - what is printed is of other machines
    """Up to which size the processor moves a message to the NIC faster than DMA.

    DMA is that with intervention, as the machines of the cited sizes snoop it.

    Time the way from host memory to NIC memory, no messaging around it.
    """
    uncached, combined = map(_crossover, (Mechanism.PIO, Mechanism.PIO_COMBINED))
    pairs = [[latency(name, size).until_seen() for name in ("cni", "pio")] for size in SIZES]
    shares = [100 * (1 - queue / words) for queue, words in pairs]
    outcome.shape(
        "write-combining-reaches-further",
        combined >= 4 * uncached,
        f"{uncached} bytes uncached, {combined} with write combining",
    )
    outcome.shape(
        "queues-beat-uncached",
        all(map(rising, pairs)),
        f"lower by {listed(shares)} % at {listed(SIZES)} B",
    )


def _crossover(mechanism: Mechanism) -> int:
    """The largest multiple of 8 bytes up to which DMA is not faster."""
    host, nic = machine_parameters(load_platform(PLATFORM))

    def moved(mechanism: Mechanism, byte_count: int) -> int:
        """Picoseconds to move a message, just written, to the NIC's memory."""
        bus = BusAlone(host, nic)
        began = bus.store(BUFFER, bytes(byte_count))
        bus.publish(mechanism, BUFFER, byte_count, 0)
        return bus.fetch(mechanism, BUFFER, byte_count, 0) - began

    size, dma = STEP, Mechanism.DMA_INTERVENTION
    while size <= MOST and moved(mechanism, size) <= moved(dma, size):
        size += STEP
    return size - STEP


PLATFORM_OF_PROGRAMS = "sonic-via-utlb"  # the same machine, with links
ROOM = 1 << 23  # bytes of host memory
TABLES = PortSize(segments=8, receives=64, regions=1200, entries=256, longest=8, connections=4)


def ni_memory(outcome: Outcome, item: Item) -> None:
    """How many regions of 4 KB can be registered with 4 MB on the NIC, and what happens then.

    Register until the NIC has no room, then send from the region that has none.
    """
    size = item.printed["buffer_kbytes"] << 10
    sent = bytes(i % 251 for i in range(size))
    cluster = Cluster(
        PLATFORM_OF_PROGRAMS,
        "edt",
        size=TABLES,
        settings={
            "memory_bytes": ROOM,
            "nic_memory_bytes": item.printed["ni_memory_mbytes"] << 20,
            "staging_bytes": unfitted().nic["staging_bytes"],  # of the paper's machine
            "max_transfer": 1 << 14,  # of which that has to stage two
            "pinned_bytes_max": ROOM,
        },
    )

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
    outcome.measure(item, registrations=held)
    outcome.shape(
        "then-it-falls-back",
        by_engine and bool(intact),
        f"registration {held + 1:,} falls back; {size:,} bytes from such a region arrive by DMA",
    )
