"""One output file, complete or absent, through symbolic links, or a stream.

The end of its name says what format it has and how it is compressed.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import OutputError
from nicscope.outputs.target import BUFFER_BYTES, Descriptor, Sink, Target, target_of, unwritable
from nicscope.outputs.temporary import Part, nameless

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


COMPRESSED = {".zst": "zstd", ".gz": "gzip"}
PARQUET, CSV = "parquet", "csv"
TABLES = {PARQUET: (".parquet",), CSV: (".csv",)}


def named_format(path: Path, endings: Mapping[str, Sequence[str]]) -> str | None:
    """The format whose ending the name has, before ``.zst`` or ``.gz``; None if none."""
    name = path.name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    known = ((key, end.lower()) for key, ends in endings.items() for end in ends)
    return next((key for key, end in known if name.endswith(end)), None)


def named_compression(path: Path) -> str | None:
    """``zstd`` or ``gzip``, by the ending."""
    return COMPRESSED.get(path.suffix.lower())


def format_to_write(
    path: Path,
    endings: Mapping[str, Sequence[str]],
    chosen: str | None = None,
    *,
    of_stream: str | None = None,
    otherwise: str = "",
) -> str:
    """The format for ``path``: ``chosen``, else by its ending, or ``of_stream`` for a stream.

    Errors: ``OutputError`` if the name does not say, with ``otherwise`` what else would.
    """
    found = chosen or named_format(path, endings)
    if found is None and of_stream is not None and target_of(path).is_stream:
        found = of_stream
    if found is None:
        known = [ends[0] for ends in endings.values() if ends]
        raise OutputError(
            f"{path}: cannot tell which format to write; end the name in "
            f"{', '.join(known[:-1])} or {known[-1]}{otherwise}"
        )
    if found == PARQUET and named_compression(path):
        raise OutputError(f"{path}: Parquet is compressed within; end the name in .parquet")
    return found


@contextlib.contextmanager
def whole_file(path: Path | str) -> Iterator[Sink]:
    """Yield a binary file that becomes ``path`` when the block succeeds.

    A stream gets the bytes as they are written; it is told by ``seekable()``.  Errors:
    ``OutputError`` if there cannot be such a file or it is not taken, as by a full disk;
    ``ReaderGone`` if the reader of a stream has gone.
    """
    target = target_of(path)
    with _streamed(target) if target.is_stream else _replaced(target) as sink:
        yield sink


def check_output(path: Path | str) -> Target:
    """Check that ``path`` can be written, before there is anything to write.

    Errors: ``OutputError`` if it could never be written, as far as can be told without trying.
    """
    target = target_of(path)
    folder = target.path.parent
    if not target.is_stream and not folder.is_dir():
        raise OutputError(f"{target.shown}: there is no folder {folder}; make it, or name another")
    return target


@contextlib.contextmanager
def scratch_file(path: Path | str) -> Iterator[io.BufferedRandom]:
    """Yield a nameless temporary file on the file system of ``path``.

    It lies on the same disk, or for a stream where temporary files do.  Errors: ``OutputError``
    if there cannot be one or it cannot grow.
    """
    target = target_of(path)
    try:
        folder = Path(tempfile.gettempdir()) if target.is_stream else target.path.parent
        number = nameless(folder)
    except OSError as error:
        raise unwritable(target.shown, error) from error
    descriptor = Descriptor(number, target.shown, is_file=True)
    try:
        yield io.BufferedRandom(descriptor, BUFFER_BYTES)
    finally:
        descriptor.give_up()
        os.close(number)


@contextlib.contextmanager
def _replaced(target: Target) -> Iterator[Sink]:
    part = Part(target.path, target.shown)
    try:
        yield part.sink
        part.finish()
        part.place(target.path)
    finally:
        part.discard()


@contextlib.contextmanager
def _streamed(target: Target) -> Iterator[Sink]:
    for text in (sys.stdout, sys.stderr):
        if text is not None:
            text.flush()  # what was said before the bytes comes before them
    number = target.open_stream()
    sink = Sink(Descriptor(number, target.shown, is_file=False))
    is_file = stat.S_ISREG(os.fstat(number).st_mode)  # that somebody opened for us
    try:
        with _truncated_on_failure(number, sink) if is_file else contextlib.nullcontext():
            yield sink
            sink.flush()
            if is_file:
                _sync(number, target)
    finally:
        sink.raw.give_up()
        os.close(number)


@contextlib.contextmanager
def _truncated_on_failure(number: int, sink: Sink) -> Iterator[None]:
    """Truncate an appended-to file again if the block fails and nobody else appended."""
    size = os.fstat(number).st_size
    position = os.lseek(number, 0, os.SEEK_CUR)
    try:
        yield
    except BaseException:
        sink.raw.give_up()
        with contextlib.suppress(OSError):
            if os.fstat(number).st_size == size + sink.raw.tell():
                os.ftruncate(number, size)
                os.lseek(number, position, os.SEEK_SET)
        raise


def _sync(number: int, target: Target) -> None:
    try:
        os.fsync(number)
    except OSError as error:
        raise unwritable(target.shown, error) from error


class CsvTable:
    """Writes tables of one schema as CSV with a header, one batch in memory at a time."""

    def __init__(self, sink: Sink, compression: str | None) -> None:
        import pyarrow as pa

        self._sink = sink
        self._stream: Any = pa.output_stream(sink, compression=compression)
        self._file: Any = None

    def write(self, table: Any) -> None:
        """Append an Arrow table or record batch, without dictionary columns.

        Errors: Arrow's, if a column has no form in CSV.
        """
        from pyarrow import csv

        if self._file is None:
            options = csv.WriteOptions(quoting_style="needed")
            self._file = csv.CSVWriter(self._stream, table.schema, write_options=options)
        self._file.write(table)

    def finish(self) -> None:
        """Flush the remaining lines."""
        self._file.close()
        self._stream.close()

    def abandon(self) -> None:
        """Discard the stream: no further byte is written."""
        self._sink.raw.give_up()
        self._stream.close()
