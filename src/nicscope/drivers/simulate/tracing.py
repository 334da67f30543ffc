"""A request trace in virtual time: each node's requests, one after the other, through its NIC.

A trace does not say what is at the other end, so every node has a peer of its own whose NIC takes
everything into its own memory and answers out of it: a *sink*.  Requests that read the local buffer
are remote stores to it, those that write the local buffer are remote fetches from it.  All pages
are in memory from the beginning, and only the user library keeps pages pinned for a request, as in
a replay; with one packet outstanding no transfer holds an entry that the next page wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from nicscope.config.design import POLICIES, Delivery, Design, Transport
from nicscope.drivers.replay.columns import RequestColumns, Stream, TracePartitioner, pieces
from nicscope.drivers.replay.page_numbering import numbering_of
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.bus.build import bus_frames, bus_of_ports
from nicscope.drivers.simulate.observe import ACCOUNT_NAMES
from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Setup, new_ports, ports_bytes
from nicscope.drivers.simulate.records import POST
from nicscope.drivers.simulate.script import ROWS_AT_ONCE, Scripted, rows_of
from nicscope.drivers.translation import counts_of, line_bits_of, nic_memory_bytes
from nicscope.fabric.topology import pair
from nicscope.memory.numbering import Numbering, capacity
from nicscope.memory.paging.layout import make_resident
from nicscope.memory_limit import check_memory
from nicscope.nic.ports import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.bus.state import Bus, Parameters
    from nicscope.drivers.simulate.ports.costs import ServiceCosts
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.nic.coherent import Mechanism

SINK = 1  # the node beside node 0, which is the trace's
HOSTS = 2  # the node and its sink
EVERYTHING = 1 << 62  # bytes
PS_PER_NS = 1000
RING = 8  # descriptors of a port; one is outstanding


class AtBus(NamedTuple):
    """The hosts' caches and bus, and how payloads cross that."""

    parameters: Parameters
    mechanism: Mechanism


class NodeRequests(NamedTuple):
    """The requests of one node, columns of equal length."""

    number: int  # the node's
    processes: int
    process: NDArray[np.int64]  # ordinal on the node
    address: NDArray[np.int64]  # 64 bits
    length: NDArray[np.int64]  # bytes
    receive: NDArray[np.int64]
    time_ps: NDArray[np.int64]  # from the trace's beginning, or zeros


class NodeOutcome(NamedTuple):
    """What became of the requests of one node."""

    number: int
    requests: int
    byte_count: int
    counts: dict[str, int | None]  # by the names of a replay
    elapsed_ps: int
    times_ps: dict[str, int]  # by ``ACCOUNT_NAMES``; their sum is ``elapsed_ps``
    latency_ps: int  # sum over requests, from post to report
    events: int
    repeated: int  # lookups that a retry repeated, not in ``counts``
    stale: int
    failed: int  # requests that ended with an error
    packets: int  # that the node's NIC sent
    nic_memory_bytes: dict[str, int]


def partition_trace(batches: Iterable[RequestColumns], timed: bool = False) -> list[NodeRequests]:
    """The requests of each node, in the order of the nodes' numbers.

    With ``timed`` the batches have ``time_ns`` too, and it is kept.
    """
    parter = TracePartitioner()
    kept: list[list[NDArray[np.int64]]] = []
    beginning: int | None = None
    for batch in batches:
        for piece in pieces(len(batch.node)):
            rows = slice(piece.start, piece.stop)
            owner = parter.owners(batch, piece)
            members = parter.directory.members[owner]
            times = np.zeros(len(owner), np.int64)
            if timed:
                beginning = int(_times_of(batch)[0]) if beginning is None else beginning
                times = _since(batch, rows, beginning)
            columns = (
                members["ordinal"].astype(np.int64),
                batch.address[rows].view(np.int64),
                batch.length[rows].astype(np.int64),
                batch.receive[rows].astype(np.int64),
                times,
            )
            places = members["node"]
            for place in np.unique(places).tolist():
                while place >= len(kept):
                    kept.append([])
                chosen = places == place
                kept[place].append(np.stack([column[chosen] for column in columns]))
    directory = parter.directory
    found = [
        NodeRequests(
            int(directory.nodes[place]), int(directory.processes[place]), *np.concatenate(parts, 1)
        )
        for place, parts in enumerate(kept)
    ]
    return sorted(found, key=lambda requests: requests.number)


def _since(batch: Any, rows: slice, beginning: int) -> NDArray[np.int64]:
    return (_times_of(batch)[rows] - beginning) * PS_PER_NS


def _times_of(batch: Any) -> NDArray[np.int64]:
    times: NDArray[np.int64] = batch.time_ns
    return times


def simulate_node(
    requests: NodeRequests,
    design: Design,
    transfers: Mapping[str, int],
    service: ServiceCosts,
    *,
    delivery: Delivery = POLICIES["adaptive"],
    window: int = 1,
    at_bus: AtBus | None = None,
    fits: Callable[[dict[str, int]], None] | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> NodeOutcome:
    """What becomes of one node's requests under ``design``, whose page size is settled.

    ``transfers`` and ``service``: what it costs, as ``config`` and ``ports.costs`` give it.
    ``at_bus``: where the hosts have caches, and the way is over their buses.
    ``fits`` is handed the bytes of each structure and buffer on the NIC before anything runs.
    ``window``: packets that may be outstanding; with more than one, entries are held that a replay
    finds free, and counts may differ from its.
    """
    assert design.page_size is not None
    page_bits = design.page_size.bit_length() - 1
    delivery = msgspec.structs.replace(
        delivery, max_payload=max(delivery.max_payload, design.page_size)
    )
    ports, bus = _ports_for(requests, design, page_bits, service, delivery, window, at_bus)
    if fits is not None:
        staged = (delivery.send_buffers + delivery.receive_buffers) * delivery.max_payload
        fits({**nic_memory_bytes(ports.translations, 0), "buffers": staged})
    scripted = Scripted([transfers] * 2, delivery, pair(), [0], ports, accounts=True, bus=bus)
    scripted.run([_script(requests, page_bits)], watch=watch)
    machine = scripted.machine
    serving = ports.nodes[0]
    return NodeOutcome(
        number=requests.number,
        requests=len(requests.length),
        byte_count=int(requests.length.sum()),
        counts=counts_of(ports.translations, 0),
        elapsed_ps=int(machine.tally[0]["now"]),
        times_ps=dict(zip(ACCOUNT_NAMES, machine.account.tolist(), strict=True)),
        latency_ps=int(machine.scripted[0]["latency"]),
        events=int(machine.tally[0]["events"]),
        repeated=int(serving["repeated"]),
        stale=int(serving["stale"]),
        failed=int(machine.scripted[0]["failed"]),
        packets=int(machine.endpoints[0]["next_number"]),
        nic_memory_bytes=nic_memory_bytes(ports.translations, 0),
    )


def _pages(requests: NodeRequests, page_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First page of each request, and how many it has."""
    begin = requests.address.view(np.uint64)
    end = begin + (requests.length.astype(np.uint64) - np.uint64(1))
    shift = np.uint64(page_bits)
    first = (begin >> shift).astype(np.int64)
    return first, (end >> shift).astype(np.int64) - first + 1


def _numbering(requests: NodeRequests, design: Design, page_bits: int) -> tuple[Numbering, int]:
    """Numbers of all pages, and how many pages the longest request has."""
    first, pages = _pages(requests, page_bits)
    stream = Stream(
        requests.process.astype(np.int32),
        first,
        pages.astype(np.int32),
        requests.receive.astype(np.uint8),
        requests.length.astype(np.uint32),
    )
    numbering = numbering_of(stream, line_bits_of(design), (design.prepin or 1) - 1)
    return numbering, int(pages.max())


def _ports_for(
    requests: NodeRequests,
    design: Design,
    page_bits: int,
    service: ServiceCosts,
    delivery: Delivery,
    window: int,
    at_bus: AtBus | None,
) -> tuple[Ports, Bus | None]:
    numbering, longest = _numbering(requests, design, page_bits)
    many = requests.processes
    frames = (capacity(numbering) << line_bits_of(design)) + 1
    rings = (many + 1, RING)
    if at_bus is not None:
        frames += bus_frames(at_bus.parameters, at_bus.mechanism, rings, 1 << page_bits)
    check_memory(
        HOSTS * frames * (1 << page_bits),
        f"simulating {frames:,} pages of {1 << page_bits} bytes, with every byte, on {HOSTS} hosts",
        "take fewer requests with --requests, or replay the trace, which moves no bytes",
    )
    setup = Setup(
        design=design,
        processes=[many] * 2,
        ports=many + 1,
        costs=[service.steps] * 2,
        user_pin=[service.user_pin] * 2,
        user_unpin=[service.user_unpin] * 2,
        transport=Transport(window=window, ack_delay_ps=0),
        host=HostSize(
            frames=frames,
            pages_per_space=1,
            swap_blocks=1,
        ),
        size=PortSize(ring=RING, ready=1, channels=1, exports=1, imports=many, longest=longest),
        numberings=[numbering] * 2,
        node_numbers=[requests.number, SINK],
    )
    need = ports_bytes(setup, delivery) + machine_bytes(delivery, 2, 1, script=ROWS_AT_ONCE)
    check_memory(need, f"design {design.name!r} over this trace", "give it fewer entries or pages")
    ports, bus = new_ports(setup, delivery), None
    if at_bus is not None:
        interrupt = service.steps["interrupt"]
        bus = bus_of_ports(
            at_bus.parameters, at_bus.mechanism, delivery, ports.memory, 1, interrupt, rings
        )
        ports = ports._replace(memory=ports.memory._replace(caches=bus.hosts))
    make_resident(ports.memory, 0)
    table = ports.table[0, 1:]
    table["open"] = 1
    table["space"] = np.arange(many)
    sink = ports.shared.exports[SINK]
    sink["valid"] = 1
    sink["length"] = EVERYTHING
    sink["rights"] = layout.MAY_WRITE | layout.MAY_FETCH
    for name in ("port", "space", "node", "importer"):
        sink[name] = layout.NOBODY
    way = ports.shared.imports[0]
    way["port"] = np.arange(1, many + 1)
    way["node"] = SINK
    way["length"] = EVERYTHING
    way["rights"] = layout.MAY_WRITE | layout.MAY_FETCH
    return ports, bus


def _script(requests: NodeRequests, page_bits: int) -> NDArray[Any]:
    rows = rows_of(len(requests.length))
    rows["port"] = requests.process + 1
    rows["operation"] = POST
    rows["own"] = np.where(requests.receive == 1, layout.FETCH, layout.WRITE)
    rows["name"] = requests.process
    # The two ends are aligned alike, so a packet ends where a page does.
    rows["offset"] = requests.address & ((1 << page_bits) - 1)
    rows["address"] = requests.address
    rows["length"] = requests.length
    rows["not_before"] = requests.time_ps
    return rows
