"""What the state of a cluster whose NICs serve ports takes in memory, before any of it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.ports.build import (
    HANDLE_WAYS,
    QUEUES,
    Setup,
    frames_of,
    spaces_of_memory,
)
from nicscope.drivers.simulate.ports.shapes import Extent, port_shapes
from nicscope.drivers.translation.need import translation_bytes
from nicscope.memory.numbering import BLOCK, capacity
from nicscope.memory.paging.layout import memory_shapes
from nicscope.nic.handles import BUFFER_WORDS, PROCESS_WORDS
from nicscope.nic.layout import cache_bytes
from nicscope.nic.ports.pools import pool_shapes
from nicscope.nic.ports.shared_tables import shared_shapes
from nicscope.nic.ports.work_queues import work_shapes
from nicscope.room import bytes_of

if TYPE_CHECKING:
    from nicscope.config.delivery import Delivery


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
        + nodes * translation_bytes(setup.design, spaces, keys, setup.size.longest)
        + nodes * sum(cache_bytes(count * words, HANDLE_WAYS, words) for count, words in handles)
    )


def _keys(setup: Setup, spaces: int) -> int:
    """Pages of a node that have numbers, or room for one."""
    line = setup.design.line or 1
    if setup.numberings:
        return max(map(capacity, setup.numberings)) * line
    blocks = spaces * -(-(setup.host.pages_per_space // line) // BLOCK)
    return (1 << max(blocks - 1, 0).bit_length()) * BLOCK * line
