"""Worlds of programs on ports: what one is made of, and Hypothesis strategies that draw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from oracle.delivery_records import CUT_THROUGH, STORE_AND_FORWARD, Delivery
from oracle.delivery_strategies import Network, costs, crossbar
from oracle.ports_connections import Streams, connected
from oracle.ports_plans import plans
from oracle.ports_sizes import EXPORTED, PAGE, PAGES, PLACES

WATCHDOG = 10**9  # ps: longer than any run that goes on; a link that hangs has time-outs until then

STEPS = (
    "post", "poll", "wake", "signal", "serve_request", "receive_message", "handshake",
    "interrupt", "pin_send", "pin_receive", "pin_shared", "zero", "unpin", "page_in", "page_out",
    "thread_delay", "lookup_send", "lookup_receive", "lookup_free", "lookup_buffer", "check",
    "table_dma", "further_way", "lookup_handle", "fetch", "thread_work", "system_call",
)  # fmt: skip


# A link whose packets go whole, and links of cells: ATM's, and of other sizes.
CELLS = [
    {"cell_bytes": cell, "trailer_bytes": trailer}
    for cell, trailer in ((0, 0), (0, 0), (48, 8), (7, 6), (16, 20))
]
SLOWLY = (0, 1000, 5000, 20_000)  # ps that a thread takes to go on
TABLES = ("vmmc-static",)  # no page is unpinned
LIBRARIES = ("utlb", "utlb-shared", "utlb-process")
KERNELS = ("vmmc-interrupt", "unet-mm-pca200")  # pages are pinned in an interrupt
DESIGNS = ("unet", *TABLES, *LIBRARIES, *KERNELS, "mini")


class Channel(NamedTuple):
    """A tag of ``process``: messages to and from a tag of another node."""

    process: int
    tag: int
    node: int
    peer_tag: int
    unit: int = PAGE
    most: int = 8 * PAGE
    connection: int | None = None  # whose stream it has; None: that of the two nodes


class Export(NamedTuple):
    """A stretch of the memory of ``process``."""

    process: int
    number: int
    start: int
    length: int
    rights: int = 3


class Import(NamedTuple):
    """A name by which ``process`` means an export of a node."""

    process: int
    handle: int
    node: int
    export: int
    start: int
    length: int
    connection: int | None = None


class Program(NamedTuple):
    """A process on a node and what it does, step by step."""

    node: int
    steps: list[tuple]


@dataclass
class World:
    """All that a run is made of; printed whole by Hypothesis when it fails."""

    network: Network
    costs: dict[str, int]
    service: dict[str, int]
    user_pin: list[int]
    user_unpin: list[int]
    delivery: Delivery
    programs: list[Program]
    channels: list[Channel]
    exports: list[Export] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    design: str = "vmmc-static"
    settings: dict[str, int] = field(default_factory=dict)
    connections: list[tuple[int, int]] = field(default_factory=list)  # with streams of their own
    reliable: bool = False
    window: int = 8
    time_out: int = 10**6  # ps
    most_retries: int = 12
    ack_delay: int = 100  # ps
    ack_every: int = 1
    seed: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    corruption: float = 0.0
    node_deaths: dict[int, int] = field(default_factory=dict)
    link_deaths: dict[int, int] = field(default_factory=dict)
    ring: int = 8
    ready: int = 8
    frames: int = 512
    blocks: int = 2048  # of swap
    written: int = PAGES  # pages of a process that are, before it begins; the rest are zeros
    fresh: bool = False  # whether a receive buffer that is on the disk gets zeros
    scan_period: int = 10**11  # ps
    events: int = 256  # that can wait for a kernel thread
    buffer_entries: int = 1024
    process_entries: int = 64
    garbage: bool = False  # whether a page stands in for what no library has pinned

    page = PAGE
    last_page = 63  # of an address space

    def number(self, process):
        """Of a process on its node: its address space; its port is one more."""
        node = self.programs[process].node
        return sum(other.node == node for other in self.programs[:process])

    @property
    def streams(self):
        """By which packets are numbered, acknowledged and brought again."""
        return Streams(self.network.nodes, self.connections)

    def peer_of(self, one):
        """What the node of a channel or an import knows its stream by."""
        many = len(self.programs)
        peer = one.export if isinstance(one, Import) else one.tag % many
        return self.streams.peer_of(one.node, one.connection, int(one.process < peer))


def content(process, written=PAGES):
    """What the memory of a process holds at first, of which so many pages are written."""
    size = written * PAGE
    return (bytes(range(251)) * (size // 251 + 2))[31 * process :][:size].ljust(PAGES * PAGE, b"\0")


def step_costs():
    return st.sampled_from((0, 1, 5, 10, 10, 33, 100, 257, 1000))


@st.composite
def services(draw, design, tight):
    found = {name: draw(step_costs()) for name in STEPS}
    found["post"] += 1
    found["handshake"] *= design == "unet-mm-pca200"
    if tight:  # a kernel thread that many wait for
        found["thread_delay"], found["thread_work"] = draw(st.sampled_from(SLOWLY)), 1000
    found["fetch"] += found["table_dma"]  # which is a part of it
    return found


def tables():
    """A call of n pages, n from 0 to 64."""
    return st.builds(
        lambda call, page, more: [
            0,
            *(call + page * count + more * (count % 3) for count in range(1, 65)),
        ],
        st.integers(0, 300),
        st.integers(0, 100),
        st.integers(0, 50),
    )


def deliveries(by_message=False):
    few = st.integers(1, 9 if by_message else 4)
    return st.builds(
        Delivery,
        policy=st.sampled_from((STORE_AND_FORWARD,) + (CUT_THROUGH,) * (not by_message)),
        eager=st.booleans(),
        minpulse_send=st.integers(40, PAGE),
        minpulse_receive=st.integers(40, PAGE),
        send_buffers=few,
        receive_buffers=few,
        send_ring=st.integers(1, 12 if by_message else 5),
        receive_ring=st.integers(1, 12 if by_message else 5),
        max_payload=st.just(PAGE),
        logging=st.booleans(),
        by_message=st.just(by_message),
    )


@st.composite
def settings_of(draw, design):
    """Tables and caches that are too small as often as not."""
    if design == "unet":
        return {"area_bytes": PAGES * PAGE}
    if design in TABLES:
        return {"entries": draw(st.sampled_from((8, 24, 1024)))}
    if design == "mini":
        line, ways = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2)))
        sets = draw(st.sampled_from((1, 2, 4, 128)))
        mark = draw(st.sampled_from(("none", "none", 0, 3, 8)))
        return {"entries": sets * line * ways, "line": line, "ways": ways, "high_water": mark}
    entries = draw(st.sampled_from((1, 2, 2, 4, 4, 8, 8, 1024)))
    if design == "unet-mm-pca200":
        return {"entries": entries, "victim_entries": draw(st.sampled_from((0, 1, 2, 4)))}
    cache = {
        "entries": entries,
        "ways": min(entries, draw(st.sampled_from((1, 2, 4)))),
        "index_offset": draw(st.booleans()),
        "pin_limit": draw(st.sampled_from((6, 9, "none"))),
    }
    if design == "vmmc-interrupt":
        return cache | {"pin_limit": draw(st.sampled_from((3, 6, "none")))}
    found = {
        "replacement": draw(st.sampled_from(("lru", "mru", "lfu", "mfu", "random"))),
        "prepin": draw(st.sampled_from((1, 1, 2, 5))),
        "seed": draw(st.integers(0, 3)),
    }
    if design == "utlb-process":
        return found | {"entries": draw(st.sampled_from((6, 9, 64)))}
    return found | cache | {"prefetch": draw(st.sampled_from((1, 1, 2, 4)))}


def tightest(draw, design):
    """As few entries as a packet and a port that send and receive can do with, or fewer."""
    if design == "mini":
        line, ways = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2)))
        return {"entries": line * ways, "line": line, "ways": ways}
    if design == "unet-mm-pca200":
        return {"entries": draw(st.sampled_from((1, 2))), "victim_entries": draw(st.integers(0, 2))}
    if design == "vmmc-interrupt":
        entries = draw(st.sampled_from((1, 2, 4)))
        limit = draw(st.sampled_from((1, 2, 3)))
        return {"entries": entries, "ways": draw(st.sampled_from((1, entries))), "pin_limit": limit}
    return draw(settings_of(design))


@st.composite
def worlds(
    draw,
    designs=DESIGNS,
    reliable=(False, True),
    losses=(0.0,),
    others=(0.0,),
    closes=False,
    deaths=False,
    tight=False,
    by_connection=False,
    swaps=False,
    by_message=False,
    loops=False,
):
    network = crossbar(draw(st.sampled_from((2, 4, 4) if tight else (2, 2, 3, 3, 4))))
    hosts = list(range(network.nodes))
    hosts += draw(st.lists(st.integers(0, network.nodes - 1), min_size=loops, max_size=2))
    hosts.sort()
    channels, imports = [], []
    unit = draw(st.sampled_from((PAGE, PAGE, 100, 300)))
    many = len(hosts)
    begins = [EXPORTED * PAGE + draw(st.integers(0, PAGE)) for _ in hosts]
    exports = [Export(me, me, begin, 3 * PAGE) for me, begin in enumerate(begins)]
    for me in range(many):
        for peer in range(many):
            if hosts[me] != hosts[peer] or (loops and me != peer):
                channels.append(Channel(me, me * many + peer, hosts[peer], peer * many + me, unit))
                one = exports[peer]
                imports.append(
                    Import(me, me * many + peer, hosts[peer], peer, one.start, one.length)
                )
    connections = []
    if by_connection:
        connections, channels, imports = draw(connected(hosts, channels, imports))
    ring = draw(st.sampled_from((2, 4, 8)))
    design = draw(st.sampled_from(designs))
    places = PLACES + 2 * (design == "vmmc-static")  # there also buffers that are not mapped
    programs = [
        Program(host, draw(plans(me, hosts, ring, places, closes, tight, swaps, loops)))
        for me, host in enumerate(hosts)
    ]
    if deaths:
        programs[0].steps.append(("sleep", 10**8))  # it sees the end of all that goes on
    loss = draw(st.sampled_from(losses))
    return World(
        network,
        draw(costs((WATCHDOG,))) | draw(st.sampled_from(CELLS)),
        draw(services(design, tight)),
        draw(tables()),
        draw(tables()),
        draw(deliveries(by_message)),
        programs,
        channels,
        exports,
        imports,
        design=design,
        settings=tightest(draw, design) if tight else draw(settings_of(design)),
        connections=connections,
        **(draw(swapping(design, hosts)) if swaps else {}),
        reliable=draw(st.sampled_from(reliable)),
        window=draw(st.sampled_from((1, 2, 4, 8))),
        time_out=draw(st.sampled_from((20_000, 100_000, 300_000))),
        most_retries=20
        if (loss or any(others)) and not tight
        else draw(st.integers(2, 5)),  # nobody is taken for dead who lives
        seed=draw(st.integers(0, 1000)),
        loss=loss,
        node_deaths=draw(times_of(range(1, network.nodes))) if deaths else {},
        link_deaths=draw(times_of(range(network.links))) if deaths else {},
        duplication=draw(st.sampled_from(others)),
        reordering=draw(st.sampled_from(others)),
        corruption=draw(st.sampled_from(others)),
        ack_delay=draw(st.sampled_from((0, 100, 1000, 5000))),
        ack_every=draw(st.sampled_from((1, 2, 3, 8))),
        ring=ring,
        ready=draw(st.integers(1, 8)),
        events=draw(st.sampled_from((1, 1, 2) if tight else (1, 2, 3, 256))),
        buffer_entries=draw(st.sampled_from((4, 8, 1024))),
        process_entries=draw(st.sampled_from((4, 64))),
        garbage=design in LIBRARIES and draw(st.booleans()),
    )


@st.composite
def swapping(draw, design, hosts):
    """Hosts with few frames, so that pages go to the disk, and what is fresh when it comes back."""
    frames = draw(st.sampled_from((512, 512, 40, 20, 10))) if design != "unet" else 512
    written = draw(st.sampled_from((PAGES, PAGES, 6)))
    least = max(0, max(hosts.count(host) for host in hosts) * written - frames + 1)
    return {
        "frames": frames,
        "blocks": least + draw(st.sampled_from((1, 8, 2048, 2048))),
        "written": written,
        "fresh": draw(st.booleans()),
        "scan_period": draw(st.sampled_from((3000, 50_000, 10**11))),
    }


def times_of(numbers):
    """When some of these die."""
    moments = st.integers(1, 20_000)
    return st.dictionaries(st.sampled_from(numbers), moments, max_size=2)
