"""Which pages of each node a program trace touches, numbered, and which are there for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.replay.columns import Stream
from nicscope.drivers.replay.naming import numbering_of
from nicscope.drivers.simulate.traced.state import DEPOSIT_ROW, FETCH_ROW, SEND_ROW, SYNC_BYTES
from nicscope.drivers.simulate.traced.wiring import SYNC_ADDRESS
from nicscope.drivers.translation.build import line_bits_of
from nicscope.memory.numbering import fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.drivers.simulate.traced.program import Program
    from nicscope.drivers.simulate.traced.wiring import Wiring
    from nicscope.memory.numbering import Numbering


class Runs(NamedTuple):
    """Runs of pages of one node that others reach; columns of equal length."""

    port: NDArray[np.int64]  # of the process in whose space they are
    first: NDArray[np.int64]
    pages: NDArray[np.int64]


class NodePages(NamedTuple):
    """Of one node."""

    numbering: Numbering  # of every page that it touches
    longest: int  # pages of a request
    pages: int  # that are touched
    exported: Runs


def pages_of_nodes(
    program: Program, wiring: Wiring, ordinals: NDArray[np.int64], exporters: NDArray[np.int64],
    design: Design,
) -> list[NodePages]:  # fmt: skip
    """The pages of each node.

    ``ordinals``: the place of each process on its node; ``exporters``: that of each node's process
    that computes nothing.
    """
    assert design.page_size is not None
    bits = design.page_size.bit_length() - 1
    touched = _touched(program, wiring, ordinals, exporters)
    found = []
    for node in range(program.node_count):
        mine = touched[touched[:, 0] == node]
        first = mine[:, 2] >> bits
        pages = ((mine[:, 2] + mine[:, 3] - 1) >> bits) - first + 1
        stream = Stream(
            mine[:, 1].astype(np.int32),
            first,
            pages.astype(np.int32),
            np.zeros(len(mine), np.uint8),
            mine[:, 3].astype(np.uint32),
        )
        numbering = fitted(numbering_of(stream, line_bits_of(design), (design.prepin or 1) - 1))
        remote = mine[:, 4] == 1
        exported = _runs(mine[remote, 1] + 1, first[remote], pages[remote])
        everything = _runs(mine[:, 1], first, pages)
        longest = int(pages.max(initial=1))
        found.append(NodePages(numbering, longest, int(everything.pages.sum()), exported))
    return found


def _touched(
    program: Program,
    wiring: Wiring,
    ordinals: NDArray[np.int64],
    exporters: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Node, process there, address, bytes, and whether another node reaches it; each once."""
    operation, owners, nodes = program.operation, program.owners, program.nodes
    remote = np.flatnonzero(np.isin(operation, (FETCH_ROW, DEPOSIT_ROW)))
    sends = np.flatnonzero(operation == SEND_ROW)
    sends = sends[nodes[owners[sends]] != nodes[program.peer[sends]]]
    receivers = program.peer[sends]
    moving = np.concatenate([remote, sends])
    mover = owners[moving]
    words = np.arange(program.processes)
    homes = np.arange(program.node_count)
    parts = [
        (nodes[mover], ordinals[mover], wiring.addresses[moving], wiring.lengths[moving], 0),
        (
            program.peer[remote],
            exporters[program.peer[remote]],
            wiring.offsets[remote],
            wiring.lengths[remote],
            1,
        ),
        (nodes[receivers], ordinals[receivers], wiring.offsets[sends], wiring.lengths[sends], 1),
        (nodes, ordinals[words], np.full(len(words), SYNC_ADDRESS), SYNC_BYTES, 1),
        (homes, exporters, np.full(len(homes), SYNC_ADDRESS), SYNC_BYTES, 1),
    ]
    rows = [
        np.stack(np.broadcast_arrays(*(np.asarray(column, np.int64) for column in part)), 1)
        for part in parts
    ]
    return np.unique(np.concatenate(rows), axis=0)


def _runs(owner: NDArray[np.int64], first: NDArray[np.int64], pages: NDArray[np.int64]) -> Runs:
    """The same pages in as few runs as may be, each page once."""
    order = np.lexsort((first, owner))
    owner, first, end = owner[order], first[order], (first + pages)[order]
    if not len(owner):
        return Runs(owner, first, end)
    # The furthest end so far of the same owner: ends are lifted so that owners do not mix.
    lift = np.cumsum(np.concatenate([[0], owner[1:] != owner[:-1]])) * np.int64(1 << 52)
    reached = np.maximum.accumulate(end + lift) - lift
    begins = np.ones(len(owner), np.bool_)
    begins[1:] = (owner[1:] != owner[:-1]) | (first[1:] > reached[:-1])
    last = np.append(np.flatnonzero(begins)[1:] - 1, len(owner) - 1)
    return Runs(owner[begins], first[begins], reached[last] - first[begins])
