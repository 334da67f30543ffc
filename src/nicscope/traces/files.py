"""The bytes of a trace in a foreign format: compression by content, blocks of whole lines.

A checksum of a Parquet file's footer, which Parquet itself has for pages only.

It stands directly before the footer, where readers that do not know it never look: they find the
footer by its length, and pages by their offsets from the beginning.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.inputs import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Watch: TypeAlias = "Callable[[int, int], None]"  # done, of how many; 0 if that is not known
MAGICS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}
BLOCK_BYTES = 1 << 21
LONGEST_LINE = 1 << 20  # bytes
HEAD_BYTES = 1 << 18  # enough for the first block of a compressed file


def open_bytes(path: Path | str) -> Input:
    """The trace file ``path``, or standard input if it is ``-``.

    Errors: ``TraceError`` if it is missing, nothing to be read, or empty.
    """
    source = Input(path, TraceError)
    if not source.head(1):
        raise TraceError(f"{source.name}: is an empty file; record or convert it again")
    return source


def compression_of(source: Input) -> str | None:
    """``zstd``, ``gzip`` or None, by the first bytes of ``source``."""
    head = source.head(4)
    return next((name for magic, name in MAGICS.items() if head.startswith(magic)), None)


def first_bytes(source: Input, count: int) -> bytes:
    """The first ``count`` bytes that ``source`` holds, decompressed, as far as they are whole."""
    compression = compression_of(source)
    if compression is None:
        return source.head(count)
    head = pa.BufferReader(source.head(HEAD_BYTES))
    found = b""
    try:
        with pa.CompressedInputStream(head, compression) as stream:
            while len(found) < count and (piece := stream.read(1 << 10)):
                found += piece
    except (OSError, pa.ArrowException):
        pass  # where the head ends, or the file is damaged, as its reader will say
    return found[:count]


def first_line(error: BaseException) -> str:
    """The first line of a library's error message, without a full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class ByteSource:
    """The decompressed bytes of a file; reports to ``watch`` how much of it is read."""

    def __init__(self, source: Input, watch: Watch | None = None) -> None:
        self.name = source.name
        self._source = source
        self._watch = watch
        compression = compression_of(source)
        self._stream: Any = None
        if compression is not None:
            self._stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression)

    def read(self, count: int) -> bytes:
        """Next ``count`` bytes, fewer only at the end.

        Errors: ``TraceError`` if the file is damaged.
        """
        if self._stream is None:
            piece = self._source.take(count)
        else:
            try:
                piece = self._stream.read(count)
            except (OSError, pa.ArrowException) as error:
                raise TraceError(
                    f"{self.name}: cannot be read on: {first_line(error)}; copy or record it again"
                ) from error
        if self._watch is not None:
            self._watch(self._source.position, self._source.byte_count or 0)
        return piece

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
        """Whole lines, about ``size`` bytes at a time, each with the number of its first line.

        Lines are numbered from 1; the last line of the file ends with a newline here even if it
        does not there.  Errors: ``TraceError`` for a line longer than ``LONGEST_LINE``.
        """
        number, rest = 1, b""
        while piece := self.read(size):
            end = piece.rfind(b"\n") + 1
            block, rest = (rest + piece[:end], piece[end:]) if end else (b"", rest + piece)
            self._check_lines(number, block)
            if block:
                yield number, block
                number += block.count(b"\n")
            self._check_lines(number, rest)
        if rest:
            yield number, rest + b"\n"

    def _check_lines(self, number: int, block: bytes) -> None:
        """Errors: ``TraceError`` naming the first line of ``block`` that is too long."""
        if len(block) <= LONGEST_LINE:
            return
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        begins = np.concatenate([[0], ends + 1])
        long = np.flatnonzero(np.diff(np.append(begins, len(block))) > LONGEST_LINE)
        if long.size:
            raise TraceError(
                f"{self.name}: line {number + int(long[0])}: longer than {LONGEST_LINE} bytes; "
                "is this a text file?"
            )

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines without their ends, each with its number, counted from 1."""
        for first, block in self.blocks():
            text = block.decode("utf-8", "backslashreplace")
            yield from enumerate(text.split("\n")[:-1], first)


MAGIC = b"PAR1"
_MARK = b"nicscope crc32: "
_DIGITS = 8
_BLOCK_BYTES = len(_MARK) + _DIGITS
_END_BYTES = 4 + len(MAGIC)  # the footer's length, and the magic
MOST_BYTES = 1 << 27  # of a footer; a thousand million rows need a hundredth of it


class SignedFile:
    """A Parquet file's sink that writes the footer's checksum before the footer.

    Between ``hold`` and ``finish`` the writer is closed, which writes the footer; nothing is read
    back, so a stream may be behind it.
    """

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: bytearray | None = None

    def write(self, data: bytes) -> int:
        """Pass ``data`` on, or hold it back once ``hold`` was called."""
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return len(data)

    def hold(self) -> None:
        """Hold back all further bytes: the footer is among them."""
        self._held = bytearray()

    def finish(self) -> None:
        """Write the checksum and the bytes held back."""
        held = bytes(self._held or b"")
        length = int.from_bytes(held[-_END_BYTES : -len(MAGIC)], "little") + _END_BYTES
        self._sink.write(held[:-length] + _block(held[-length:]) + held[-length:])

    def tell(self) -> int:
        """The number of bytes so far."""
        return self._sink.tell() + len(self._held or b"")

    def flush(self) -> None:
        """Does nothing: the sink flushes."""

    def close(self) -> None:
        """Does nothing: the sink's owner closes it."""


def check_footer(path: Path, name: str) -> None:
    """Return if the footer of a Parquet file matches its checksum, if it has one.

    Errors: ``TraceError``, beginning with ``name``, if it is cut or does not have its checksum.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - len(MAGIC)))
        if size < len(MAGIC) + _END_BYTES or file.read() != MAGIC:
            raise TraceError(f"{name}: truncated Parquet file; record or copy it again")
        begin, footer = _footer(file)
        if begin < len(MAGIC) or len(footer) > MOST_BYTES:
            raise TraceError(
                f"{name}: damaged or truncated Parquet file: its footer has "
                f"{len(footer) - _END_BYTES} bytes; record or copy it again"
            )
        file.seek(max(0, begin - _BLOCK_BYTES))
        block = file.read(_BLOCK_BYTES)
        if block.startswith(_MARK) and block != _block(footer):
            raise TraceError(
                f"{name}: damaged: its footer is not what was written (checksum); copy it again"
            )


def footer_digest(path: Path) -> tuple[int, bool]:
    """The footer's checksum, and whether the file states the same; for a whole file."""
    with path.open("rb") as file:
        begin, footer = _footer(file)
        file.seek(max(0, begin - _BLOCK_BYTES))
        return zlib.crc32(footer), file.read(_BLOCK_BYTES) == _block(footer)


def _footer(file: BinaryIO) -> tuple[int, bytes]:
    """Offset of the footer, with its length and magic; at most ``MOST_BYTES`` of it."""
    size = os.fstat(file.fileno()).st_size
    file.seek(size - _END_BYTES)
    length = int.from_bytes(file.read(4), "little")
    begin = size - _END_BYTES - length
    file.seek(max(0, begin))
    return begin, file.read(min(length, MOST_BYTES) + _END_BYTES)


def _block(footer: bytes) -> bytes:
    return _MARK + b"%0*x" % (_DIGITS, zlib.crc32(footer))
