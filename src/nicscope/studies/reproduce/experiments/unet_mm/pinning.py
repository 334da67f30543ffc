"""U-Net/MM, 1 and 4.2: memory pinned by how many have used the network and stay idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.design import Design, load_design
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.interfaces.unet import Cluster
from nicscope.memory.paging.layout import PRESENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.interfaces.unet import Process
    from nicscope.studies.reproduce.verdict import Item, Outcome

PAGE = 4096
PAGES = 64  # that each process touches with messages
ENTRIES, VICTIMS = 256, 16
PLACES = ENTRIES // PAGES  # of buffers: together they reach every entry
PLATFORM = "pca200-linux"
# The full static table alone takes the PCA-200's 256 KB (miNI, V.C): its NIC has twice as much.
LARGER = f"{PLATFORM}@nic_memory_bytes=512KiB"


class Pinned(msgspec.Struct, frozen=True):
    """Pages of the sending host when all its processes have come to rest."""

    pages: int
    most: int  # at any time at which a message had gone
    present: int  # still in memory after the operating system took what it could
    mapped_present: int  # of those, pinned ones
    stale: int  # transfers with a translation that no longer held


def mapped() -> Design:
    """U-Net/MM with the smaller table."""
    design = load_design("unet-mm-pca200")
    return msgspec.structs.replace(
        design, entries=ENTRIES, victim_entries=VICTIMS, platform=PLATFORM
    )


def original() -> Design:
    """U-Net whose areas are the pages that processes use."""
    return msgspec.structs.replace(load_design("unet"), area_bytes=PAGES * PAGE, platform=PLATFORM)


def static() -> Design:
    """A table in which what a process has used stays registered, on a NIC that holds it."""
    return msgspec.structs.replace(load_design("vmmc-static"), platform=LARGER)


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

    async def sink(process: Process) -> None:
        await process.open("sink")

    for _ in range(processes):
        cluster.start(0, sender)
    cluster.start(1, sink)
    cluster.run()
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


def by_processes(design: Callable[[], Design], counts: list[int]) -> list[Pinned]:
    """One run for each number of processes."""
    return [pinned_by(design(), count) for count in counts]


PROCESSES = [1, 2, 4, 8, 16, 32, 64]


def pinned_memory(outcome: Outcome, item: Item) -> None:
    """U-Net/MM, 1 and 4.2: pinned memory is bounded by the table, not by who uses the network.

    Let 1 to 64 processes use the network and rest, under three designs.
    """
    del item
    room = ENTRIES + VICTIMS
    areas = by_processes(original, PROCESSES)
    tables = by_processes(static, PROCESSES)
    found = by_processes(mapped, PROCESSES)
    for count, seen in zip(PROCESSES, areas, strict=True):
        outcome.point("pinned_by_unet", "pages", seen.pages, processes=count)
    most = [seen.most for seen in found]
    beyond = [
        seen.pages for count, seen in zip(PROCESSES, found, strict=True) if count * PAGES > room
    ]
    outcome.shape(
        "bounded-by-the-tlb",
        max(most) <= room and len(set(beyond)) == 1,
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
    each = [
        [seen.pages / count for count, seen in zip(PROCESSES, run_of, strict=True)]
        for run_of in (areas, tables)
    ]
    outcome.shape(
        "static-grows-with-processes",
        all(one == PAGES for row in each for one in row),
        f"{areas[0].pages} to {areas[-1].pages} pages under U-Net, {tables[0].pages} to "
        f"{tables[-1].pages} under a static table",
    )
