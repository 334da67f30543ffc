"""From one trace format to another, checked on the way, whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import TraceError
from nicscope.traces.check import Checker
from nicscope.traces.files import head_of
from nicscope.traces.formats import input_format, output_format
from nicscope.traces.imported import Choices
from nicscope.traces.reader import requests_of
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import batch_of

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.traces.files import Watch


class Conversion(NamedTuple):
    """What ``convert`` did."""

    rows: int
    from_format: str
    to_format: str
    metadata: TraceMetadata


def convert(
    source: Path,
    target: Path,
    from_format: str | None = None,
    to_format: str | None = None,
    choices: Choices | None = None,
    watch: Watch | None = None,
) -> Conversion:
    """Write the requests of ``source`` to ``target``; formats are told by the files if not given.

    ``watch`` hears how many bytes, or rows of a Parquet file, of how many are read.
    Errors: ``TraceError`` naming the place in ``source`` that cannot be believed, ``OutputError``
    if ``target`` cannot be written.
    """
    head_of(source, 1)
    if target.exists() and source.samefile(target):
        raise TraceError(f"{source}: is input and output at once; name another output")
    reading, writing = input_format(source, from_format), output_format(target, to_format)
    metadata = TraceMetadata()
    metadata.origin["file"] = source.name
    batches = reading.read(source, choices or Choices(), metadata, watch)
    checker = Checker(str(source))
    schema: Any = None
    with writing.writer(target, metadata) as writer:  # type: ignore[misc]
        for columns, place in batches:
            checker.place = place
            batch = batch_of(columns, schema)
            schema = schema or batch.schema
            requests = requests_of(batch, checker)
            checker.check(requests)
            if requests.length.size:
                writer.append(requests, batch)
        if not checker.rows:
            raise TraceError(f"{source}: holds no requests ({reading.name})")
    return Conversion(checker.rows, reading.name, writing.name, metadata)
