"""What sends, translations ahead and receives of U-Net take, step by step, on running systems.

*Work* is the time of whoever serves endpoints: the NIC's processor, or the host's kernel where
the NIC cannot.  Both are what the simulation has charged; no cost of a platform is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.interfaces.unet import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.unet import Endpoint, Process

PAGE = 4096
SETTLED_US = 2000.0  # longer than anything but the disk takes
READY = 2  # buffers translated ahead, so that a further one is left alone
FULL = 6  # pages that the small table below can hold

# The columns of Table 1: (design, platform).
UNET_PCA200 = ("unet", "pca200-linux")
UNET_LINUX = ("unet", "dc21140-linux")
UNET_NT = ("unet", "dc21140-nt")
MAPPED_PCA200 = ("unet-mm-pca200", "pca200-linux")
MAPPED_NT = ("unet-mm-dc21140", "dc21140-nt")
COLUMNS = {
    "pca200-linux U-Net": UNET_PCA200,
    "pca200-linux U-Net/MM": MAPPED_PCA200,
    "dc21140-linux U-Net": UNET_LINUX,
    "dc21140-nt U-Net": UNET_NT,
    "dc21140-nt U-Net/MM": MAPPED_NT,
}

QUARTER = PAGE // 4  # of a page: buffers in one page are several, and its translation is one


def new_cluster(column: tuple[str, str], *, small: bool = False, **settings: Any) -> Cluster:
    """A cluster of that design and platform; ``small``: with a table that is soon full."""
    design = load_design(column[0])
    if small:
        design = msgspec.structs.replace(design, entries=4, victim_entries=2)
    return Cluster(
        design,
        column[1],
        small_inside=False,
        area_bytes=32 * PAGE if column[0] == "unet" else None,
        size=PortSize(ready=READY),
        host=HostSize(frames=512),
        **settings,
    )


def work(process: Process) -> float:
    """Microseconds that serving endpoints has taken on the node so far."""
    machine = process.cluster.simulation.machine  # type: ignore[union-attr]
    serving = machine.ports.nodes[process.node]
    nic = machine.nodes[process.node]["processor_busy"]
    return float(nic + serving["kernel_time"]) / 1e6


class Spent(msgspec.Struct, frozen=True):
    """One operation: work that it caused, and how long until it had its effect."""

    work_us: float
    elapsed_us: float


async def observe(process: Process, operation: Callable[[], Awaitable[object]]) -> Spent:
    """Do ``operation`` on a node at rest and let everything come to rest again."""
    await process.sleep(SETTLED_US)
    before, begun = work(process), process.now_us
    await operation()
    elapsed = process.now_us - begun
    await process.sleep(SETTLED_US)
    return Spent(work(process) - before, elapsed)


async def touched(endpoint: Endpoint) -> Buffer:
    """A page with a frame."""
    room = endpoint.allocate(PAGE)
    await room.write(b"x")
    return room


async def _fill_table(process: Process, endpoint: Endpoint, tag: Any) -> None:
    for _ in range(FULL):
        await endpoint.send(tag, (await touched(endpoint)).part(0, 100))
        await endpoint.sent()
    await process.sleep(SETTLED_US)


async def _sink(process: Process) -> None:
    await process.open("sink")


def sends(column: tuple[str, str]) -> dict[str, float]:
    """Microseconds of a send of 100 bytes by what happens to its page."""

    async def sender(process: Process) -> dict[str, Spent]:
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")

        async def send(room: Buffer) -> Spent:
            async def operation() -> None:
                await endpoint.send(tag, room.part(0, 100))
                await endpoint.sent()

            return await observe(process, operation)

        room = await touched(endpoint)
        found = {"miss": await send(room), "hit": await send(room)}
        await _fill_table(process, endpoint, tag)
        found["miss with unpin"] = await send(await touched(endpoint))
        if column[0] != "unet":
            absent = await touched(endpoint)
            process.swap_out()
            found["page fault"] = await send(absent)
        return found

    cluster = new_cluster(column, small=column[0] != "unet")
    cluster.start(0, sender)
    cluster.start(1, _sink)
    found: Any = cluster.run()[0]
    times = {case: spent.work_us for case, spent in found.items()}
    if "page fault" in found:
        # The disk works for nobody's time but that of who waits for it.
        late = found["page fault"].elapsed_us - found["hit"].elapsed_us
        times["page fault"] = found["hit"].work_us + late
    return times


def translations_ahead(column: tuple[str, str], cases: Sequence[str]) -> dict[str, float]:
    """Microseconds of translating a buffer of the free queue by what happens to its page.

    Cases are "hit", "miss", "copy on write", "zero map-in" and "page fault"; with " with unpin"
    the table is full.

    Of work that is done for any buffer that is provided, such as a trap, nothing counts: what a
    buffer causes that is left alone is taken off.
    """
    plain = _ahead(column, "plain")
    times = {}
    for case in cases:
        kind, _, unpin = case.partition(" with ")
        spent = _ahead(column, kind, bool(unpin))
        times[case] = spent.work_us - plain.work_us
        if kind == "page fault":
            times[case] = spent.elapsed_us - plain.elapsed_us
    return times


def _ahead(column: tuple[str, str], case: str, unpin: bool = False) -> Spent:
    async def receiver(process: Process) -> Spent:
        endpoint = await process.open("ahead")
        tag = await endpoint.connect(1, "sink")
        room = endpoint.allocate(PAGE) if case == "zero map-in" else await touched(endpoint)
        if case == "copy on write":
            assert process.cluster.memory is not None
            process.cluster.memory.fork(0, 0, 1)
        if case in ("hit", "plain"):
            await endpoint.provide(room.part(QUARTER, QUARTER))
        if case == "plain":
            await endpoint.provide(room.part(2 * QUARTER, QUARTER))
        if unpin:
            await _fill_table(process, endpoint, tag)
        if case == "page fault":
            process.swap_out()
        return await observe(process, lambda: endpoint.provide(room))

    async def child(process: Process) -> None:
        del process  # its memory is the other's, forked

    cluster = new_cluster(column, small=True, buffer_bytes=QUARTER)
    for node, program in ((0, receiver), (0, child), (1, _sink)):
        cluster.start(node, program)
    found: Any = cluster.run()[0]
    return found  # type: ignore[no-any-return]


class Received(msgspec.Struct, frozen=True):
    """One message whose buffer was translated before."""

    sent: Spent
    work_us: float  # at the receiver
    one_way_us: float  # from the sender's call to the receiver's return
    copied: dict[str, int]  # bytes that a processor of the host moved, by side
    host_us: dict[str, float]  # time of the hosts' processors in serving it
    nic_us: dict[str, float]


def receive(column: tuple[str, str], length: int) -> Received:
    """Send one message of ``length`` bytes, a first one having brought all translations."""

    async def sender(process: Process) -> tuple[Spent, float]:
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")
        room = await touched(endpoint)
        await process.sleep(SETTLED_US)
        await endpoint.send(tag, room.part(0, length))
        await endpoint.sent()
        await process.sleep(10 * SETTLED_US)
        begun = process.now_us

        async def operation() -> None:
            await endpoint.send(tag, room.part(0, length))

        spent = await observe(process, operation)
        return spent, begun + SETTLED_US

    async def receiver(process: Process) -> tuple[float, float]:
        endpoint = await process.open("sink")
        room = await touched(endpoint)
        await endpoint.provide(room)
        await endpoint.receive()
        await endpoint.provide(room)
        await process.sleep(SETTLED_US)
        before = work(process)
        await endpoint.receive()
        arrived = process.now_us
        await process.sleep(SETTLED_US)
        return work(process) - before, arrived

    cluster = new_cluster(column)
    cluster.start(0, sender)
    cluster.start(1, receiver)
    results: Any = cluster.run()
    (spent, begun), (worked, arrived) = results
    machine = cluster.simulation.machine  # type: ignore[union-attr]
    serving, nodes = machine.ports.nodes, machine.nodes
    sides = {"send": 0, "receive": 1}
    return Received(
        spent,
        worked,
        arrived - begun,
        {side: int(serving[node]["copied"]) // 2 for side, node in sides.items()},
        {side: float(serving[node]["kernel_time"]) / 1e6 for side, node in sides.items()},
        {side: float(nodes[node]["processor_busy"]) / 1e6 for side, node in sides.items()},
    )


def copy_us(column: tuple[str, str], length: int) -> float:
    """Microseconds of a copy of ``length`` bytes by a program."""

    async def copier(process: Process) -> Spent:
        here, there = process.allocate(PAGE), process.allocate(PAGE)
        await here.write(b"x" * PAGE)
        await there.write(b"y" * PAGE)
        return await observe(process, lambda: process.copy(here.part(0, length), there))

    cluster = new_cluster(column)
    cluster.start(0, copier)
    found: Any = cluster.run()[0]
    return float(found.elapsed_us)
