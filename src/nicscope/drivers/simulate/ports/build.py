"""Ports before the first event: every array, sized and configured for a design on a platform."""

from __future__ import annotations

import operator
from itertools import repeat
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.clock import NEVER
from nicscope.config.design import (
    SCHEMES,
    Delivery,
    Design,
    MissServer,
    Scheme,
    Transport,
    load_design,
)
from nicscope.drivers import translation
from nicscope.drivers.simulate.ports.state import COSTS, Extent, Ports, port_shapes
from nicscope.errors import SimulationError
from nicscope.fabric.faults import new_deaths, new_faults
from nicscope.host.pages import TABLE_PAGES
from nicscope.kernel.decorators import kernel
from nicscope.memory.numbering import BLOCK, Numbering, capacity
from nicscope.memory.paging.frames import take_frame
from nicscope.memory.paging.layout import READ, WRITE, HostMemory, memory_shapes, new_memory
from nicscope.memory.paging.spaces import map_pages
from nicscope.memory_limit import bytes_of, zeroed
from nicscope.nic.handles import BUFFER_WORDS, PROCESS_WORDS
from nicscope.nic.layout import Nic, cache_bytes, new_cache
from nicscope.nic.ports import layout
from nicscope.nic.ports.layout import (
    new_shared_tables,
    shared_shapes,
)
from nicscope.nic.ports.streams import new_pools, pool_shapes
from nicscope.nic.ports.work_queues import new_work_queues, work_shapes
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.nic.translate.state import Translations


def check_whole(value: object, name: str, kind: str, least: int) -> None:
    """Return if ``value`` of ``kind`` is a whole number of at least ``least``.

    Errors: ``SimulationError`` naming it.
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least:
        raise SimulationError(
            f"{kind}: {name} must be a whole number of at least {least}, got {value!r:.60}"
        )


HANDLE_WAYS = 4  # assumed: what served translations best (miNI, V.C)
# Of ``PortSize``: what arrays are made of.
QUEUES = (
    "ring", "ready", "channels", "exports", "events", "connections", "segments", "receives",
    "regions", "queues", "entries",
)  # fmt: skip
WINDOW = 64  # packets, the most that the rejects of an acknowledgement can name
_SERVICE = {
    MissServer.NO_ONE: layout.NO_ONE,
    MissServer.NIC: layout.FETCHES,
    MissServer.KERNEL: layout.KERNEL,
    MissServer.THREAD: layout.THREAD,
}


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong on the network, by seed; probabilities per packet, times of deaths in ps."""

    seed: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    corruption: float = 0.0
    node_deaths: dict[int, int] = {}
    link_deaths: dict[int, int] = {}

    @TrimmedTraceback()
    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "reordering", "corruption"):
            chance = getattr(self, name)
            if not isinstance(chance, int | float) or not 0 <= chance <= 1:
                raise SimulationError(
                    f"{name} is a probability from 0 to 1, such as Faults({name}=0.02), not "
                    f"{chance!r:.60}"
                )
        check_whole(self.seed, "seed", "Faults", 0)
        for name in ("node_deaths", "link_deaths"):
            deaths = getattr(self, name)
            if not isinstance(deaths, dict):
                raise SimulationError(
                    f"{name} says who dies when (ps), such as Faults({name}={{1: 5_000_000}}), not "
                    f"{deaths!r:.60}"
                )
            for who, when in deaths.items():
                check_whole(who, f"who of {name}", "Faults", 0)
                check_whole(when, f"when of {name} (ps)", "Faults", 0)

    @property
    def any(self) -> bool:
        """Whether anything can go wrong."""
        return bool(
            self.loss
            or self.duplication
            or self.reordering
            or self.corruption
            or self.node_deaths
            or self.link_deaths
        )


class HostSize(msgspec.Struct, frozen=True, kw_only=True):
    """A host's memory and its processes' address spaces."""

    frames: int = 1024
    pages_per_space: int = 512
    swap_blocks: int = 2048
    pin_limit: int | None = None  # pages of a host
    processors: int | None = None  # 1 or 2; None: what the platform states, else 1
    # Assumed: miNI has the scan for surplus pins run at long intervals (IV.B.2) and gives none.
    scan_period_ps: int = 100_000_000_000
    # Assumed: 100 ms "corresponds to only a few time-slices" (U-Net/MM, 2, footnote 1): to three.
    time_slice_ps: int = 33_000_000_000

    @TrimmedTraceback()
    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), name, "HostSize", 0)


class PortSize(msgspec.Struct, frozen=True, kw_only=True):
    """Queues and tables of a NIC."""

    ring: int = 64  # entries of each queue of a port
    ready: int = 16  # buffers translated ahead, per port
    channels: int = 64  # tags of a node
    exports: int = 64  # to begin with, where the host has these tables and they grow (miNI)
    imports: int = 64
    longest: int = 64  # pages of a segment
    events: int = 256  # that can wait for the kernel thread of a node
    connections: int = 0  # of a node that have streams of their own
    segments: int = layout.SEGMENTS  # of a descriptor
    # Of ports that take a receive for each message; none without.
    receives: int = 0  # entries of a port's queue of receives
    regions: int = 0  # of memory registered on a node
    queues: int = 0  # completion queues of a node
    entries: int = 0  # of a completion queue
    # of caches, where buffers and processes are looked up; powers of two, ways of 4
    buffer_entries: int = 1024
    process_entries: int = 64

    @TrimmedTraceback()
    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_whole(getattr(self, name), name, "PortSize", 0)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about ports but their programs."""

    design: Design
    processes: Sequence[int]  # of each node
    tasks: int = 0  # of all processes, beside their programs
    ports: int  # of each node, the firmware's own among them
    costs: Sequence[Mapping[str, int]]  # SERVICE_COSTS by node
    user_pin: Sequence[NDArray[np.int64]]
    user_unpin: Sequence[NDArray[np.int64]]
    transport: Transport = Transport()
    faults: Faults = Faults()
    host: HostSize = HostSize()
    size: PortSize = PortSize()
    fresh: bool = False
    links: int = 0  # of the network, if they are more than crossbars and trunks have
    garbage: bool = False  # addresses that are not pinned name the garbage page
    buffer_bytes: int = 1  # of a receive buffer
    queue_frames: int = 0  # of each host, at the end of its memory: those of cacheable queues
    serves: bool = True  # the NIC serves ports, not the host's kernel
    polling_keeps: bool = False  # who polls keeps the CPU until the end of its time slice
    spaces: int | None = None  # address spaces of each node; one per process by default
    numberings: Sequence[Numbering] | None = None  # of a trace's pages
    node_numbers: Sequence[int] | None = None
    follows: bool = False  # those of a program trace: what each NIC looks up counts
    kinds: bool = True
    keep_log: int = 0  # records of packets


def no_ports(nodes: int, faults: Faults | None = None, links: int = 0) -> Ports:
    """NICs without ports, Trapeze's, over a network of ``links`` links that may be at fault."""
    design = load_design("vmmc-static").at_page_size(4096)
    numbering = translation.space_numbering(design, 1, 16)
    translations = translation.new_translations(design, [numbering], [1], 1)
    ports = _ports(
        nodes, 0, PortSize(ring=0, ready=0, channels=0, exports=0, imports=0), (0, 0),
        translations, new_memory(1, 2, 4096, 1, 1, 0), links=0,
    )  # fmt: skip
    return ports if faults is None else _befallen(ports, faults, links)


def new_ports(setup: Setup, delivery: Delivery) -> Ports:
    """The ports of a cluster, closed; see ``interfaces`` for how they are opened."""
    design = setup.design
    assert design.page_size is not None
    window = setup.transport.window
    if not 1 <= window <= WINDOW or window & (window - 1):
        raise SimulationError(
            f"the transport's window must be a power of two from 1 to {WINDOW} packets, "
            f"got {window!r}"
        )
    if setup.transport.ack_every < 1:
        raise SimulationError(
            "the transport's ack_every must be at least 1 packet, "
            f"got {setup.transport.ack_every!r}"
        )
    nodes = len(setup.processes)
    spaces = max(setup.spaces or 0, max(setup.processes))
    pages = setup.host.pages_per_space
    numberings = setup.numberings or [translation.space_numbering(design, spaces, pages)] * nodes
    translations = translation.new_translations(
        design,
        numberings,
        [spaces] * nodes,
        setup.size.longest,
        pages_per_space=None if setup.numberings else pages,
        node_numbers=setup.node_numbers,
        kinds=setup.kinds,
        victims_grow=not setup.serves,  # it is in the host's memory
    )
    if not setup.serves:  # whether or not the design says so
        translations.book.orders["in_kernel"] = True
    memory = new_memory(
        nodes,
        frames_of(setup, delivery),
        design.page_size,
        spaces_of_memory(setup, spaces),
        len(translations.host.pinning.state[0]) if setup.numberings else pages,
        setup.host.swap_blocks,
        host_pin_limit=setup.host.pin_limit,
    )
    ports = _ports(
        nodes, setup.ports, setup.size, (delivery.send_ring, delivery.receive_ring),
        translations, memory, links=nodes, processes=sum(setup.processes) + setup.tasks,
        log=setup.keep_log,
    )  # fmt: skip
    _give_rules(ports, setup)
    if _has_tables(setup):
        ports.rules["table_space"] = spaces
        for host in range(nodes):
            _map_tables(memory, host, spaces, -(-pages // TABLE_PAGES))
    if not setup.serves:
        for host in range(nodes):
            _take_kernel_frames(memory, host, ports.kernel_frames[host])
    for name in COSTS.names or ():
        ports.costs[name] = [each[name] for each in setup.costs]
    ports.rules["counts_ways"] = bool(ports.costs["further_way"].any())
    ports = _befallen(ports, setup.faults, max(setup.links, 4 * nodes))  # of crossbars and trunks
    return ports._replace(
        user_pin=np.array(setup.user_pin, np.int64),
        user_unpin=np.array(setup.user_unpin, np.int64),
    )


def _befallen(ports: Ports, faults: Faults, links: int) -> Ports:
    """``ports`` over a network of ``links`` links that suffers ``faults``, NICs aside."""
    nodes = len(ports.nodes)
    ports.rules["faults"] = faults.any
    chances = (faults.loss, faults.duplication, faults.reordering, faults.corruption)
    deaths = new_deaths(links + nodes, nodes, faults.link_deaths, faults.node_deaths)
    return ports._replace(faults=new_faults(faults.seed, *chances), deaths=deaths)


def frames_of(setup: Setup, delivery: Delivery) -> int:
    """Frames of a host: those for processes, and what its kernel takes for itself."""
    return setup.host.frames + setup.queue_frames + (0 if setup.serves else delivery.receive_ring)


def spaces_of_memory(setup: Setup, spaces: int) -> int:
    """Page tables of a host whose processes have ``spaces`` address spaces."""
    if setup.numberings:
        return 1
    return spaces * (2 if _has_tables(setup) else 1)


def _has_tables(setup: Setup) -> bool:
    """Whether there are second-level tables that can be swapped."""
    return setup.design.scheme is Scheme.UTLB and setup.numberings is None


@kernel
def _map_tables(memory: HostMemory, h: int, spaces: int, tables: int) -> None:
    """Maps a driver's tables; empty ones take no frame."""
    for space in range(spaces, 2 * spaces):
        map_pages(memory, h, space, 0, tables, READ | WRITE)


@kernel
def _take_kernel_frames(memory: HostMemory, h: int, taken: NDArray[np.int64]) -> None:
    """Frames for the receive ring of a controller that knows no ports: never anyone else's."""
    for place in range(taken.size):
        frame = take_frame(memory, h, layout.NOBODY)
        memory.frames[h, frame].pins = 1
        memory.frames[h, frame].pinned_to_write = 1
        taken[place] = frame


def _give_rules(ports: Ports, setup: Setup) -> None:
    rules = ports.rules[0]
    page_size = setup.design.page_size
    assert page_size is not None
    rules["scheme"] = translation.CODES[setup.design.scheme]
    rules["service"] = _SERVICE[SCHEMES[setup.design.scheme].misses]
    rules["reliable"] = setup.transport.reliable
    rules["by_connection"] = setup.transport.by_connection
    rules["window"] = setup.transport.window
    rules["time_out"] = setup.transport.time_out_ps
    rules["most_retries"] = setup.transport.most_retries
    rules["maps"] = setup.transport.remaps
    rules["probe_time_out"] = setup.transport.probe_time_out_ps
    rules["ack_delay"] = setup.transport.ack_delay_ps
    rules["ack_every"] = setup.transport.ack_every
    rules["page_bits"] = page_size.bit_length() - 1
    rules["space_bytes"] = 2**62 if setup.numberings else setup.host.pages_per_space * page_size
    rules["region_mtu"] = setup.design.mtu or 0
    rules["longest"] = setup.size.longest
    rules["ring"] = setup.size.ring
    rules["ready"] = setup.size.ready
    rules["fresh"] = setup.fresh
    rules["sparse"] = setup.numberings is not None
    rules["by_request"] = setup.numberings is not None and not setup.follows
    # What else a trace will do to a page is not known when it is pinned.
    rules["pins_by_access"] = setup.design.scheme is Scheme.UNET_MM and setup.numberings is None
    rules["garbage"] = setup.garbage
    rules["serves"] = setup.serves
    rules["defers"] = setup.serves and setup.design.scheme is Scheme.UNET_MM
    rules["buffer"] = setup.buffer_bytes
    rules["scan_period"] = setup.host.scan_period_ps
    rules["time_slice"] = setup.host.time_slice_ps if setup.polling_keeps else 0
    # A trace names pages alone, and has surplus pins given up as they come, as it was counted.
    has_handles = setup.design.scheme is Scheme.HANDLE and setup.numberings is None
    rules["handles"] = has_handles
    ports.translations.book.orders["scanned"] = has_handles


def _ports(
    nodes: int,
    ports: int,
    size: PortSize,
    rings: tuple[int, int],
    translations: Translations,
    memory: HostMemory,
    links: int,
    processes: int = 0,
    log: int = 0,
) -> Ports:
    keys: NDArray[Any] = translations.host.pinning.state
    extent = Extent(
        nodes=nodes,
        ports=ports,
        links=links,
        processes=processes,
        keys=keys.shape[1],
        table_nodes=keys.shape[0],
        rings=rings,
        log=log,
        **{name: getattr(size, name) for name in QUEUES},
    )
    arrays = zeroed(port_shapes(extent))
    made = Ports(
        **arrays,
        pools=new_pools(ports, rings[0], arrays["pool"]),
        shared=new_shared_tables(nodes, size.exports, size.imports),
        buffer_cache=_handle_caches(nodes, size.buffer_entries, BUFFER_WORDS),
        process_cache=_handle_caches(nodes, size.process_entries, PROCESS_WORDS),
        work=new_work_queues(extent),
        translations=translations,
        memory=memory,
        faults=new_faults(0),
        deaths=new_deaths(1, nodes),
    )
    made.owners[:] = layout.NOBODY
    made.channels["port"] = layout.NOBODY
    made.channels["placed"] = -1
    made.fetches["peer"] = layout.NOBODY
    made.answer_slots[:] = np.arange(made.answer_slots.shape[1])
    made.nodes["bringing"] = layout.NOBODY
    made.nodes["polling_process"] = layout.NOBODY
    for promised in ("reserved_for", "reserved_page", "reserved_export", "reserved_process"):
        made.nodes[promised] = layout.NOBODY
    made.nodes["thread_at"] = NEVER
    made.nodes["scan_at"] = NEVER
    made.nodes["deadline"] = NEVER
    made.nodes["searching"] = layout.NOBODY
    made.nodes["handler_at"] = NEVER
    made.table["key"] = -1
    made.table["page"] = -1
    made.table["missed"] = -1
    for name in ("channel", "send_queue", "receive_queue"):
        made.table[name] = layout.NOBODY
    return made


def _handle_caches(nodes: int, entries: int, words: int) -> Nic:
    """Caches of handles, an entry a line of ``words`` words, as one with an axis of nodes."""
    made: Nic = translation.stacked(
        repeat(new_cache(entries * words, HANDLE_WAYS, words), nodes), nodes
    )
    return made


def ports_bytes(setup: Setup, delivery: Delivery) -> int:
    """Bytes that ``new_ports`` takes at most."""
    assert setup.design.page_size is not None
    nodes = len(setup.processes)
    spaces = max(setup.spaces or 0, max(setup.processes))
    pages = setup.host.pages_per_space
    keys = _keys(setup, spaces)
    extent = Extent(
        nodes=nodes,
        ports=setup.ports,
        links=nodes,
        processes=sum(setup.processes) + setup.tasks,
        keys=keys,
        table_nodes=nodes,
        rings=(delivery.send_ring, delivery.receive_ring),
        log=setup.keep_log,
        **{name: getattr(setup.size, name) for name in QUEUES},
    )
    memory = memory_shapes(
        nodes,
        frames_of(setup, delivery),
        setup.design.page_size,
        spaces_of_memory(setup, spaces),
        keys if setup.numberings else pages,
        setup.host.swap_blocks,
    )
    handles = (
        (setup.size.buffer_entries, BUFFER_WORDS),
        (setup.size.process_entries, PROCESS_WORDS),
    )
    return (
        bytes_of(port_shapes(extent))
        + bytes_of(work_shapes(extent))
        + bytes_of(memory)
        + bytes_of(pool_shapes(setup.ports, delivery.send_ring))
        + bytes_of(shared_shapes(nodes, setup.size.exports, setup.size.imports))
        + nodes * translation.translation_bytes(setup.design, spaces, keys, setup.size.longest)
        + nodes * sum(cache_bytes(count * words, HANDLE_WAYS, words) for count, words in handles)
    )


def _keys(setup: Setup, spaces: int) -> int:
    """Pages of a node that have numbers, or room for one."""
    line = setup.design.line or 1
    if setup.numberings:
        return max(map(capacity, setup.numberings)) * line
    blocks = spaces * -(-(setup.host.pages_per_space // line) // BLOCK)
    return (1 << max(blocks - 1, 0).bit_length()) * BLOCK * line
