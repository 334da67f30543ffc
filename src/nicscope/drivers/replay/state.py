"""What a scheme's kernel is handed: a NIC, its host, the observer's book and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory.indices import Indices
    from nicscope.memory.lines import Lines
    from nicscope.memory.numbering import Numbering
    from nicscope.memory.pinning import Pinning


class Host(NamedTuple):
    """One node's host side; the parts that a scheme does not use are empty."""

    numbering: Numbering  # of the units that the stream's numbers name
    pinning: Pinning
    indices: Indices  # of translation tables that the user library manages
    lines: Lines  # filled lines that may be unpinned


class Stretch(NamedTuple):
    """A stretch of a node's stream; columns of shape (requests,), ``numbers`` one per unit."""

    process: NDArray[np.int32]
    first: NDArray[np.int64]
    pages: NDArray[np.int32]
    receive: NDArray[np.uint8]
    length: NDArray[np.uint32]
    numbers: NDArray[np.uint32]


class Request(NamedTuple):
    """One request, as kernels pass it on."""

    process: Any
    first: Any  # page number
    pages: Any
    receive: Any
    at: Any  # where its units' numbers begin


@kernel
def request_of(requests, row, at):  # type: ignore[no-untyped-def]
    """Request ``row``, whose numbers begin at ``at``."""
    return Request(
        np.int64(requests.process[row]),
        requests.first[row],
        np.int64(requests.pages[row]),
        np.int64(requests.receive[row]),
        at,
    )


@kernel
def set_of(nic, book, process, number):  # type: ignore[no-untyped-def]
    """The set in which the entry for ``number`` of ``process`` belongs."""
    return (number + process * book.orders[0].offset_step) & (nic.config[0].sets - 1)
