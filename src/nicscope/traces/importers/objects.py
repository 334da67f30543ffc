"""Accesses to objects of a cache trace as requests: one object is one page."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.files import ByteSource
from nicscope.traces.imported import Imported, filled, op_codes
from nicscope.traces.numbering import Numbering
from nicscope.traces.oracle_general import RECORD, page_bits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import TraceMetadata

MOST_PIDS = np.uint64(np.iinfo(np.int32).max)


class ObjectsAsPages:
    """Turns accesses into requests of the one page that stands for the object.

    The low bits of an object's id are its page, the high ones its process, just as the exporter
    names them; renumbered, objects are the pages 0, 1, 2... of one process in their order of
    appearance.  A request covers the object's bytes up to one page; objects of no bytes are left
    out, as libCacheSim does, and counted.
    """

    def __init__(self, choices: Choices, metadata: TraceMetadata) -> None:
        self._choices = choices
        self._metadata = metadata
        self._numbering = Numbering()
        metadata.page_size = choices.page_size
        metadata.observed.update(objects_without_bytes=0, objects_beyond_a_page=0)

    def columns(
        self,
        time_ns: NDArray[np.int64],
        object_id: NDArray[np.uint64],
        byte_count: NDArray[np.uint32],
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Columns of the requests, and the index of the access that each comes from."""
        page_size = self._choices.page_size
        kept = np.flatnonzero(byte_count)
        observed = self._metadata.observed
        observed["objects_without_bytes"] += int(byte_count.size - kept.size)
        observed["objects_beyond_a_page"] += int((byte_count > page_size).sum())
        page, pid = self._pages(object_id[kept])
        columns = {
            "time_ns": time_ns[kept],
            "node": filled(self._choices.node, kept.size, np.int32),
            "pid": pid,
            "op": op_codes(self._choices.op, kept.size),
            "address": page * np.uint64(page_size),
            "length": np.minimum(byte_count[kept], page_size).astype(np.uint32),
        }
        return columns, kept

    def _pages(self, object_id: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        if self._choices.renumber:
            owner = np.zeros(object_id.size, np.int64)
            page = self._numbering.number(owner, object_id.view(np.int64)).astype(np.uint64)
            return page, filled(self._choices.pid, object_id.size, np.int32)
        bits = page_bits(self._choices.page_size)
        page = object_id & np.uint64((1 << bits) - 1)
        pid = (object_id >> np.uint64(bits)) + np.uint64(self._choices.pid)
        if pid.size and pid.max() > MOST_PIDS:
            raise TraceError(
                f"an object's process, from the high bits of its id and --pid, is {pid.max()}, "
                f"beyond {MOST_PIDS}; choose a smaller --pid, or --renumber"
            )
        return page, pid.astype(np.int32)


BATCH_RECORDS = 1 << 17
NS_PER_S = 1_000_000_000


def read_oracle_general(
    source: Input, choices: Choices, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """One request per record that has bytes; see ``ObjectsAsPages`` for where it lies.

    Errors: ``TraceError`` if the file ends within a record.
    """
    objects = ObjectsAsPages(choices, metadata)
    metadata.origin["importer"] = "oracle-general"
    first = 0
    records_of = ByteSource(source, watch)
    while piece := records_of.read(BATCH_RECORDS * RECORD.itemsize):
        if len(piece) % RECORD.itemsize:
            raise TraceError(
                f"{source.name}: ends within record {first + len(piece) // RECORD.itemsize} (the "
                f"first is 0), whose size is {RECORD.itemsize} bytes; copy it again, or say "
                "what else it is with --from"
            )
        records = np.frombuffer(piece, RECORD)
        columns, kept = objects.columns(
            records["time_s"].astype(np.int64) * NS_PER_S,
            np.ascontiguousarray(records["object_id"]),
            np.ascontiguousarray(records["byte_count"]),
        )
        yield Imported(columns, functools.partial(_place, first, kept))
        first += records.size


def _place(first: int, kept: NDArray[np.int64], row: int) -> str:
    return f"record {first + int(kept[row])} (the first is 0)"
