"""A checksum of a Parquet file's footer, which Parquet itself has for pages only.

It stands directly before the footer, where readers that do not know it never look: they find the
footer by its length, and pages by their offsets from the beginning.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, BinaryIO

from nicscope.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"PAR1"
_MARK = b"nicscope crc32: "
_DIGITS = 8
_BLOCK_BYTES = len(_MARK) + _DIGITS
_END_BYTES = 4 + len(MAGIC)  # the footer's length, and the magic
MOST_BYTES = 1 << 27  # of a footer; a thousand million rows need a hundredth of it


class SignedFile:
    """Takes a Parquet file as it is written and puts its footer's checksum before the footer.

    Between ``hold`` and ``finish`` the writer is closed, which writes the footer; nothing is read
    back, so a stream may be behind it.
    """

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: bytearray | None = None

    def write(self, data: bytes) -> int:
        """Pass ``data`` on, or hold it."""
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return len(data)

    def hold(self) -> None:
        """Keep what comes from here on: the footer is in it."""
        self._held = bytearray()

    def finish(self) -> None:
        """Write what was held, with the checksum."""
        held = bytes(self._held or b"")
        length = int.from_bytes(held[-_END_BYTES : -len(MAGIC)], "little") + _END_BYTES
        self._sink.write(held[:-length] + _block(held[-length:]) + held[-length:])

    def tell(self) -> int:
        """How many bytes there are."""
        return self._sink.tell() + len(self._held or b"")

    def flush(self) -> None:
        """Leave it to the sink."""

    def close(self) -> None:
        """Leave it to the sink's owner."""


def check_footer(path: Path, name: str) -> None:
    """Return if the end of a Parquet file is what was written, as far as one can tell.

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


def _footer(file: BinaryIO) -> tuple[int, bytes]:
    """Where the footer begins, with its length and magic; no more of it than ``MOST_BYTES``."""
    size = os.fstat(file.fileno()).st_size
    file.seek(size - _END_BYTES)
    length = int.from_bytes(file.read(4), "little")
    begin = size - _END_BYTES - length
    file.seek(max(0, begin))
    return begin, file.read(min(length, MOST_BYTES) + _END_BYTES)


def _block(footer: bytes) -> bytes:
    return _MARK + b"%0*x" % (_DIGITS, zlib.crc32(footer))
