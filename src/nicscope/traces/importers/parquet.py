"""A trace file of our own, to be written anew in another format."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from nicscope.traces.imported import Imported
from nicscope.traces.reader import trace_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import TraceMetadata


def read_parquet(
    source: Input,
    choices: Choices,  # noqa: ARG001 - this format says everything itself
    metadata: TraceMetadata,
    watch: Watch | None = None,
) -> Iterator[Imported]:
    """Every request and every column, with the file's own metadata."""
    trace = trace_of(source)
    for name, value in msgspec.structs.asdict(trace.metadata).items():
        setattr(metadata, name, value)
    done = 0
    for requests, batch in trace.record_batches():
        columns = {name: batch.column(name) for name in batch.schema.names}
        yield Imported(columns, functools.partial(_place, done))
        done += requests.length.size
        if watch is not None:
            watch(done, trace.rows)


def _place(first: int, row: int) -> str:
    return f"row {first + row} (the first is 0)"
