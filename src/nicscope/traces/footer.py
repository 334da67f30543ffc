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


def sign_footer(path: Path) -> None:
    """Put the checksum of its footer into the Parquet file ``path``, which is whole."""
    with path.open("r+b") as file:
        begin, footer = _footer(file)
        file.seek(begin)
        file.write(_block(footer) + footer)


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
