"""Where the memory begins that processes registered ahead: at the lowest address of each.

A pass of its own, before the replay, over the same batches in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.replay import parting
from nicscope.drivers.replay.columns import new_stream
from nicscope.drivers.replay.parting import Parter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nicscope.config.design import Design
    from nicscope.drivers.replay.columns import RequestColumns

Lowest = list[list[int]]  # by node, then by process, in order of appearance: bytes
LEAST_BITS = 9  # of a page: the lowest address is told in these
_NONE = np.iinfo(np.int64).max


def registers_ahead(designs: Iterable[Design]) -> bool:
    """Whether some design needs to know where the memory of processes begins."""
    return any(design.registered is not None for design in designs)


def lowest_addresses(batches: Iterable[RequestColumns]) -> Lowest:
    """The lowest address of each process, rounded down to the smallest page."""
    parter, stream = Parter(), new_stream(parting.ROWS)
    found: list[np.ndarray] = []
    for batch in batches:
        for piece in parting.pieces(len(batch.node)):
            parter.owners(batch, piece)
            for share in parter.shares(LEAST_BITS, stream):
                if share.place == len(found):
                    found.append(np.zeros(0, np.int64))
                processes = int(parter.directory.processes[share.place])
                missing = processes - len(found[share.place])
                found[share.place] = np.append(found[share.place], np.full(missing, _NONE))
                rows = slice(share.begin, share.end)
                np.minimum.at(found[share.place], stream.process[rows], stream.first[rows])
    return [[int(low) << LEAST_BITS for low in node] for node in found]
