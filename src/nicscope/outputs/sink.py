"""Bytes on their way into a file descriptor; what goes wrong is an error that names the output."""

from __future__ import annotations

import io
import os
import select
from typing import TYPE_CHECKING

from nicscope.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

BUFFER_BYTES = 1 << 20


class ReaderGone(Exception):  # noqa: N818 - nobody's error
    """Whoever read what is written has gone: there is nothing left to do, and nothing to say."""


def unwritable(shown: object, error: OSError) -> OutputError:
    """The line for an ``error`` of the operating system on the output that is called ``shown``."""
    return OutputError(f"{shown}: cannot be written: {error.strerror or error}")


class Descriptor(io.RawIOBase):
    """A file descriptor that is written to until it is closed or given up.

    Errors: ``OutputError`` from ``write`` if the bytes cannot be taken, ``ReaderGone`` if nobody
    will ever read them.
    """

    def __init__(self, number: int, shown: object, *, is_file: bool) -> None:
        self._number = number
        self._shown = shown
        self._is_file = is_file
        self._position = 0  # in bytes written, where the file itself has none
        self._given_up = False

    def write(self, data: ReadableBuffer, /) -> int:
        """The number of bytes taken, at least one; a descriptor that is full is waited for."""
        view = memoryview(data).cast("B")
        if self._given_up:
            return len(view)
        while True:
            try:
                count = os.write(self._number, view)
            except BlockingIOError:
                select.select([], [self._number], [])
            except BrokenPipeError as error:
                raise ReaderGone(str(self._shown)) from error
            except OSError as error:
                raise unwritable(self._shown, error) from error
            else:
                self._position += count
                return count

    def give_up(self) -> None:
        """Take whatever else is written and drop it: the result is not wanted any more."""
        self._given_up = True

    def readinto(self, room: WriteableBuffer, /) -> int:
        """Fill ``room`` with the next bytes of a file; how many there were."""
        try:
            return os.readv(self._number, [room])
        except OSError as error:
            raise unwritable(self._shown, error) from error

    def truncate(self, size: int | None = None, /) -> int:
        """Cut a file to ``size`` bytes, or where it stands."""
        length = self.tell() if size is None else size
        os.ftruncate(self._number, length)
        return length

    def fileno(self) -> int:
        """The descriptor's number."""
        return self._number

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._number)

    def readable(self) -> bool:
        """Whether what is written can be read again."""
        return self._is_file

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """Whether bytes that are written may be read and changed again."""
        return self._is_file

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position of a file; errors: ``io.UnsupportedOperation`` for a stream."""
        if not self._is_file:
            raise io.UnsupportedOperation("seek")
        return os.lseek(self._number, offset, whence)

    def tell(self) -> int:
        """Where the next byte goes; in a stream, how many went before."""
        return os.lseek(self._number, 0, os.SEEK_CUR) if self._is_file else self._position


class Sink(io.BufferedWriter):
    """A result as whoever makes it sees it: a binary file, written from its beginning.

    Closing it writes what is buffered and no more: the result is its owner's, who ends it.
    """

    raw: Descriptor

    def __init__(self, descriptor: Descriptor) -> None:
        super().__init__(descriptor, BUFFER_BYTES)

    def close(self) -> None:
        """Write what is buffered."""
        self.flush()
