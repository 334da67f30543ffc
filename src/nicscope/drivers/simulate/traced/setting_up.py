"""The machine of a program trace before its first row: its ports, memory, exports and imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.drivers.simulate.build import machine_bytes, new_machine
from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Setup, new_ports
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.ports.need import ports_bytes
from nicscope.drivers.simulate.store import new_store
from nicscope.drivers.simulate.traced.build import (
    LOGGED,
    ROW_BYTES,
    new_traced,
    rows_of_program,
)
from nicscope.drivers.simulate.traced.pages import pages_of_nodes
from nicscope.drivers.simulate.traced.program import check_fits_machine
from nicscope.drivers.simulate.traced.state import PAIR
from nicscope.drivers.simulate.traced.wiring import wiring_of
from nicscope.drivers.translation.build import line_bits_of
from nicscope.errors import SimulationError
from nicscope.fabric.topology import crossbar
from nicscope.host.calls import admit_piece
from nicscope.kernel.decorators import kernel
from nicscope.kernel.distant import link
from nicscope.kernel.entering import bound
from nicscope.memory.numbering import capacity, grown
from nicscope.memory.paging.resident import make_resident
from nicscope.nic.ports.calls import keep_pages
from nicscope.nic.ports.layout import DONE, MAY_FETCH, MAY_WRITE, NOBODY
from nicscope.nic.translate.codes import STATIC, UTLB
from nicscope.room import check_room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery, Transport
    from nicscope.config.design import Design
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.costs import ServiceCosts
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.traced.pages import NodePages
    from nicscope.drivers.simulate.traced.program import Program
    from nicscope.drivers.simulate.traced.state import Traced
    from nicscope.drivers.simulate.traced.wiring import Wiring
    from nicscope.fabric.topology import Topology

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

    Of a host's memory only the pages that are touched take any.
    """
    assert setup.design.page_size is not None
    nodes, page = program.node_count, setup.design.page_size
    touched = sum(each.pages for each in pages)
    untouched = nodes * setup.host.frames - touched
    rows = len(program.operation)
    need = ports_bytes(setup, delivery) - untouched * page
    need += machine_bytes(delivery, nodes, program.processes) + rows * ROW_BYTES + LOGGED * 16
    need += len(wiring.pairs) * PAIR.itemsize + 4 * program.processes**2
    check_room(
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
    traced: Traced,
) -> Machine:
    store = new_store(
        topology.nodes,
        program.processes,
        0,
        (delivery.send_ring, delivery.receive_ring),
        (delivery.send_buffers, delivery.receive_buffers),
        delivery.max_payload,
        0,
    )._replace(host=ports.memory.bytes)
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
        exports[name] = NOBODY
    exports["length"] = EVERYTHING
    exports["rights"] = MAY_WRITE | MAY_FETCH
    exports["valid"][:, 0] = 1
    exports["space"][:, 0] = many
    exports["port"][:, 0] = many + 1
    imports["length"] = EVERYTHING
    imports["rights"] = MAY_WRITE | MAY_FETCH
    for p, home in wiring.home_ways.tolist():
        way = imports[nodes[p], machine.traced.home_ways[p, home]]
        way["port"], way["node"], way["export"] = ordinals[p] + 1, home, 0
    at = machine.traced.pair_at
    for node, place in np.argwhere(at != NOBODY).tolist():
        pair = machine.traced.pairs[at[node, place]]
        p, q = wiring.pairs[at[node, place]].tolist()
        export = exports[node, place]
        export["valid"] = 1
        export["space"], export["port"] = ordinals[q], ordinals[q] + 1
        way = imports[nodes[p], pair["way"]]
        way["port"], way["node"], way["export"] = ordinals[p] + 1, node, place


def _register(machine: Machine, pages: list[NodePages], design: Design) -> None:
    """Have every page that others reach pinned where an export pins; before time begins.

    It counts nowhere: what an export costs is no part of the program.
    """
    scheme = int(machine.ports.rules[0]["scheme"])
    if scheme >= UTLB or scheme == STATIC:
        entry = bound(register_pages, machine)
        for node, each in enumerate(pages):
            for port, first, count in zip(
                *(column.tolist() for column in each.exported), strict=True
            ):
                if entry(node, port - 1, first, count) != DONE:
                    total = int(each.exported.pages.sum())
                    raise SimulationError(
                        f"node {node} exports {total:,} pages, and design {design.name!r} cannot "
                        "have them all pinned; give it a larger table (--set entries=...) or no "
                        "limit (--set pin_limit=none)"
                    )
    machine.ports.translations.book.counts[:] = 0
    machine.ports.nodes["checks"] = 0


@kernel
def register_pages(machine, n, space, first, pages):
    """Have these pages pinned and kept; ``DONE``, or why they cannot be."""
    longest = machine.ports.rules[0].longest
    for begin in range(first, first + pages, longest):
        count = min(longest, first + pages - begin)
        admit_piece(machine, n, space, begin, count)
        if machine.ports.nodes[n].admitted != DONE:
            return np.int64(machine.ports.nodes[n].admitted)
        keep_pages(machine, n, space, begin, count, 1)
    return np.int64(DONE)
