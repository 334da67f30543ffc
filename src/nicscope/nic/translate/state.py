"""What a step of a translation is handed beside the NIC and the book: the host, and a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.indices import new_indices
from nicscope.memory.lines import new_lines
from nicscope.memory.numbering import new_numbering

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory.indices import Indices
    from nicscope.memory.lines import Lines
    from nicscope.memory.numbering import Numbering
    from nicscope.memory.pinning import Pinning

DEED = np.dtype([("what", "i8"), ("key", "i8"), ("place", "i8")], align=True)


class Host(NamedTuple):
    """One node's host side; the parts that a scheme does not use are empty.

    Of the last three, a replay, in which no time passes between asking and serving, has none: by
    their type, kernels are compiled without asking for them (``timeless``).
    """

    numbering: Numbering  # of pages; of lines where entries are lines
    pinning: Pinning
    indices: Indices  # of translation tables that the user library manages
    lines: Lines  # filled lines that may be unpinned
    # static registration: the table's entry of each registered page, shape (pages,), and the page
    # after the last one registered in the request at hand, shape (processes,)
    table_entries: NDArray[np.int32]
    run_ends: NDArray[np.int64]
    numbers: NDArray[np.uint32]  # shape (longest request,): of the request at hand
    deed_count: NDArray[np.int64] | None  # shape (1,)
    deeds: NDArray[Any] | None  # DEED; see ``deeds``
    in_use: NDArray[np.int32] | None  # shape (units,): transfers that use the page, or the line


class Request(NamedTuple):
    """One request, as kernels pass it on."""

    process: Any
    first: Any  # page number
    pages: Any
    receive: Any
    at: Any  # where its units' numbers begin


def new_host(pinning: Pinning) -> Host:
    """A host that knows no page and no process yet."""
    return Host(
        new_numbering(16),
        pinning,
        new_indices(),
        new_lines(),
        np.zeros(0, np.int32),
        np.zeros(0, np.int64),
        np.zeros(0, np.uint32),
        None,
        None,
        None,
    )


@step
def set_of(nic, book, process, number):
    """The set in which the entry for ``number`` of ``process`` belongs."""
    return (number + process * book.orders[0].offset_step) & (nic.config[0].sets - 1)
