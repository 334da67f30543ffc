"""What a language model's service asks of a pool of KV cache, as the requests of the pool's NIC.

Engines keep full blocks of tokens alone, so those are what is transferred.  The trace is that of
one rank's NIC beside the pool: blocks that are found are read out of its memory, the others written
into it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.imported import Imported, filled
from nicscope.traces.kv_layout import Cutter
from nicscope.traces.kv_pool import place
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.kv_layout import KvChoices
    from nicscope.traces.schema import TraceMetadata

    Reader = Callable[[Input, KvChoices | None, Watch | None], "Served"]

BATCH_REQUESTS = 1 << 20
MOST_TOKENS = 1 << 31  # of a request


class Served(NamedTuple):
    """All requests of a file; their references to full blocks one after the other."""

    time_ns: NDArray[np.int64]
    firsts: NDArray[np.int64]  # shape (requests + 1,): where the references of each begin
    ids: NDArray[np.int64]
    lines: NDArray[np.int64]
    observed: dict[str, int]  # what was counted while reading
    assumed: tuple[str, ...] = ()  # what the file does not say, in words


def named(name: str, choices: Choices) -> KvChoices:
    """Whose KV cache it is.  Errors: ``TraceError`` beginning with ``name`` if nobody said."""
    if choices.kv is None:
        raise TraceError(
            f"{name}: blocks of tokens have a size once a model is named: --model llama-3-70b"
        )
    return choices.kv


class Service:
    """The requests of one NIC beside a pool; its rows are known before any is made."""

    def __init__(self, name: str, served: Served, choices: Choices) -> None:
        """Errors: ``TraceError`` beginning with ``name`` if no model is named, or none fits."""
        kv = named(name, choices)
        self._served, self._choices, self._kv = served, choices, kv
        self._placed = place(served.firsts, served.ids, kv.blocks)
        self._store = kv.store(self._placed.used)
        self._cutter = Cutter(self._store)
        self.rows = len(served.ids) * self._cutter.requests_of_block

    def tell(self, metadata: TraceMetadata, importer: str) -> None:
        """Write into ``metadata`` what was read, chosen and assumed."""
        metadata.page_size = self._choices.page_size
        metadata.origin.update(importer=importer, **self._kv.said())
        if self._served.assumed:
            metadata.origin["assumed"] = list(self._served.assumed)
        metadata.regions = [
            {"address": int(start), "bytes": self._store.region_bytes}
            for start in self._store.region_starts()
        ]
        metadata.observed.update(self._observed())

    def batches(self) -> Iterator[Imported]:
        """All requests, from the first one on; may be asked for more than once."""
        served, placed, each = self._served, self._placed, self._cutter.requests_of_block
        request = np.repeat(np.arange(len(served.lines)), np.diff(served.firsts))
        is_found = np.arange(len(request)) - served.firsts[request] < placed.found[request]
        step = max(1, BATCH_REQUESTS // each)
        for first in range(0, len(request), step):
            piece = slice(first, first + step)
            address, length = self._cutter.requests(placed.slots[piece])
            op = np.where(is_found[piece], Op.SERVE_READ, Op.SERVE_WRITE).astype(np.uint8)
            columns = {
                "time_ns": np.repeat(served.time_ns[request[piece]], each),
                "node": filled(self._choices.node, len(address), np.int32),
                "pid": filled(self._choices.pid, len(address), np.int32),
                "op": np.repeat(op, each),
                "address": address,
                "length": length,
            }
            yield Imported(columns, functools.partial(_place, served.lines[request[piece]], each))

    def _observed(self) -> dict[str, Any]:
        served, block_bytes = self._served, self._store.block_bytes
        read = int(self._placed.found.sum())
        written = len(served.ids) - read
        return {
            "service_requests": len(served.lines),
            **served.observed,
            "full_block_references": len(served.ids),
            "distinct_full_blocks": int(np.unique(served.ids).size),
            "blocks_read": read,
            "blocks_written": written,
            "blocks_evicted": self._placed.evicted,
            "bytes_read": read * block_bytes,
            "bytes_written": written * block_bytes,
        }


def read_service(
    importer: str,
    read: Reader,
    source: Input,
    choices: Choices,
    metadata: TraceMetadata,
    watch: Watch | None = None,
) -> Iterator[Imported]:
    """Requests of one rank's NIC beside a pool of KV cache; ``choices.kv`` says of which model.

    Errors: ``TraceError`` naming the line that is no such request, or if no model is named.
    """
    kv = named(source.name, choices)
    service = Service(source.name, read(source, kv, watch), choices)
    service.tell(metadata, importer)
    yield from service.batches()


def _place(lines: NDArray[np.int64], each: int, row: int) -> str:
    return f"line {lines[row // each]}"
