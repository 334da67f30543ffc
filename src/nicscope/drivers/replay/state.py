"""What a scheme's kernel is handed: a NIC, its host, the book, and a piece of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.pinning import Pinning
from nicscope.nic.layout import Nic
from nicscope.nic.translate.state import Host, Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import Stream
    from nicscope.nic.recency import Recency
    from nicscope.nic.translate.book import Book


class Case(NamedTuple):
    """One node under one design; its requests and lookups are overwritten piece by piece.

    ``number`` names the unit of each lookup, ``key`` what the cache knows it by: the same, but for
    a cache that is keyed by table index.  A kernel of a scheme, one of several passes or the only
    one, is handed besides which requests of the stream the piece has, and how many lookups.
    """

    nic: Nic
    host: Any  # a ``Host`` with arrays of length 0 where a replay has none
    book: Book
    stream: Stream  # shape (requests,), as ``laid`` and ``opened``
    laid: NDArray[np.int32]  # lookups of each request
    opened: NDArray[np.uint8]  # 1 if it has further pages of the unit that was looked up before
    # shape (1,): whether the unit that was looked up last was not pinned before.
    fresh: NDArray[np.int64]
    number: NDArray[np.uint32]  # shape (lookups,), as all that follow
    key: NDArray[np.uint32]
    set_index: NDArray[np.uint32]  # low bits of what chooses the set
    receive: NDArray[np.uint8]
    outcome: NDArray[np.uint8]  # as ``book`` has it
    missed: NDArray[np.uint32]  # one more: lookups with which a later pass has to do
    evicted: NDArray[np.uint32]  # one more: which tag left for each of them
    found: NDArray[np.int64]  # shape (1,): how many these are
    held: Recency | None  # what a cache of one wide set holds, or the victims


# By its type, kernels are compiled without what would ask for more.
NOTHING: Any = None


def whole(host: Host, pinning: Pinning) -> Any:
    """``host`` with an array for everything, as it is to be handed over."""
    none: Any = np.zeros(0, np.int64)
    return host._replace(
        pinning=pinning._replace(held=none), pin_action_count=none, pin_actions=none, in_use=none
    )


@step
def _pinning_only(pinning):
    return Pinning(
        pinning.rules,
        pinning.state,
        pinning.processes,
        pinning.links,
        pinning.buckets,
        pinning.members,
        pinning.places,
        NOTHING,
    )


@step
def timeless(case):
    """The NIC, the host and the book for firmware steps where no time passes and no byte moves.

    Nobody reads a frame, nothing is held, and no deed is written down.
    """
    nic, host, pinning = case.nic, case.host, case.host.pinning
    return (
        Nic(
            nic.config,
            nic.registers,
            nic.tags,
            NOTHING,
            NOTHING,
            NOTHING,
            nic.links,
            nic.left,
            nic.chains,
            nic.nexts,
            nic.victims,
        ),
        Host(
            host.numbering,
            _pinning_only(pinning),
            host.indices,
            host.lines,
            host.table_entries,
            host.run_ends,
            host.numbers,
            NOTHING,
            NOTHING,
            NOTHING,
        ),
        case.book,
    )


@step
def request_of(case, row, at):
    """Request ``row``, whose lookups begin at ``at``, one for each page."""
    stream = case.stream
    return Request(
        np.int64(stream.process[row]),
        stream.first[row],
        np.int64(stream.pages[row]),
        np.int64(stream.receive[row]),
        at,
    )


@step
def laid_out(case, row, at):
    """Request ``row`` as those of its units that were laid out, which begin at ``at``."""
    stream = case.stream
    units = np.int64(case.laid[row])
    first = stream.first[row] + np.int64(stream.pages[row]) - units
    return Request(np.int64(stream.process[row]), first, units, np.int64(stream.receive[row]), at)
