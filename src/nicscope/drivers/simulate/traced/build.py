"""The machine of a program trace before its first row: ports, memory, exports, imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from nicscope.drivers.simulate.build import machine_bytes, new_machine
from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Setup, new_ports, ports_bytes
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.records import ROW
from nicscope.drivers.simulate.store import new_store
from nicscope.drivers.simulate.traced import state
from nicscope.drivers.simulate.traced.program import (
    ROW_NAMES,
    SYNC_ADDRESS,
    NodePages,
    OthersWaitedFor,
    Program,
    WaitedFor,
    Wiring,
    check_fits_machine,
    pages_of_nodes,
    rounds_of,
    wiring_of,
)
from nicscope.drivers.translation import line_bits_of
from nicscope.errors import SimulationError
from nicscope.fabric.topology import Topology, crossbar
from nicscope.host.calls import admit_piece, apply_pin_actions
from nicscope.kernel.decorators import kernel
from nicscope.kernel.distant import link
from nicscope.kernel.entry import bound
from nicscope.kernel.records import records
from nicscope.memory.numbering import capacity, grown
from nicscope.memory.paging.layout import make_resident
from nicscope.memory.pinning import PINNED
from nicscope.memory_limit import check_memory
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import keep_pages
from nicscope.nic.translate.book import HANDLE, STATIC, UTLB, pin_page
from nicscope.nic.translate.requests import key_of_page
from nicscope.nic.translate.state import translation_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nicscope.config.design import Delivery, Design, Transport
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.costs import ServiceCosts
    from nicscope.drivers.simulate.ports.state import Ports


PS_PER_NS = 1000
LOGGED = 1 << 20  # misses of which delays are kept
# Bytes of each row: itself, its place in queues, when it began, how far it is, what it needs.
ROW_BYTES = ROW.itemsize + 4 + 8 + 1 + 4 + 2 * 8


def rows_of_program(program: Program, wiring: Wiring, ordinals: NDArray[np.int64]) -> NDArray[Any]:
    """The rows of every process, one after the other."""
    rows = np.zeros(len(program.operation), ROW)
    rows["process"] = program.owners
    rows["port"] = ordinals[program.owners] + 1
    rows["operation"] = program.operation
    rows["peer"] = program.peer
    rows["name"] = wiring.names
    rows["address"] = wiring.addresses
    rows["length"] = wiring.lengths
    rows["offset"] = wiring.offsets
    rows["not_before"] = program.duration_ns.astype(np.int64) * PS_PER_NS
    return rows


def new_traced(
    program: Program,
    wiring: Wiring,
    *,
    depth: int,
    ring: int,
    exports: int,
    keep_ends: bool = False,
) -> state.Traced:
    """Every process before its first row; ``exports`` of a node, the first its memory.

    With ``keep_ends`` the time at which each row ended is kept, beside when it began.
    """
    rows, processes = len(program.operation), program.processes
    notes = processes * (ring + 2) + len(wiring.meetings) * (rounds_of(program.node_count) + 1)
    traced = state.no_traced()._replace(
        followers=records(processes, state.FOLLOWER),
        times=np.zeros((processes, state.PARTS), np.int64),
        took=np.zeros((processes, len(ROW_NAMES)), np.int64),
        link=np.full(rows, state.NO_ROW, np.int32),
        begun=np.full(rows, -1, np.int64),
        ended=np.full(rows if keep_ends else 0, -1, np.int64),
        progress=np.zeros(rows, np.uint8),
        notes=_notes(notes),
        misses=np.zeros((LOGGED, 2), np.int64),
    )
    traced = _with_waits(traced, program)
    traced.rules["depth"] = depth
    traced.rules["sync_address"] = SYNC_ADDRESS
    _place_followers(traced, program)
    traced = _with_pairs(traced, program, wiring, exports)
    locks = records(len(wiring.lock_nodes), state.LOCKING)
    locks["node"] = wiring.lock_nodes
    for name in ("holder", "first", "last"):
        locks[name] = state.NO_ROW
    return _with_barriers(traced._replace(locks=locks), program, wiring)


def _notes(count: int) -> NDArray[Any]:
    """``count`` notes, all on the free list."""
    notes = records(count, state.NOTE)
    notes["link"] = np.arange(1, count + 1)
    notes["link"][-1] = state.NO_ROW
    return notes


def _place_followers(traced: state.Traced, program: Program) -> None:
    followers = traced.followers
    followers["first"] = followers["next"] = program.first[:-1]
    followers["last"] = program.first[1:]
    queues = ("ready", "over", "notes", "receives", "came")
    for name in (*queues, *(f"{each}_end" for each in queues), "held", "at", "heard", "ended_at"):
        followers[name] = state.NO_ROW
    followers["alone"] = np.bincount(program.nodes)[program.nodes] == 1
    if not len(traced.needs):
        return
    for follower in followers:
        free = np.arange(follower["first"], follower["last"])
        free = free[traced.needs[follower["first"] : follower["last"]] == 0]
        if len(free):
            traced.link[free[:-1]] = free[1:]
            follower["ready"], follower["ready_end"] = free[0], free[-1]


def _with_waits(traced: state.Traced, program: Program) -> state.Traced:
    """Who waits for whom; nothing where every row waits for the one before it alone."""
    others = (program.after_others, program.after_start_others)
    if program.after is None and program.after_start is None and others == (None, None):
        return traced
    ends = [_own(program, program.after), _others(program.after_others)]
    if program.after is None:
        has_before = np.ones(len(program.operation) + 1, np.bool_)
        has_before[program.first] = False
        followed = np.flatnonzero(has_before[:-1])
        ends.append((followed, followed - 1))
    begins = [_own(program, program.after_start), _others(program.after_start_others)]
    needs = np.zeros(len(program.operation), np.int32)
    enders = _reversed_edges(ends, needs)
    return traced._replace(needs=needs, enders=enders, starters=_reversed_edges(begins, needs))


_Edges: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"  # who waits, for which row
_NONE: _Edges = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _own(program: Program, waited_for: WaitedFor | None) -> _Edges:
    if waited_for is None:
        return _NONE
    waiting = np.repeat(np.arange(len(program.operation)), np.diff(waited_for.first))
    begins = program.first[np.searchsorted(program.first, waiting, "right") - 1]
    return waiting, waited_for.places.astype(np.int64) + begins


def _others(waited_for: OthersWaitedFor | None) -> _Edges:
    if waited_for is None:
        return _NONE
    counts = np.diff(waited_for.first)
    return np.repeat(np.arange(len(counts)), counts), waited_for.rows


def _reversed_edges(edges: list[_Edges], needs: NDArray[np.int32]) -> state.Waits:
    """The edges from the other end, for each row; adds to ``needs`` how many each row waits for."""
    rows = len(needs)
    waiting, named = (np.concatenate(each) for each in zip(*edges, strict=True))
    if not len(waiting):
        return state.no_waits()
    needs += np.bincount(waiting, minlength=rows).astype(np.int32)
    order = np.argsort(named, kind="stable")
    first = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(named, minlength=rows), out=first[1:])
    return state.Waits(first, waiting[order].astype(np.int32))


def _with_pairs(
    traced: state.Traced, program: Program, wiring: Wiring, exports: int
) -> state.Traced:
    """Number imports and exports: of each node those of its memory, then those of pairs."""
    processes, nodes = program.processes, program.node_count
    home_ways = np.full((processes, nodes), state.NO_ROW, np.int32)
    used = np.zeros(nodes, np.int64)
    for p, node in wiring.home_ways.tolist():
        here = program.nodes[p]
        home_ways[p, node] = used[here]
        used[here] += 1
    pairs = records(len(wiring.pairs), state.PAIR)
    pair_of = np.full((processes, processes) if len(pairs) else (0, 0), state.NO_ROW, np.int32)
    pair_at = np.full((nodes, exports), state.NO_ROW, np.int32)
    taken = np.ones(nodes, np.int64)
    for number, (p, q) in enumerate(wiring.pairs.tolist()):
        here, there = program.nodes[p], program.nodes[q]
        pairs[number]["sender"] = p
        pairs[number]["way"] = used[here]
        used[here] += 1
        pair_of[p, q] = number
        pair_at[there, taken[there]] = number
        taken[there] += 1
    pairs["first"] = pairs["last"] = state.NO_ROW
    return traced._replace(home_ways=home_ways, pairs=pairs, pair_of=pair_of, pair_at=pair_at)


def _with_barriers(traced: state.Traced, program: Program, wiring: Wiring) -> state.Traced:
    meetings = records(len(wiring.meetings), state.MEETING)
    barriers = max((each.barrier for each in wiring.meetings), default=-1) + 1
    meeting_of = np.full((barriers, program.node_count), state.NO_ROW, np.int32)
    counts = np.bincount([each.barrier for each in wiring.meetings], minlength=barriers)
    begins = np.concatenate([[0], np.cumsum(counts)])
    for place, meeting in enumerate(wiring.meetings):
        record: Any = meetings[place]
        record["begin"] = begins[meeting.barrier]
        record["nodes"] = counts[meeting.barrier]
        record["rounds"] = rounds_of(int(counts[meeting.barrier]))
        record["parties"] = meeting.parties
        record["speaker"] = meeting.speaker
        meeting_of[meeting.barrier, meeting.node] = place
    for name in ("first", "last", "later", "later_end"):
        meetings[name] = state.NO_ROW
    rounds = int(meetings["rounds"].max(initial=0))
    heard = np.zeros((len(meetings), rounds), np.int64)
    return traced._replace(meetings=meetings, meeting_of=meeting_of, heard=heard)


RING = 64  # entries of a port's queues
DEPTH = 16  # descriptors of a process that are outstanding, at most
EVERYTHING = 1 << 62  # bytes


class Subject(NamedTuple):
    """What a program is timed on."""

    design: Design  # its page size settled
    transfers: Mapping[str, int]  # as ``config`` gives them
    service: ServiceCosts
    delivery: Delivery
    transport: Transport  # reliable, or fetches have no answers
    kinds: bool = True
    processors: int = 1  # of each host, 1 or 2


def set_up(program: Program, subject: Subject, *, keep_ends: bool = False) -> Machine:
    """The machine at time 0, linked, with every exported page registered.

    With ``keep_ends`` the time at which each row ends is kept.  Errors: ``SimulationError`` for
    what the machine cannot do, ``RoomError`` if there is no memory for it.
    """
    check_fits_machine(program)
    design = subject.design
    assert design.page_size is not None
    nodes = program.nodes
    many = np.bincount(nodes)
    ordinals = np.arange(len(nodes)) - np.searchsorted(nodes, nodes)
    wiring = wiring_of(program)
    pages = pages_of_nodes(program, wiring, ordinals, many, design)
    delivery = msgspec.structs.replace(
        subject.delivery, max_payload=max(subject.delivery.max_payload, design.page_size)
    )
    setup = _setup(program, subject, wiring, pages)
    topology = crossbar(len(many))
    _check_room(program, setup, delivery, pages, wiring)
    ports = new_ports(setup, delivery)
    traced = new_traced(
        program, wiring, depth=DEPTH, ring=RING, exports=setup.size.exports, keep_ends=keep_ends
    )
    machine = _machine(program, subject, topology, delivery, ports, traced)
    machine.script[:] = rows_of_program(program, wiring, ordinals)
    machine.scripted["depth"] = DEPTH
    machine.scripted["port"] = ordinals + 1
    # Processes that have a processor each compute on it, and interrupts may take it from them; of
    # more of them each is as if it had one that nothing else takes.
    machine.nodes["processors"] = subject.processors
    traced.followers["alone"] = many[nodes] <= subject.processors
    _open_ports(machine, program, wiring, ordinals, many)
    link(machine, FUNCTIONS)
    _register(machine, pages, design)
    return machine


def _setup(program: Program, subject: Subject, wiring: Wiring, pages: list[NodePages]) -> Setup:
    design, service = subject.design, subject.service
    nodes = program.node_count
    many = np.bincount(program.nodes)
    blocks = max(len(each.numbering.owners) for each in pages)
    numberings = [grown(each.numbering, blocks) for each in pages]
    here, there = program.nodes[wiring.pairs[:, 0]], program.nodes[wiring.pairs[:, 1]]
    homes = program.nodes[wiring.home_ways[:, 0]]
    out = np.bincount(here, minlength=nodes) + np.bincount(homes, minlength=nodes)
    return Setup(
        design=design,
        processes=(many + 1).tolist(),
        ports=int(many.max()) + 2,
        costs=[service.steps] * nodes,
        user_pin=[service.user_pin] * nodes,
        user_unpin=[service.user_unpin] * nodes,
        transport=subject.transport,
        host=HostSize(
            frames=(capacity(numberings[0]) << line_bits_of(design)) + 1,
            pages_per_space=1,
            swap_blocks=1,
        ),
        size=PortSize(
            ring=RING,
            ready=1,
            channels=1,
            exports=1 + int(np.bincount(there, minlength=nodes).max()),
            imports=max(1, int(out.max())),
            longest=max(each.longest for each in pages),
        ),
        numberings=numberings,
        follows=True,
        kinds=subject.kinds,
    )


def _check_room(
    program: Program,
    setup: Setup,
    delivery: Delivery,
    pages: list[NodePages],
    wiring: Wiring,
) -> None:
    """Refuse a program that has no room, before anything of it is made.

    The hosts' memory takes none: no byte of it is touched.
    """
    assert setup.design.page_size is not None
    nodes, page = program.node_count, setup.design.page_size
    touched = sum(each.pages for each in pages)
    rows = len(program.operation)
    need = ports_bytes(setup, delivery) - nodes * setup.host.frames * page
    need += machine_bytes(delivery, nodes, program.processes) + rows * ROW_BYTES + LOGGED * 16
    need += len(wiring.pairs) * state.PAIR.itemsize + 4 * program.processes**2
    check_memory(
        need,
        f"timing {rows:,} operations on {nodes:,} nodes, which touch {touched:,} pages of {page} "
        "bytes,",
        "take a smaller size of the program, or fewer processes",
    )


def _machine(
    program: Program,
    subject: Subject,
    topology: Topology,
    delivery: Delivery,
    ports: Ports,
    traced: state.Traced,
) -> Machine:
    store = new_store(
        topology.nodes,
        program.processes,
        0,  # bytes of a host: a program trace says which are moved, and not what they are
        (delivery.send_ring, delivery.receive_ring),
        (delivery.send_buffers, delivery.receive_buffers),
        delivery.max_payload,
        0,
    )
    return new_machine(
        [subject.transfers] * topology.nodes,
        delivery,
        topology,
        store,
        keep_messages=0,
        keep_log=0,
        hosts=program.nodes.tolist(),
        ports=ports,
        script=len(program.operation),
        traced=traced,
    )


def _open_ports(
    machine: Machine,
    program: Program,
    wiring: Wiring,
    ordinals: NDArray[np.int64],
    many: NDArray[np.int64],
) -> None:
    """Open the ports of processes and exporters, and have each reach what it is to."""
    ports: Any = machine.ports
    nodes = program.nodes
    for node in range(len(many)):
        make_resident(ports.memory, node)
        table = ports.table[node]
        table["open"][: many[node] + 2] = 1
        table["space"][1:] = np.arange(len(table) - 1)
    exports, imports = ports.shared.exports, ports.shared.imports
    for name in ("node", "importer"):
        exports[name] = layout.NOBODY
    exports["length"] = EVERYTHING
    exports["rights"] = layout.MAY_WRITE | layout.MAY_FETCH
    exports["valid"][:, 0] = 1
    exports["space"][:, 0] = many
    exports["port"][:, 0] = many + 1
    imports["length"] = EVERYTHING
    imports["rights"] = layout.MAY_WRITE | layout.MAY_FETCH
    for p, home in wiring.home_ways.tolist():
        way = imports[nodes[p], machine.traced.home_ways[p, home]]
        way["port"], way["node"], way["export"] = ordinals[p] + 1, home, 0
    at = machine.traced.pair_at
    for node, place in np.argwhere(at != layout.NOBODY).tolist():
        pair = machine.traced.pairs[at[node, place]]
        p, q = wiring.pairs[at[node, place]].tolist()
        export = exports[node, place]
        export["valid"] = 1
        export["space"], export["port"] = ordinals[q], ordinals[q] + 1
        way = imports[nodes[p], pair["way"]]
        way["port"], way["node"], way["export"] = ordinals[p] + 1, node, place


def _register(machine: Machine, pages: list[NodePages], design: Design) -> None:
    """Has every exported page pinned before time begins, where pages are pinned without an entry.

    Not where a pin and an entry are one.  It counts nowhere: the base system pins what it exports
    (miNI, I: registered prior to communication), and to miNI's tables the first distribution has
    brought it, which is no part of the program either.
    """
    scheme = int(machine.ports.rules[0]["scheme"])
    if scheme >= UTLB or scheme in (STATIC, HANDLE):
        entry = bound(register_in_table if scheme == HANDLE else register_pages, machine)
        for node, each in enumerate(pages):
            for port, first, count in zip(
                *(column.tolist() for column in each.exported), strict=True
            ):
                if entry(node, port - 1, first, count) != layout.DONE:
                    total = int(each.exported.pages.sum())
                    raise SimulationError(
                        f"node {node} exports {total:,} pages, and design {design.name!r} cannot "
                        "have them all pinned; give it a larger table (--set entries=...) or no "
                        "limit (--set pin_limit=none)"
                    )
    counts = machine.ports.translations.book.counts
    pinned = counts["pinned_pages"].copy()
    counts[:] = 0
    if scheme == HANDLE:
        counts["pinned_pages"] = pinned  # which the high water is about
    machine.ports.nodes["checks"] = 0


@kernel
def register_in_table(machine, n, space, first, pages):
    """Pins these pages into the host's table, and none of them is on the NIC; ``DONE``."""
    for page in range(first, first + pages):
        _, host, book = translation_of(machine.ports.translations, n)
        key = key_of_page(host, book, space, page)
        if host.pinning.state[key] & PINNED == 0:
            pin_page(host, book, space, key, 1)
            apply_pin_actions(machine, n, np.int64(1))
    return np.int64(layout.DONE)


@kernel
def register_pages(machine, n, space, first, pages):
    """Registers and pins these pages; ``DONE``, or why that failed."""
    longest = machine.ports.rules[0].longest
    for begin in range(first, first + pages, longest):
        count = min(longest, first + pages - begin)
        admit_piece(machine, n, space, begin, count)
        if machine.ports.nodes[n].admitted != layout.DONE:
            return np.int64(machine.ports.nodes[n].admitted)
        keep_pages(machine, n, space, begin, count, 1)
    return np.int64(layout.DONE)
