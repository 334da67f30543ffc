"""U-Net/MM's Table 1, priced and on running systems; memory that it pins; misses of its Figure 3.

*Work* is the time of whoever serves endpoints: the NIC's processor, or the host's kernel where
the NIC cannot.  Both are what the simulation has charged; running systems read no platform's cost.
Figure 3 is of Split-C programs (6.2), whose sizes may be scaled down together, pages and entries
alike, so that tests take seconds; and of a recorded trace of interactive users.
"""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.apps.split_c import Blocking, multiply, radix_sort, sample_sort
from nicscope.config.design import Design, load_design
from nicscope.config.platform import Platform, load_platform
from nicscope.drivers.replay import replay
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
from nicscope.interfaces.active_messages import ActiveMessages
from nicscope.interfaces.unet import Cluster, Endpoint, Process
from nicscope.memory.paging.layout import PRESENT
from nicscope.studies.reproduce.experiments.utlb import cost_at, lookup_us
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.studies.reproduce.verdict import Item, Outcome

    Program = Callable[[Process], Coroutine[Any, Any, Any]]


DESIGNS = {"pca200-linux": "unet-mm-pca200", "dc21140-nt": "unet-mm-dc21140"}


def table1(outcome: Outcome, item: Item) -> None:
    """U-Net/MM Table 1: what its rows add up to, as the pricing of misses and hits adds them.

    Price one miss and one hit on both machines; replace the pin for other kinds of pages.
    """
    pca200, nt = load_platform("pca200-linux"), load_platform("dc21140-nt")
    plain, bare = one_lookup(pca200, miss=True, unpin=True), one_lookup(pca200, miss=True)
    nt_plain = one_lookup(nt, miss=True, unpin=True)

    def instead_of_pin(platform: Platform, miss: Decimal, step: str) -> Decimal:
        """``miss`` with ``step`` in place of pinning a page that is present."""
        return miss - cost_at(platform, "kernel_pin") + cost_at(platform, step)

    def send_with_hit(platform: Platform) -> Decimal:
        """A whole send that hits: trap, where there is one, queue handling and translation."""
        trap = Decimal(0) if "trap" in platform.not_applicable else cost_at(platform, "trap")
        return trap + cost_at(platform, "send_queue") + one_lookup(platform)

    copied = instead_of_pin(pca200, plain, "kernel_pin_shared")
    zeroed = instead_of_pin(pca200, plain, "zero_map_in")
    ahead = one_lookup(nt, miss=True, unpin=True, receive=True)
    outcome.measure(
        item,
        plain_miss_with_unpin={"pca200": plain, "nt-send": nt_plain, "nt-ahead": ahead}.get,
        plain_miss_without_unpin=bare,
        copy_on_write_miss=copied,
        zero_map_in_miss=zeroed,
        send_with_hit=lambda path: send_with_hit(pca200 if path == "pca200" else nt),
        plain_miss_in_the_text=plain,
    )
    text = item.printed["text"]
    hits = [one_lookup(pca200), one_lookup(pca200, receive=True)]
    outcome.shape(
        "hit-adds-1-to-2",
        sorted(hits) == text["hit_adds_us"],
        f"{hits[0]} us on a send, {hits[1]} us on a receive",
    )
    low, high = text["miss_delays_us"]
    sums = sorted([bare, plain, zeroed, copied])
    outcome.shape(
        "text-range-is-too-high",
        sums[0] < low and sums[-1] < high,
        f"sums of the rows: {', '.join(str(one) for one in sums)} us",
    )
    outcome.shape(
        "copying-does-not-double",
        all(one / plain < Decimal("1.75") for one in (copied, zeroed)),
        f"copy {copied / plain:.2f} times, zeroing {zeroed / plain:.2f} times the plain miss",
    )
    disk = {
        "PCA-200": instead_of_pin(pca200, plain, "page_fault"),
        "NT": instead_of_pin(nt, nt_plain, "page_fault"),
    }
    outcome.shape(
        "disk-dominates",
        disk["PCA-200"] > 100 * plain and disk["NT"] > 100 * nt_plain,
        ", ".join(f"{name} {cost / 1000:.2f} ms" for name, cost in disk.items()),
    )


def one_lookup(
    platform: Platform, *, miss: bool = False, unpin: bool = False, receive: bool = False
) -> Decimal:
    """Price (us) of one lookup on the path named; a miss pins a page that is present."""
    path, other = ("receive", "send") if receive else ("send", "receive")
    counts = {
        "lookups": 1,
        f"lookups_{path}": 1,
        f"lookups_{other}": 0,
        "ni_misses": int(miss),
        f"ni_misses_{path}": int(miss),
        f"ni_misses_{other}": 0,
        "interrupts": int(miss),
        "unpins": int(unpin),
    }
    return lookup_us(counts, DESIGNS[platform.name], platform)


PAGE = 4096
SETTLED_US = 2000.0  # longer than anything but the disk takes
READY = 2  # buffers translated ahead, so that a further one is left alone
FULL = 6  # pages that the small table below can hold
QUARTER = PAGE // 4  # of a page: buffers in one page are several, and its translation is one

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


def run(cluster: Cluster, *programs: tuple[int, Program]) -> Any:
    """What ``programs`` return, each on its node."""
    for node, program in programs:
        cluster.start(node, program)
    return cluster.run()


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


async def _send(endpoint: Endpoint, tag: Any, room: Buffer) -> None:
    await endpoint.send(tag, room.part(0, LENGTH))
    assert (await endpoint.sent()).ok


async def _fill_table(process: Process, endpoint: Endpoint, tag: Any) -> None:
    for _ in range(FULL):
        await _send(endpoint, tag, await touched(endpoint))
    await process.sleep(SETTLED_US)


async def _sink(process: Process) -> None:
    await process.open("sink")


def sends(column: tuple[str, str]) -> dict[str, float]:
    """Microseconds of a send of 100 bytes by what happens to its page."""
    has_table = column[0] != "unet"

    async def sender(process: Process) -> dict[str, Spent]:
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")

        async def send(room: Buffer) -> Spent:
            return await observe(process, lambda: _send(endpoint, tag, room))

        room = await touched(endpoint)
        found = {"miss": await send(room), "hit": await send(room)}
        await _fill_table(process, endpoint, tag)
        found["miss with unpin"] = await send(await touched(endpoint))
        if has_table:
            absent = await touched(endpoint)
            process.swap_out()
            found["page fault"] = await send(absent)
        return found

    found = run(new_cluster(column, small=has_table), (0, sender), (1, _sink))[0]
    times = {case: spent.work_us for case, spent in found.items()}
    if has_table:
        # The disk works for nobody's time but that of who waits for it.
        late = found["page fault"].elapsed_us - found["hit"].elapsed_us
        times["page fault"] = found["hit"].work_us + late
    return times


def ahead(column: tuple[str, str], case: str) -> Spent:
    """Translate a buffer of the free queue; ``case`` says what happens to its page.

    Cases are "hit", "miss", "copy on write", "zero map-in" and "page fault"; with " with unpin"
    the table is full.  "plain" leaves the buffer alone.
    """
    kind, _, unpin = case.partition(" with ")

    async def receiver(process: Process) -> Spent:
        endpoint = await process.open("ahead")
        tag = await endpoint.connect(1, "sink")
        room = endpoint.allocate(PAGE) if kind == "zero map-in" else await touched(endpoint)
        if kind == "copy on write":
            assert process.cluster.memory is not None
            process.cluster.memory.fork(0, 0, 1)
        if kind in ("hit", "plain"):
            await endpoint.provide(room.part(QUARTER, QUARTER))
        if kind == "plain":
            await endpoint.provide(room.part(2 * QUARTER, QUARTER))
        if unpin:
            await _fill_table(process, endpoint, tag)
        if kind == "page fault":
            process.swap_out()
        return await observe(process, lambda: endpoint.provide(room))

    async def child(process: Process) -> None:
        del process  # its memory is the other's, forked

    cluster = new_cluster(column, small=True, buffer_bytes=QUARTER)
    spent: Spent = run(cluster, (0, receiver), (0, child), (1, _sink))[0]
    return spent


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
        spent = await observe(process, lambda: endpoint.send(tag, room.part(0, length)))
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
    (spent, begun), (worked, arrived) = run(cluster, (0, sender), (1, receiver))
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

    return float(run(new_cluster(column), (0, copier))[0].elapsed_us)


ROUNDS = 100
LENGTH = 100  # bytes of a message
BEGIN_US = 3000.0
SIZES = (40, 1498)
DISK_US = 22_000
PS = 6  # digits of us: the unit of the simulation


def simulated_table1(outcome: Outcome, item: Item) -> None:
    """U-Net/MM Table 1: its steps added up by operations of running systems.

    Send, translate ahead and receive in every column; watch who waits for the disk.
    """
    sent = {name: sends(column) for name, column in COLUMNS.items()}
    received, plain = functools.cache(receive), functools.cache(ahead)

    def pretranslate(name: str, case: str) -> float:
        """What a buffer adds to what any buffer causes that is left alone, such as a trap."""
        alone, spent = plain(COLUMNS[name], "plain"), ahead(COLUMNS[name], case)
        if case == "page fault":
            return round(spent.elapsed_us - alone.elapsed_us, PS)
        return round(spent.work_us - alone.work_us, PS)

    outcome.measure(
        item,
        send=lambda name, case: round(sent[name]["hit" if case == "no translation" else case], PS),
        pretranslate=pretranslate,
        receive=lambda name, length: round(received(COLUMNS[name], length).work_us, PS),
        copies_of_a_message=lambda name, side: (
            received(COLUMNS[name], SIZES[1]).copied[side] / SIZES[1]
        ),
    )
    unet, mapped, nt = (
        received(column, SIZES[1]) for column in (UNET_PCA200, MAPPED_PCA200, MAPPED_NT)
    )
    parts = (mapped.sent.work_us - unet.sent.work_us, mapped.work_us - unet.work_us)
    whole = mapped.one_way_us - unet.one_way_us
    outcome.shape(
        "hits-add-three-end-to-end",
        abs(parts[0] - 1) <= 0.06 and abs(parts[1] - 2) <= 0.06 and abs(whole - 3) <= 0.06,
        f"{parts[0]:.2f} us at the sender, {parts[1]:.2f} us at the receiver, {whole:.2f} us from "
        f"one program to the other, of {mapped.one_way_us:.1f} us",
    )
    ended_us, others_us = during_a_page_in()
    outcome.shape(
        "others-go-on-during-a-page-in",
        ended_us > DISK_US and max(others_us.values()) < ended_us,
        f"{ROUNDS} messages there and back after "
        + ", ".join(f"{us / 1000:.1f} ms ({who})" for who, us in others_us.items())
        + f"; the page after {ended_us / 1000:.1f} ms",
    )
    call_us, messages = held_by_a_fault()
    outcome.shape(
        "a-fault-on-nt-holds-its-process",
        call_us > DISK_US and messages > 0,
        f"the call took {call_us / 1000:.1f} ms, in which another process received "
        f"{messages} messages",
    )
    kernel = nt.sent.work_us + nt.work_us - copy_us(UNET_NT, SIZES[1])
    firmware = mapped.sent.work_us + mapped.work_us
    nic, host = sum(nt.nic_us.values()), sum(mapped.host_us.values())
    outcome.shape(
        "host-translates-faster-but-pays",
        kernel < firmware and nic == 0 and host == 0,
        f"{kernel:.1f} us without the copy, all of the host's processor and {nic:.0f} of the "
        f"controller's; {firmware:.1f} us on the PCA-200, {host:.0f} of them the host's",
    )
    shares = [copy_us(UNET_LINUX, size) / copy_us(UNET_NT, size) for size in SIZES]
    outcome.shape(
        "linux-copies-at-half-of-nt",
        abs(shares[1] - 0.5) <= 0.02 and shares[0] > 1,
        ", ".join(
            f"{share:.2f} of NT's time at {size} bytes"
            for share, size in zip(shares, SIZES, strict=True)
        ),
    )


def during_a_page_in() -> tuple[float, dict[str, float]]:
    """One endpoint sends from a page on disk; another of its process and one of another go on.

    How long (us) the page took, and how long the messages there and back of the others.
    """

    async def go_around(process: Process, endpoint: Endpoint, name: str) -> float:
        """Send and receive ``ROUNDS`` messages; when the last one was there."""
        tag = await endpoint.connect(1, name)
        if process.now_us < BEGIN_US:
            await process.sleep(BEGIN_US - process.now_us)
        room, back = await touched(endpoint), await touched(endpoint)
        for _ in range(ROUNDS):
            await endpoint.provide(back)
            await endpoint.send(tag, room.part(0, LENGTH))
            await endpoint.receive()
            assert (await endpoint.sent()).ok
        return process.now_us

    async def echo(process: Process, name: str) -> None:
        endpoint = await process.open(name)
        room, other = await touched(endpoint), await touched(endpoint)
        for _ in range(ROUNDS):
            await endpoint.provide(room)
            message = await endpoint.receive()
            await _send(endpoint, message.tag, other)

    async def absent(process: Process) -> tuple[float, float, float]:
        slow, quick = await process.open(), await process.open()
        tag = await slow.connect(1, "slow")
        room = await touched(slow)
        process.swap_out()
        await process.sleep(BEGIN_US - 200)
        begun = process.now_us
        await slow.send(tag, room.part(0, LENGTH))
        same = await go_around(process, quick, "same")
        assert (await slow.sent()).ok
        return begun, process.now_us, same

    async def other(process: Process) -> float:
        return await go_around(process, await process.open(), "other")

    (begun, ended, same), other_ended, *_ = run(
        new_cluster(MAPPED_PCA200, endpoints=3),
        (0, absent),
        (0, other),
        (1, lambda process: process.open("slow")),
        (1, lambda process: echo(process, "same")),
        (1, lambda process: echo(process, "other")),
    )
    return ended - begun, {"same process": same - begun, "other process": other_ended - begun}


def held_by_a_fault() -> tuple[float, int]:
    """Under NT, one process sends from a page on disk; messages for another one arrive.

    How long (us) the call that sends took, and what the other process received meanwhile.
    """

    async def absent(process: Process) -> tuple[float, float]:
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")
        room = await touched(endpoint)
        await process.sleep(BEGIN_US / 2)  # until the receiver's buffer is translated
        process.swap_out()
        await process.sleep(BEGIN_US / 2)
        begun = process.now_us
        await endpoint.send(tag, room.part(0, LENGTH))
        return begun, process.now_us

    async def receiver(process: Process) -> list[float]:
        endpoint = await process.open("receiver")
        room = await touched(endpoint)
        times = []
        for _ in range(ROUNDS):
            await endpoint.provide(room)
            await endpoint.receive(mode="block")
            times.append(process.now_us)
        return times

    async def sender(process: Process) -> None:
        endpoint = await process.open()
        tag = await endpoint.connect(0, "receiver")
        room = await touched(endpoint)
        await process.sleep(BEGIN_US)
        for _ in range(ROUNDS):
            await _send(endpoint, tag, room)
            await process.sleep(150)

    (begun, ended), times, *_ = run(
        new_cluster(MAPPED_NT), (0, absent), (0, receiver), (1, _sink), (1, sender)
    )
    return ended - begun, sum(begun < time < ended for time in times)


PAGES = 64  # that each process touches with messages
ENTRIES, VICTIMS = 256, 16
PLACES = ENTRIES // PAGES  # of buffers: together they reach every entry
PLATFORM = "pca200-linux"
# The full static table alone takes the PCA-200's 256 KB (miNI, V.C): its NIC has twice as much.
LARGER = f"{PLATFORM}@nic_memory_bytes=512KiB"
PROCESSES = [1, 2, 4, 8, 16, 32, 64]


class Pinned(msgspec.Struct, frozen=True):
    """Pages of the sending host when all its processes have come to rest."""

    pages: int
    most: int  # at any time at which a message had gone
    present: int  # still in memory after the operating system took what it could
    mapped_present: int  # of those, pinned ones
    stale: int  # transfers with a translation that no longer held


def pinned_by(design: Design, processes: int) -> Pinned:
    """Have ``processes`` processes of one node each send from all their pages, and look."""
    cluster = Cluster(
        design,
        small_inside=False,
        size=PortSize(ring=4, ready=2, channels=processes, exports=1, imports=1),
        host=HostSize(
            frames=processes * PAGES + 64,
            pages_per_space=(PLACES + 2) * PAGES,
            swap_blocks=processes * PAGES,
        ),
    )
    most = 0

    def look() -> int:
        assert cluster.memory is not None
        return int(cluster.memory.state.hosts[0]["pinned"])

    async def sender(process: Process) -> None:
        nonlocal most
        endpoint = await process.open()
        tag = await endpoint.connect(1, "sink")
        if endpoint.area is None:  # processes have their buffers in different places
            process.allocate((1 + process.number % PLACES) * PAGES * PAGE)
        room = endpoint.allocate(PAGES * PAGE)
        for page in range(PAGES):
            piece = room.part(page * PAGE, 8)
            await piece.write(b"8 bytes.")
            await endpoint.send(tag, piece)
            await endpoint.sent()
            most = max(most, look())

    run(cluster, *[(0, sender)] * processes, (1, _sink))
    pinned = look()
    assert cluster.memory is not None
    assert cluster.simulation is not None
    while cluster.memory.swap_out(0):
        pass
    state = cluster.memory.state
    here = state.entries[0].reshape(-1)
    frames: Any = here["frame"][here["state"] == PRESENT]
    return Pinned(
        pinned,
        most,
        len(frames),
        int((state.frames[0]["pins"][frames] > 0).sum()),
        int(cluster.simulation.machine.ports.nodes[0]["stale"]),
    )


def pinned_memory(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - as many processes as are asked
    """U-Net/MM, 1 and 4.2: pinned memory is bounded by the table, not by who uses the network.

    Let 1 to 64 processes use the network and rest, under three designs.
    """

    def by_processes(name: str, **changes: Any) -> list[Pinned]:
        """One run for each number of processes."""
        changed = {"platform": PLATFORM, **changes}
        design = msgspec.structs.replace(load_design(name), **changed)
        return [pinned_by(design, count) for count in PROCESSES]

    room = ENTRIES + VICTIMS
    # U-Net's areas are the pages that processes use; what has been used stays in a static table.
    areas = by_processes("unet", area_bytes=PAGES * PAGE)
    tables = by_processes("vmmc-static", platform=LARGER)
    found = by_processes("unet-mm-pca200", entries=ENTRIES, victim_entries=VICTIMS)
    for count, seen in zip(PROCESSES, areas, strict=True):
        outcome.point("pinned_by_unet", "pages", seen.pages, processes=count)
    most = [seen.most for seen in found]
    beyond = {
        seen.pages for count, seen in zip(PROCESSES, found, strict=True) if count * PAGES > room
    }
    outcome.shape(
        "bounded-by-the-tlb",
        max(most) <= room and len(beyond) == 1,
        f"at most {', '.join(map(str, most))} pages by {', '.join(map(str, PROCESSES))} processes; "
        f"the table and its victims hold {room}",
    )
    last = found[-1]
    outcome.shape(
        "idle-pages-leave",
        last.present == last.mapped_present == last.pages and last.stale == 0,
        f"of the {PROCESSES[-1] * PAGES} pages of {PROCESSES[-1]} processes {last.present} stay, "
        f"{last.mapped_present} of them mapped; {last.stale} transfers met a page that had left",
    )
    outcome.shape(
        "static-grows-with-processes",
        all(
            seen.pages / count == PAGES
            for runs in (areas, tables)
            for count, seen in zip(PROCESSES, runs, strict=True)
        ),
        f"{areas[0].pages} to {areas[-1].pages} pages under U-Net, {tables[0].pages} to "
        f"{tables[-1].pages} under a static table",
    )


PATHS = ("send", "receive")


class MissesInFour(msgspec.Struct, frozen=True):
    """What a workload's lookups found in a table of so many entries."""

    workload: str
    entries: int
    counts: dict[str, int]  # sums over nodes
    pages: int  # that messages used, on the node that used most

    def misses(self, path: str, compulsory: bool) -> int:
        """One of the four ways to miss."""
        first = self.counts[f"ni_misses_{path}_compulsory"]
        return first if compulsory else self.counts[f"ni_misses_{path}"] - first

    def percent(self, path: str, compulsory: bool) -> float:
        """The same in percent of all lookups."""
        return 100 * self.misses(path, compulsory) / self.counts["lookups"]

    @property
    def noncompulsory(self) -> tuple[int, ...]:
        """Misses that are not compulsory, when sending and when receiving."""
        return tuple(self.misses(path, compulsory=False) for path in PATHS)

    @property
    def misses_again(self) -> bool:
        """Whether any miss was of a page that the table had had before."""
        return any(self.noncompulsory)

    @property
    def height(self) -> float:
        """Where the figure's bar ends: all misses in percent of all lookups."""
        return sum(self.percent(path, compulsory) for path in PATHS for compulsory in (True, False))

    def in_four(self) -> str:
        """One line: misses in percent of lookups, not compulsory and compulsory, on each path."""
        parts = []
        for path in PATHS:
            others, first = (self.percent(path, compulsory) for compulsory in (False, True))
            parts.append(f"{path} {others:.2f}+{first:.2f}")
        called = f"{self.workload} (entries={self.entries}, pages={self.pages})"
        return f"{called} {', '.join(parts)}, in all {self.height:.2f} %"


class Bench(NamedTuple):
    """What the programs run on; U-Net/MM 6.2 prints all but ``nodes`` and ``answers``."""

    entries: int = 1024
    victims: int = 16
    nodes: int = 4
    buffers: int = 64  # for messages, on each node
    answers: int = 16  # that answers are copied to


class Workload(NamedTuple):
    """A program and its size: keys of each node, or a blocking."""

    name: str
    kind: str  # "multiply", "radix", "small" or "large"
    keys: int = 0
    blocking: Blocking = Blocking(0, 0)
    digits: int = 4
    digit_bits: int = 8


KEYS = 256 * 1024
# Figure 3's labels.  Two of them say 8x8 and 128x128, the text 8 by 8 blocks of 128 by 128 doubles
# and 16 by 16 of 16 by 16; which bar is which is not clear, so these are named by their blocks.
WORKLOADS: Sequence[Workload] = (
    Workload("mm of 8x8 blocks", "multiply", blocking=Blocking(8, 128)),
    Workload("mm of 16x16 blocks", "multiply", blocking=Blocking(16, 16)),
    Workload("rsort-lg", "radix", KEYS),
    Workload("ssort-sm", "small", KEYS),
    Workload("ssort-lg", "large", KEYS),
)

LARGE, SMALL = Bench(entries=1024), Bench(entries=256)


class Found(MissesInFour, frozen=True):
    """What a run showed."""

    right: bool
    elapsed_us: float
    lost: int  # messages


def of_program(workload: Workload, bench: Bench, faults: Faults | None = None) -> Found:
    """Run ``workload`` and check its result; ``faults`` of the network are the layer's to mend."""
    design = msgspec.structs.replace(
        load_design("unet-mm-pca200"), entries=bench.entries, victim_entries=bench.victims
    )
    random, blocking = np.random.default_rng(1997), workload.blocking
    size = blocking.blocks * blocking.size
    # Whole numbers, so that the product is exact in whatever order it is summed.
    whole = random.integers(-9, 9, (2, size, size)).astype(np.float64)
    factors = (whole[0], whole[1])
    bits = workload.digits * workload.digit_bits if workload.kind == "radix" else 32
    keys = random.integers(0, 1 << bits, (bench.nodes, workload.keys), np.uint32)
    mine = len(blocking.owned(0, bench.nodes)) * blocking.block_bytes
    rooms = (2 * mine + 2 * blocking.block_bytes) // PAGE
    # That a process may come to have.
    pages = bench.buffers + bench.answers + 5 * (workload.keys * 4 // PAGE + 1) + rooms + 32
    cluster = Cluster(
        design,
        nodes=bench.nodes,
        size=PortSize(ring=64 + bench.buffers, ready=bench.buffers, channels=2 * bench.nodes),
        host=HostSize(frames=pages + 64, pages_per_space=pages, swap_blocks=pages),
        faults=faults,
    )

    async def program(process: Process) -> Any:
        messages = ActiveMessages(process, bench.nodes, bench.buffers, bench.answers)
        await messages.open()
        found = await result_of(process, messages)
        if faults is not None:
            await messages.linger()
        return found

    async def result_of(process: Process, messages: ActiveMessages) -> Any:
        mine = keys[process.node]
        if workload.kind == "multiply":
            return await multiply(process, messages, blocking, factors)
        if workload.kind == "radix":
            return await radix_sort(process, messages, mine, workload.digits, workload.digit_bits)
        return await sample_sort(process, messages, mine, large=workload.kind == "large")

    for node in range(bench.nodes):
        cluster.start(node, program)
    results: Any = cluster.run()
    counts = [cluster.counts(node) for node in range(bench.nodes)]
    report = cluster.report()
    if workload.kind == "multiply":
        expected = factors[0] @ factors[1]
        made = {number: block for result in results for number, block in result.items()}
        right = len(made) == blocking.blocks**2 and all(
            np.array_equal(block, blocking.block(expected, number))
            for number, block in made.items()
        )
    else:
        right = np.array_equal(np.concatenate(results), np.sort(keys.ravel()))
    dropped = report.total.received.dropped or {}
    return Found(
        workload=workload.name,
        entries=bench.entries,
        right=bool(right),
        counts={name: sum(one[name] or 0 for one in counts) for name in counts[0]},
        pages=max(one["ni_misses_compulsory"] or 0 for one in counts),
        elapsed_us=report.elapsed_us,
        lost=sum(dropped[name] for name in ("buffer", "report")),
    )


USERS_NODE = 0  # the other one has their servers


def users() -> Requests:
    """What the programs in use asked of their network, in the order in which they did."""
    every = open_trace(bundled_traces()["sockets_interactive"]).read()
    return _chosen(every, np.flatnonzero(every.node == USERS_NODE))


def moved(requests: Requests, at_once: int) -> Requests:
    """The same programs in use by ``at_once`` people at a time.

    The next come when the last of those before them has left; each does what was recorded of them,
    at the same pace.
    """
    times = requests.time_ns.copy()
    begin = 0
    pids = np.unique(requests.pid)
    for first in range(0, pids.size, at_once):
        end = begin
        for pid in pids[first : first + at_once]:
            mine = requests.pid == pid
            times[mine] += begin - times[mine].min()
            end = max(end, int(times[mine].max()) + 1)
        begin = end
    return _chosen(requests._replace(time_ns=times), np.argsort(times, kind="stable"))


def _chosen(requests: Requests, rows: NDArray[np.intp]) -> Requests:
    return Requests._make(column[rows] for column in requests)


def of_users(requests: Requests, sizes: Sequence[int]) -> list[MissesInFour]:
    """What U-Net/MM's table makes of ``requests``, for each of ``sizes`` in entries."""
    design = load_design("unet-mm-pca200")
    designs = [
        msgspec.structs.replace(design, entries=size, victim_entries=VICTIMS) for size in sizes
    ]
    results = replay([requests], designs, kinds=False)
    every = ({name: count or 0 for name, count in one.total.items()} for one in results)
    return [
        MissesInFour("Linux", size, counts, counts["ni_misses_compulsory"])
        for size, counts in zip(sizes, every, strict=True)
    ]


AT_ONCE = (2, 4, 8, 16, 32)  # users, besides one after another


def figure3_sockets(outcome: Outcome, item: Item) -> None:
    """U-Net/MM, Figure 3: misses in four of its interactive users, by a large and a small TLB.

    Sessions follow one another: the paper has traces of them, and not how many were at once.
    """
    recorded = users()
    large, small = of_users(moved(recorded, 1), (LARGE.entries, SMALL.entries))
    consumed = {one.entries: one.misses("receive", compulsory=True) for one in (large, small)}
    outcome.measure(item, receive_compulsory_misses=consumed.get)
    evidence = f"{large.in_four()}; with more users at once, not compulsory on the two paths: "
    for many in AT_ONCE:
        sent, received = of_users(moved(recorded, many), (LARGE.entries,))[0].noncompulsory
        evidence += f"{many} {sent:,}+{received:,}, "
    outcome.shape("none-but-compulsory-at-1024", not large.misses_again, evidence[:-2])
    outcome.shape("misses-again-at-256", all(small.noncompulsory), small.in_four())
    bars, axis = (large.height, small.height), item.printed["axis_percent"]
    evidence = " and ".join(f"{bar:.1f} %" for bar in bars)
    outcome.shape("bars-end-within-the-axis", max(bars) <= axis, evidence)
    compulsory = {path: large.misses(path, compulsory=True) for path in PATHS}
    outcome.shape(
        "compulsory-are-receives",
        compulsory["receive"] > compulsory["send"],
        ", ".join(f"{path} {count:,}" for path, count in compulsory.items()),
    )


def figure3(outcome: Outcome, item: Item) -> None:
    """U-Net/MM, Figure 3: misses in four of its Split-C programs, by a large and a small TLB.

    Run every program under both tables; each is run twice in all.
    """
    large, small = (
        [(workload.kind, of_program(workload, bench)) for workload in WORKLOADS]
        for bench in (LARGE, SMALL)
    )
    every = [found for _, found in (*large, *small)]
    outcome.shape(
        "results-are-right",
        all(found.right and not found.lost for found in every),
        f"{sum(found.right for found in every)} of {len(every)} right, "
        f"{sum(found.lost for found in every)} messages lost",
    )
    of_large = [found for _, found in large]
    # Matrices and small messages use few pages.
    few = [found for kind, found in small if kind in ("multiply", "small")]
    many = [found for kind, found in small if kind in ("radix", "large")]
    axis = item.printed["axis_percent"]
    for name, run_of, holds in (
        ("none-but-compulsory-at-1024", of_large, not any(one.misses_again for one in of_large)),
        ("small-messages-and-matrices-fit-256", few, not any(one.misses_again for one in few)),
        ("large-messages-miss-at-256", many, all(all(found.noncompulsory) for found in many)),
        ("bars-end-within-the-axis", every, all(bar.height <= axis for bar in every)),
    ):
        outcome.shape(name, holds, "; ".join(found.in_four() for found in run_of))
    [interactive] = of_users(users(), (LARGE.entries,))
    receiving = {
        found.workload: found.percent("receive", compulsory=True)
        for found in (interactive, *of_large)
    }
    outcome.shape(
        "interactive-users-lead",
        max(receiving, key=receiving.__getitem__) == interactive.workload,
        ", ".join(f"{workload} {percent:.2f}" for workload, percent in receiving.items()) + " %",
    )
