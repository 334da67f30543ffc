"""The target of an output path: a file to be replaced, or a stream to be written to.

A sink takes the bytes, and says of an error which output it was.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

BUFFER_BYTES = 1 << 20


class ReaderGone(Exception):  # noqa: N818 - nobody's error
    """The reader of a pipe has gone: exit silently."""


def unwritable(shown: object, error: OSError) -> OutputError:
    """The message for an operating system ``error`` on an output."""
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
        """Discard all further bytes: the result is not wanted any more."""
        self._given_up = True

    def readinto(self, room: WriteableBuffer, /) -> int:
        """Fill ``room`` with the next bytes of a file; how many there were."""
        try:
            return os.readv(self._number, [room])
        except OSError as error:
            raise unwritable(self._shown, error) from error

    def truncate(self, size: int | None = None, /) -> int:
        """Truncate a file to ``size`` bytes, or at its position."""
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
        """Set a file's position; errors: ``io.UnsupportedOperation`` for a stream."""
        if not self._is_file:
            raise io.UnsupportedOperation("seek")
        return os.lseek(self._number, offset, whence)

    def tell(self) -> int:
        """The file's position; in a stream, the number of bytes written."""
        return os.lseek(self._number, 0, os.SEEK_CUR) if self._is_file else self._position


class Sink(io.BufferedWriter):
    """The binary file that a result's writer sees, written from its beginning.

    Closing it writes what is buffered and no more: the result is its owner's, who ends it.
    """

    raw: Descriptor

    def __init__(self, descriptor: Descriptor) -> None:
        super().__init__(descriptor, BUFFER_BYTES)

    def close(self) -> None:
        """Write what is buffered."""
        self.flush()


STDOUT = Path("/dev/stdout")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MOST_LINKS = 40  # as the kernel follows
_OPENED = os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC
_LOOKED_AT = os.O_PATH | os.O_CLOEXEC
_LOOKS = 30  # at a file that is another at each call: by chance it is not so each time


class Target(NamedTuple):
    """The destination of bytes written to ``shown``."""

    shown: str  # as it was given
    path: Path  # without links, if it is a file
    is_stream: bool
    number: int | None = None  # of the descriptor of this process that it is
    looked_at: os.stat_result | None = None  # if it is a stream that has a name

    @property
    def is_socket(self) -> bool:
        """Whether it is a socket, which is connected to."""
        return self.looked_at is not None and stat.S_ISSOCK(self.looked_at.st_mode)

    def open_stream(self) -> int:
        """Open the stream; waits for the reader of a FIFO.

        Errors: ``OutputError`` if there is none to be had.
        """
        try:
            if self.number is not None:
                return os.dup(self.number)
            if self.is_socket:
                import socket

                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(os.fspath(self.path))
                    return connection.detach()
            number = os.open(self.path, _OPENED)
            try:
                self._begin(number)
            except BaseException:
                os.close(number)
                raise
        except OSError as error:
            raise unwritable(self.shown, error) from error
        return number

    def _begin(self, number: int) -> None:
        """Truncate a nameless file; errors: ``OutputError`` if it has got a name since."""
        status = os.fstat(number)
        if stat.S_ISREG(status.st_mode):
            if self.looked_at is None or not _is_one(status, self.looked_at):
                raise OutputError(f"{self.shown}: has become another file meanwhile; try again")
            os.ftruncate(number, 0)

    def is_standard_output(self) -> bool:
        """Whether it is this process's standard output, so that text would be mixed in."""
        if self.number is not None or not self.is_stream:
            return self.number == 1
        try:
            mine, its = os.fstat(1), self.path.stat()
        except OSError:
            return False
        return stat.S_ISFIFO(mine.st_mode) and os.path.samestat(mine, its)


def target_of(path: Path | str) -> Target:
    """Resolve ``path`` through all its links.

    Errors: ``OutputError`` if it is a folder or a block device, if its links go round in a
    circle, or if it may not be looked at or written to.
    """
    shown = os.fspath(path)
    number = _own_descriptor(shown)
    if number is not None:
        return _descriptor(shown, number)
    try:
        return _looked_at(shown)
    except OSError as error:
        raise unwritable(shown, error) from error


def is_read_only(path: Path) -> bool:
    """Whether ``path`` exists and may not be written to; errors: ``OSError``.

    What somebody takes away in that very moment is not taken for read-only.
    """
    for _ in range(_LOOKS):
        try:
            before = path.lstat()
            if os.access(path, os.W_OK, effective_ids=True):
                return False
            if _is_one(before, path.lstat()):
                return True
        except FileNotFoundError:
            return False
    return False


def _looked_at(shown: str) -> Target:
    """Resolve a name that is none of this process's descriptors.

    A plain file has no name, being some other process's, if look after look finds that very one
    and never where the links lead to.  Otherwise somebody was just replacing it.
    """
    with contextlib.ExitStack() as held:  # or a new file might get the number of the last one
        found: list[os.stat_result] = []
        while len(found) < _LOOKS:
            final = Path(os.path.realpath(shown))
            try:
                number = os.open(shown, _LOOKED_AT)
            except FileNotFoundError:
                return Target(shown, final, is_stream=False)
            held.callback(os.close, number)
            status = os.fstat(number)
            _refuse_folders_and_disks(shown, status.st_mode)
            if not stat.S_ISREG(status.st_mode):
                return Target(shown, Path(shown), is_stream=True, looked_at=status)
            if _is_same(final, status):
                break
            found.append(status)
        if len(found) == _LOOKS and all(_is_one(status, each) for each in found):
            return Target(shown, Path(shown), is_stream=True, looked_at=status)
        if is_read_only(final):
            raise OutputError(f"{shown}: cannot be written: it is read-only")
        return Target(shown, final, is_stream=False)


def _is_one(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether both descriptors are of one file, which has not been replaced."""
    return os.path.samestat(one, other) and stat.S_IFMT(one.st_mode) == stat.S_IFMT(other.st_mode)


def _descriptor(shown: str, number: int) -> Target:
    try:
        _refuse_folders_and_disks(shown, os.fstat(number).st_mode)
    except OSError as error:
        raise unwritable(shown, error) from error
    return Target(shown, Path(shown), is_stream=True, number=number)


def _refuse_folders_and_disks(shown: str, kind: int) -> None:
    if stat.S_ISDIR(kind):
        raise OutputError(f"{shown}: is a folder; name a file")
    if stat.S_ISBLK(kind):
        raise OutputError(f"{shown}: is a disk; name a file on one")


def _is_same(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False


def _own_descriptor(path: str) -> int | None:
    """The descriptor of this process that ``path`` names, as ``/dev/fd/3`` does, or links to."""
    for _ in range(_MOST_LINKS):
        if path in _STANDARD:
            return _STANDARD[path]
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder)
        path = os.path.join(folder, name)  # noqa: PTH118 - a Path has no /dev/fd/.. to keep
        if path in _STANDARD:
            return _STANDARD[path]
        if folder in _descriptor_folders() and re.fullmatch(r"\d{1,9}", name, re.ASCII):
            return int(name)
        try:
            path = os.path.join(folder, os.readlink(path))  # noqa: PTH115, PTH118
        except OSError:
            return None
    return None


def _descriptor_folders() -> set[str]:
    """The folders whose entries are this process's descriptors."""
    own = {os.path.realpath(f"/proc/{name}/fd") for name in ("self", "thread-self")}
    return {"/dev/fd", *own}
