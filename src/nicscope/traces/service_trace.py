"""Reads an LLM serving trace directly: its requests are generated as they are read.

Nothing is written, and every pass makes the same ones again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.traces.columns import TYPES, op_column
from nicscope.traces.files import MAGIC, open_bytes
from nicscope.traces.formats import input_format
from nicscope.traces.importers.services import Service
from nicscope.traces.programs.writer import program_format
from nicscope.traces.reader import Trace, trace_of
from nicscope.traces.schema import REQUIRED_COLUMNS, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.formats import Format
    from nicscope.traces.imported import Choices


class _Made:
    """Rows of a serving trace, generated anew for each pass."""

    path: Path | None = None  # no other process finds these rows in a file
    schema = pa.schema([(name, TYPES[name]) for name in REQUIRED_COLUMNS])

    def __init__(self, service: Service, byte_count: int) -> None:
        self._service = service
        self.byte_count = byte_count

    def record_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        for made, _ in self._service.batches():
            arrays = [
                op_column(made[name]) if name == "op" else pa.array(made[name]) for name in columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, columns)
            for first in range(0, batch.num_rows, max_rows):
                yield batch.slice(first, max_rows)


def open_any(path: Path | str, choices: Choices, watch: Watch | None = None) -> Trace:
    """The trace in a Parquet file, or in an LLM serving trace.

    Errors: ``TraceError`` for a file of another format, which has to be converted, and for
    ``choices`` that are not for this one.
    """
    return any_of(open_bytes(path), choices, watch)


def any_of(source: Input, choices: Choices, watch: Watch | None = None) -> Trace:
    """As ``open_any``, of a file that is open."""
    found = None if source.head(len(MAGIC)) == MAGIC else _told(source)
    if found is None or found.service is None:
        if choices.kv is not None:
            raise TraceError(
                f"{source.name}: --model is for traces of a language model's service, as "
                "Mooncake's are; leave it out"
            )
        if found is not None:
            raise TraceError(
                f"{source.name}: is not Parquet but {found.name}; 'nicscope trace convert "
                f"{source.name} OUT.parquet' makes that"
            )
        return trace_of(source)
    if choices.kv is None:
        raise TraceError(
            f"{source.name}: is a trace of a language model's service ({found.name}), whose blocks "
            "have a size once a model is named: --model llama-3-70b, here or for 'nicscope trace "
            "convert'"
        )
    service = Service(source.name, found.service(source, choices.kv, watch), choices)
    if not service.rows:
        raise TraceError(f"{source.name}: holds no requests ({found.name})")
    metadata = TraceMetadata()
    metadata.origin["file"] = source.name
    service.tell(metadata, found.name)
    made = _Made(service, source.byte_count or source.position)
    return Trace(source.name, service.rows, metadata, made)


def _told(source: Input) -> Format | None:
    """The format of a file that is not Parquet; None if it is no request trace."""
    if program_format(source, None) is not None:
        return None
    try:
        found = input_format(source)
    except TraceError:
        return None
    return None if found.name == "parquet" else found  # by its ending alone
