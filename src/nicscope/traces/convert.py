"""From one trace format to another, checked on the way, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import TraceError, printable
from nicscope.traces.check import Checker
from nicscope.traces.files import open_bytes
from nicscope.traces.formats import input_format, output_format
from nicscope.traces.imported import Choices
from nicscope.traces.reader import requests_of
from nicscope.traces.schema import TraceMetadata, check_page_size
from nicscope.traces.writer import batch_of

if TYPE_CHECKING:
    from nicscope.traces.files import Watch


class Conversion(NamedTuple):
    """What ``convert`` did."""

    rows: int
    from_format: str
    to_format: str
    metadata: TraceMetadata
    lost: list[str]  # what the input had and the output's format has no place for


def convert(
    source: Path | str,
    target: Path,
    from_format: str | None = None,
    to_format: str | None = None,
    choices: Choices | None = None,
    watch: Watch | None = None,
) -> Conversion:
    """Write the requests of ``source`` to ``target``; formats are told by the files if not given.

    ``-`` is standard input.  ``watch`` hears how many bytes, or rows of a Parquet file, of how
    many are read.
    Errors: ``TraceError`` naming the place in ``source`` that cannot be believed, ``OutputError``
    if ``target`` cannot be written.
    """
    choices = choices or Choices()
    check_page_size(choices.page_size, "--page-size")
    metadata = TraceMetadata()
    with open_bytes(source) as opened:
        if opened.is_same_file(target):
            raise TraceError(f"{opened.name}: is input and output at once; name another output")
        reading, writing = input_format(opened, from_format), output_format(target, to_format)
        metadata.origin["file"] = printable(Path(source).name)
        checker = Checker(opened.name)
        batches = reading.read(opened, choices, metadata, watch)
        schema: Any = None
        with writing.writer(target, metadata) as writer:  # type: ignore[misc]
            for columns, place in batches:
                checker.place = place
                batch = batch_of(columns, checker, schema)
                schema = schema or batch.schema
                requests = requests_of(batch, checker)
                checker.check(requests)
                if requests.length.size:
                    writer.append(requests, batch)
            if not checker.rows:
                raise TraceError(f"{opened.name}: holds no requests ({reading.name})")
    return Conversion(checker.rows, reading.name, writing.name, metadata, writer.lost)
