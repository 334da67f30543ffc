"""The NIC that serves ports against its twin: every report, action and byte, to the picosecond."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

import numpy as np
import port_world as world
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Delivery, Policy, load_design, with_settings
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, Transport
from nicscope.drivers.simulate.ports.connections import connect
from nicscope.drivers.simulate.records import REGISTER
from nicscope.errors import SimulationError
from nicscope.fabric.faults import CORRUPTED, DUPLICATED, LOST, REORDERED, fate, flip, new_faults
from nicscope.fabric.topology import Topology
from nicscope.interfaces.unet import Area
from nicscope.memory.paging.layout import PRESENT, SWAPPED
from nicscope.nic.ports.layout import SEND, STATUS_NAMES
from oracle.delivery_records import LOG_FIELDS
from oracle.ports_records import NO_FRAME, REFUSED
from oracle.ports_reports import COUNTED, SCHEMES, SWAPPING, told
from oracle.ports_sizes import PAGE, PAGES
from oracle.ports_worlds import Channel, Import, World, content, worlds
from suite import share

KEEP_LOG = 1 << 15
FATES = {LOST: "lost", DUPLICATED: "doubled", REORDERED: "late", CORRUPTED: "corrupted"}
LOSSY = {"losses": (0.0, 0.03, 0.1), "others": (0.0, 0.05, 0.1)}
COMPETING = ("mini", "mini", "vmmc-interrupt", "unet-mm-pca200", "vmmc-static")
SWAPPING_DESIGNS = [one for one in SCHEMES if one != "utlb"]  # whose tables have frames too
TIGHT = {"designs": COMPETING, "reliable": (True,), "tight": True}
REGISTERING = ("vmmc-static", "utlb", "utlb-shared", "utlb-process")


def cluster_of(drawn: World) -> Any:
    """The cluster that is drawn, with its programs."""
    network, delivery = drawn.network, asdict(drawn.delivery)
    delivery["policy"] = Policy(delivery["policy"])
    changed = [f"{name}={value}" for name, value in (drawn.settings | {"page_size": PAGE}).items()]
    changed = [one.replace("True", "true").replace("False", "false") for one in changed]
    cluster = world.cluster_of(
        with_settings(load_design(drawn.design), changed),
        platform="pca200-linux" if drawn.design == "unet" else None,  # where the NIC serves
        nodes=network.nodes,
        policy=Delivery(**delivery),
        topology=Topology("drawn", network.nodes, network.links, network.paths, network.hops),
        transport=Transport(
            reliable=drawn.reliable,
            window=drawn.window,
            time_out_ps=drawn.time_out,
            most_retries=drawn.most_retries,
            ack_delay_ps=drawn.ack_delay,
            ack_every=drawn.ack_every,
            by_connection=bool(drawn.connections),
        ),
        faults=Faults(
            seed=drawn.seed,
            loss=drawn.loss,
            duplication=drawn.duplication,
            reordering=drawn.reordering,
            corruption=drawn.corruption,
            node_deaths=drawn.node_deaths,
            link_deaths=drawn.link_deaths,
        ),
        host=HostSize(
            frames=drawn.frames,
            pages_per_space=drawn.last_page + 1,
            swap_blocks=drawn.blocks,
            scan_period_ps=drawn.scan_period,
            processors=1,
        ),
        fresh=drawn.fresh,
        size=PortSize(
            ring=drawn.ring,
            ready=drawn.ready,
            events=drawn.events,
            buffer_entries=drawn.buffer_entries,
            process_entries=drawn.process_entries,
            connections=drawn.streams.most(),
        ),
        keep_log=KEEP_LOG,
    )
    cluster.garbage = drawn.garbage
    cluster.prepare = lambda processes: prepare(cluster, drawn, processes)
    assert set(drawn.costs) == set(cluster._transfers)
    assert set(drawn.service) <= set(cluster._service.steps)
    cluster._transfers.update(drawn.costs)
    cluster._service.steps.update(drawn.service)
    for name in ("user_pin", "user_unpin"):
        getattr(cluster._service, name)[:] = getattr(drawn, name)
    return cluster


def prepare(cluster: Any, drawn: World, processes: Any) -> None:
    """Have processes' memory as it is before any program begins, and all connections."""
    connect_all(cluster, drawn)
    for me, process in enumerate(processes):
        if cluster.is_pinned_area:
            Area(process, process.number, PAGES)
        else:
            process.allocate(PAGES * PAGE)
        first = content(me, drawn.written)[: drawn.written * PAGE]
        process._memory.write(process.node, process.number, 0, first)


def connect_all(cluster: Any, drawn: World) -> None:
    """Give each connection its stream, and find that its ends know it by what the twin says."""
    for (here, there), ends in zip(drawn.connections, drawn.streams.ends(), strict=True):
        made = connect(cluster.simulation.machine.ports, here, there)
        assert made == tuple(end.peer for end in ends)


def stream_of(one: Channel | Import, drawn: World) -> int:
    """As a record of the machine has it: 0 is the stream of the two nodes."""
    return 0 if one.connection is None else drawn.peer_of(one)


async def perform(process: Any, drawn: World, me: int, results: list, pins: list) -> None:
    """Prepare the names of process ``me``, then do its steps."""
    for one in drawn.channels:
        if one.process == me:
            size = {"unit": one.unit, "most": one.most, "stream": stream_of(one, drawn)}
            world.join(process, one.tag, one.node, one.peer_tag, **size)
    for export in drawn.exports:
        if export.process == me:
            world.export(process, export.number, export.start, export.length, export.rights)
    for one in drawn.imports:
        if one.process == me:
            world.import_from(process, one.handle, one.node, one.export, one.start, one.length)
            record = process._ports.shared.imports[process.node, one.handle]
            record["start"] = one.start % PAGE
            record["stream"] = stream_of(one, drawn)
    spaces = process._memory.state.spaces
    for step in drawn.programs[me].steps:
        if step[0] in ("inline", "post", "done"):
            pins.append((now(process), int(spaces[process.node, process.number]["pinned"])))
        await do(process, step, results)


async def do(process: Any, step: tuple, results: list) -> None:
    """One step, and what came of it."""
    what, *how = step
    found: Any = None
    if what == "sleep":
        await process.sleep(how[0] / 1e6)
        return
    if what == "swap":
        process._memory.keep_free(process.node, how[0])
        return
    if what == "drain":
        while process.waiting():
            arrival = await process.arrival()
            results.append((now(process), tuple(arrival)))
            if how[0] and arrival.status == "done":
                for address in arrival.buffers:
                    await do(process, ("provide", address), results)
        return
    if what == "compute":
        await process.compute(how[0] / 1e6)
    elif what == "register":
        if process.cluster.design.name in REGISTERING:
            ended = await process._sim_process.ask(
                REGISTER, peer=process.port, address=how[0], payload=how[1]
            )
            found = STATUS_NAMES[ended.address]
        else:
            return
    elif what == "inline":
        found = await process.post_inline(SEND, *how)
    elif what == "post":
        operation, name, segments, offset, notify = how
        found = await process.post(operation, name, segments, offset=offset, notify=notify)
    elif what == "close":
        await process.close_port()
    elif what == "provide":
        await process.provide(how[0])
    elif what == "done":
        found = await report_or_refusal(process.done(how[0]))
    elif what in ("load", "store"):
        found = await touched(process, what, *how)
    elif what == "arrival":
        found = await report_or_refusal(process.arrival(how[0]))
    results.append((now(process), found))


async def touched(process: Any, what: str, address: int, count: int) -> Any:
    """What the process has loaded, if it has; or that the host has no frame for it."""
    try:
        if what == "load":
            return await process.load(address, count)
        state = process._memory.state
        there = held(state, process.node, process.number)[address : address + count]
        await process.store(address, there)  # a NIC that reads it meanwhile sees no difference
    except SimulationError as refusal:
        if "no frame" not in str(refusal):
            raise
        return NO_FRAME
    return None


async def report_or_refusal(asked: Any) -> Any:
    """The report that was asked for, or that the port is closed and has none."""
    try:
        return tuple(await asked)
    except SimulationError as refusal:
        if "is closed" not in str(refusal):
            raise
        return REFUSED


def now(process: Any) -> int:
    return round(process.now_us * 1e6)


def driven(drawn: World) -> Any:
    """Results by process, log, final memory, counts by node, and pins of the machine."""
    cluster = cluster_of(drawn)
    results: list[list] = [[] for _ in drawn.programs]
    pins: list[list] = [[] for _ in drawn.programs]
    for me, program in enumerate(drawn.programs):
        cluster.start(
            program.node,
            lambda process, me=me: perform(process, drawn, me, results[me], pins[me]),
        )
    with contextlib.suppress(SimulationError):  # programs may wait for ever: the twin says which
        cluster.run()
    machine = cluster.simulation.machine
    columns = np.stack([machine.log[name] for name in LOG_FIELDS], 1)
    used = columns.any(axis=1).nonzero()[0]
    log = [tuple(row) for row in columns[: used[-1] + 1].tolist()]
    assert len(log) < KEEP_LOG
    memory = [
        held(cluster.memory.state, program.node, drawn.number(me))
        for me, program in enumerate(drawn.programs)
    ]
    paging = [in_memory(cluster.memory.state, node) for node in range(drawn.network.nodes)]
    report = cluster.report()
    counts = [counted(node) for node in report.nodes]
    assert machine.ports.nodes["stale"].sum() == 0
    return results, log, memory, counts, pinned(cluster.memory.state), pins, paging


def counted(node: Any) -> dict[str, int]:
    """What the report of a run says of a node, by the twin's names."""
    found = {name: getattr(node, name) for name in COUNTED if "_" not in name}
    for name in set(COUNTED) - set(found):
        what, path = name.split("_")
        found[name] = getattr(getattr(node, what), path) or 0
    return found


def held(memory: Any, node: int, space: int) -> bytes:
    """The bytes of a process, wherever its pages are; looking at them brings none."""
    pages = []
    for entry in memory.entries[node, space, :PAGES]:
        place = {PRESENT: memory.bytes, SWAPPED: memory.block_bytes}.get(int(entry["state"]))
        number = int(entry["frame" if place is memory.bytes else "block"])
        there = bytes(PAGE)
        if place is not None:
            there = place[node, number * PAGE : (number + 1) * PAGE].tobytes()
        pages.append(there)
    return b"".join(pages)


def in_memory(memory: Any, node: int) -> tuple:
    """Frames of the pages of processes that are in memory, and what the swapper has done."""
    host = memory.hosts[node]
    frames = {
        (space, page): int(memory.entries[node, space, page]["frame"])
        for space, page in np.argwhere(memory.entries[node]["state"] == PRESENT).tolist()
    }
    return frames, {name: int(host[name]) for name in SWAPPING}


def pinned(memory: Any) -> list[tuple[int, int, int]]:
    """Node, space and page of all that is pinned."""
    found = []
    for node, space, page in np.ndindex(memory.entries.shape):
        frame = memory.entries[node, space, page]["frame"]
        if frame >= 0 and memory.frames[node, frame]["pinner"] == space:
            found.append((node, space, page))
    return found


class Network:
    """What becomes of packets, as it is drawn by seed."""

    def __init__(self, drawn: World) -> None:
        self.faults = new_faults(
            drawn.seed,
            loss=drawn.loss,
            duplication=drawn.duplication,
            reordering=drawn.reordering,
            corruption=drawn.corruption,
        )[0]

    def fate(self, sender: int, packet: int) -> list[str]:
        """All that befalls a packet."""
        found = fate(self.faults, sender, packet, 0)
        return [name for bit, name in FATES.items() if found & bit]

    def flip(self, sender: int, packet: int, payload: bytes, framing: int) -> bytes:
        """The payload with one bit wrong, unless that is one of what is framed behind it."""
        content = np.frombuffer(payload + bytes(framing), np.uint8).copy()
        flip(content, self.faults, sender, packet, 0)
        return content[: len(payload)].tobytes()


def in_order(log):
    ends, node, engine = (LOG_FIELDS.index(name) for name in ("end", "node", "engine"))
    return sorted(log, key=lambda row: (row[ends], row[node], row[engine], row))


def compare(drawn: World) -> None:
    """The same of both."""
    results, log, *rest = driven(drawn)
    told_results, told_log, *told_rest = told(drawn, Network(drawn))
    for ours, theirs in zip(in_order(log), in_order(told_log), strict=False):
        assert ours == theirs, f"at {min(ours[7], theirs[7])}\n machine {ours}\n twin    {theirs}"
    for me in range(len(results)):
        for ours, theirs in zip(results[me], told_results[me], strict=False):
            assert ours == theirs, (me, "machine", ours, "twin", theirs)
        assert len(results[me]) == len(told_results[me]), me
    assert len(log) == len(told_log)
    names = ("memory", "counts", "pinned at last", "pins", "paging")
    for name, ours, theirs in zip(names, rest, told_rest, strict=True):
        assert ours == theirs, name


@pytest.mark.parametrize("design", SCHEMES)
@share(0.4)
@given(data=st.data())
def test_every_report_action_and_byte_is_what_the_twin_says(design, data):
    compare(data.draw(worlds(designs=(design,))))


@share(0.2)
@given(worlds(designs=COMPETING, reliable=(True,), others=(0.0, 0.1), tight=True))
def test_so_it_is_where_many_packets_want_the_same_few_entries(drawn):
    compare(drawn)


@share(0.4)
@given(worlds(closes=True))
def test_so_it_is_where_ports_close_with_work_under_way(drawn):
    compare(drawn)


@share(0.4)
@given(worlds(deaths=True))
def test_so_it_is_where_nodes_and_links_die(drawn):
    compare(drawn)


@share(0.4)
@given(worlds(**LOSSY))
def test_so_it_is_where_packets_are_lost_doubled_late_or_corrupted(drawn):
    compare(drawn)


@pytest.mark.parametrize("loops", [False, True])
@share(0.4)
@given(data=st.data())
def test_so_it_is_where_connections_have_streams_of_their_own_also_to_their_own_node(data, loops):
    trouble = st.sampled_from(({}, {"tight": True}, {"closes": True}, {"deaths": True}, LOSSY))
    how = data.draw(trouble, label="trouble")
    compare(data.draw(worlds(by_connection=True, loops=loops, **how)))


@share(1.2)
@given(data=st.data())
def test_so_it_is_where_messages_wait_for_their_last_packets(data):
    """Also with losses, deaths, ports that close and entries that are few."""
    how = data.draw(st.sampled_from(({}, {}, LOSSY, {"deaths": True}, {"closes": True}, TIGHT)))
    compare(data.draw(worlds(by_message=True, **how)))


@share(0.6)
@given(data=st.data())
def test_so_it_is_where_hosts_run_short_of_frames_and_pages_go_to_the_disk(data):
    trouble = st.sampled_from(({}, {"tight": True}, {"closes": True}, {"deaths": True}, LOSSY))
    how = data.draw(trouble, label="trouble")
    compare(data.draw(worlds(designs=SWAPPING_DESIGNS, swaps=True, **how)))
