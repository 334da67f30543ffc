"""Hits and misses of the contexts and work requests of a trace's connections on an RDMA NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.errors import StudyError, TraceError, did_you_mean
from nicscope.nic.context_cache import LRU, RANDOM
from nicscope.traces.schema import FIRST_RECEIVE, FIRST_REGISTRATION, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.drivers.replay.connections import Sizes
    from nicscope.traces.reader import Trace

CONNECTION, PEER = "connection", "peer"  # columns; the first that a trace has says it
REPLACEMENTS = {"lru": LRU, "random": RANDOM}
POSTED_BY_PEERS = (Op.SERVE_READ, *range(FIRST_RECEIVE, FIRST_REGISTRATION))
MOST_SLOTS = 1 << 26
MOST_OUTSTANDING = 1 << 12
OUTSTANDING = 16  # assumed: what programs of few threads post ahead


class ConnectionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a NIC needed of its connections, in all and on each node."""

    contexts: int  # that the NIC keeps
    work_requests: int
    outstanding: int  # requests of a connection
    replacement: str
    rule: str  # what a connection is
    total: dict[str, int]
    nodes: list[dict[str, int]]  # each with its number, "node"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def sizes_of(
    contexts: int | None, work_requests: int | None, outstanding: int | None, replacement: str
) -> Sizes | None:
    """The sizes that were asked for; None if nothing was.

    Errors: ``StudyError`` naming the option.
    """
    from nicscope.drivers.replay.connections import Sizes

    if contexts is None and work_requests is None:
        if outstanding is not None:
            raise StudyError(
                f"--tx-depth {outstanding}: it decides on the caches of --contexts and "
                "--work-requests; give their sizes"
            )
        return None
    if contexts is None or work_requests is None:
        missing = "--contexts" if contexts is None else "--work-requests"
        raise StudyError(f"{missing}: give how many the NIC keeps, too")
    if replacement not in REPLACEMENTS:
        raise StudyError(
            f"--context-replacement: no {replacement!r}{did_you_mean(replacement, REPLACEMENTS)}"
        )
    ahead = OUTSTANDING if outstanding is None else outstanding
    for option, value, least, most in (
        ("--contexts", contexts, 0, MOST_SLOTS),
        ("--work-requests", work_requests, 0, MOST_SLOTS),
        ("--tx-depth", ahead, 1, MOST_OUTSTANDING),
    ):
        if not least <= value <= most:
            raise StudyError(f"{option} must be from {least} to {most:,}, got {value:,}")
    return Sizes(contexts, work_requests, ahead, REPLACEMENTS[replacement])


def connection_counts(trace: Trace, sizes: Sizes) -> ConnectionCounts:
    """Replay the connections of ``trace``, which is read once more.

    Errors: ``TraceError`` if nothing says which connection a request used.
    """
    from nicscope.drivers.replay.connections import ConnectionNode, summed

    column = next((name for name in (CONNECTION, PEER) if name in trace.column_names), None)
    nodes: dict[int, ConnectionNode] = {}
    for node, keys, is_posted, known in _requests(trace, column):
        for number in np.unique(node).tolist():
            own = node == number
            chosen = own & known
            if number not in nodes:
                nodes[number] = ConnectionNode(sizes)
            unknown = int(np.count_nonzero(own & ~known))
            nodes[number].feed(keys[chosen], is_posted[chosen], unknown)
    counts = {number: nodes[number].counts() for number in sorted(nodes)}
    total = summed(counts)
    if not total["requests"]:
        raise TraceError(
            f"{trace.name}: nothing says which connection a request used; --contexts and "
            f"--work-requests need a column {CONNECTION!r} (a number on its node) or {PEER!r} (the "
            "node at the other end)"
        )
    rule = "a number of the trace's" if column == CONNECTION else "a process and its peer"
    names = {code: name for name, code in REPLACEMENTS.items()}
    return ConnectionCounts(
        contexts=sizes.contexts,
        work_requests=sizes.work_requests,
        outstanding=sizes.outstanding,
        replacement=names[sizes.replacement],
        rule=rule,
        total=total,
        nodes=[{"node": number, **each} for number, each in counts.items()],
    )


Batch = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.uint8]", "NDArray[np.bool_]"]


def _requests(trace: Trace, column: str | None) -> Iterator[Batch]:
    """Node, key, whether it is posted there, and whether its connection is known, by request."""
    if column is None:
        return
    for requests, batch in trace.record_batches():
        found = batch.column(batch.schema.names.index(column))
        is_request = requests.op < FIRST_REGISTRATION
        known = np.asarray(found.is_valid())[is_request]
        values = _whole_numbers(trace, column, found)[is_request]
        keys = [values]
        if column == PEER:
            keys = [requests.pid[is_request].astype(np.int64), values]
        is_posted = ~np.isin(requests.op[is_request], POSTED_BY_PEERS)
        yield (
            requests.node[is_request].astype(np.int64),
            np.stack(keys, axis=1),
            is_posted.astype(np.uint8),
            known,
        )


def _whole_numbers(trace: Trace, column: str, found: Any) -> NDArray[np.int64]:
    """The values of a column, 0 where there is none.  Errors: ``TraceError`` for no numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        filled = pc.fill_null(pc.cast(found, pa.int64()), 0)
    except (pa.ArrowException, ValueError) as error:
        raise TraceError(
            f"{trace.name}: column {column!r} must hold whole numbers, the connections of each "
            f"node: {str(error).splitlines()[0]}"
        ) from None
    return np.asarray(filled, np.int64)
