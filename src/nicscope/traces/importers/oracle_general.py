"""libCacheSim's ``oracleGeneral``: packed records of 24 bytes, often compressed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.files import ByteSource
from nicscope.traces.imported import Imported
from nicscope.traces.importers.objects import ObjectsAsPages
from nicscope.traces.oracle_general import RECORD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import TraceMetadata

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
