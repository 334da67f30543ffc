"""Opening input files: errors that help, compression by content, blocks of whole lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nicscope.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    Watch = Callable[[int, int], None]  # done, of how many

MAGICS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}
BLOCK_BYTES = 1 << 21
LONGEST_LINE = 1 << 25  # bytes


def head_of(path: Path, count: int) -> bytes:
    """First ``count`` bytes of ``path`` as they are on disk, at least one of them.

    Errors: ``TraceError`` if it is missing, a folder, unreadable or empty.
    """
    if path.is_dir():
        raise TraceError(f"{path}: is a folder; name a trace file")
    try:
        with path.open("rb") as file:
            head = file.read(count)
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file; check the name") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    if not head:
        raise TraceError(f"{path}: is an empty file; record or convert it again")
    return head


def compression_of(path: Path) -> str | None:
    """``zstd``, ``gzip`` or None, by the first bytes of ``path``."""
    head = head_of(path, 4)
    return next((name for magic, name in MAGICS.items() if head.startswith(magic)), None)


def first_line(error: BaseException) -> str:
    """First line of what a library says, without a full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class ByteSource:
    """The decompressed bytes of a file, in pieces; tells ``watch`` how much of it is read."""

    def __init__(self, path: Path, watch: Watch | None = None) -> None:
        self.path = path
        self._watch = watch
        compression = compression_of(path)
        self._size = path.stat().st_size
        self._file = pa.OSFile(str(path))
        self._stream: Any = (
            pa.CompressedInputStream(self._file, compression) if compression else self._file
        )

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._file.close()

    def read(self, count: int) -> bytes:
        """Next ``count`` bytes, fewer only at the end.

        Errors: ``TraceError`` if the file is damaged.
        """
        try:
            piece: bytes = self._stream.read(count)
            position = self._file.tell()
        except (OSError, pa.ArrowException) as error:
            raise TraceError(
                f"{self.path}: cannot be read on: {first_line(error)}; copy or record it again"
            ) from error
        if self._watch is not None:
            self._watch(position, self._size)
        return piece

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
        """Whole lines, about ``size`` bytes at a time, each with the number of its first line.

        Lines are numbered from 1; the last line of the file ends with a newline here even if it
        does not there.
        """
        number, rest = 1, b""
        while piece := self.read(size):
            end = piece.rfind(b"\n") + 1
            if not end:
                rest += piece
                if len(rest) > LONGEST_LINE:
                    raise TraceError(
                        f"{self.path}: line {number}: longer than {LONGEST_LINE} bytes; "
                        "is this a text file?"
                    )
                continue
            block, rest = rest + piece[:end], piece[end:]
            yield number, block
            number += block.count(b"\n")
        if rest:
            yield number, rest + b"\n"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines without their ends, each with its number, counted from 1."""
        for first, block in self.blocks():
            text = block.decode("utf-8", "backslashreplace")
            yield from enumerate(text.split("\n")[:-1], first)
