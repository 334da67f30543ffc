"""An append-only log of finished work, whose lines are synced before they count.

Each line carries a checksum.  What a killed process was writing is a torn last line, which is
dropped; the first line, its head, says whose log it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import zlib
from typing import TYPE_CHECKING

from nicscope.errors import OutputError, StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MOST_BYTES = 1 << 30
_OPENED = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIGITS = 8  # of the checksum that begins a line


class Log:
    """An open, exclusively locked log.  ``lines``: the whole ones that it held, its head first."""

    def __init__(self, path: Path, kind: str, file: int) -> None:
        self.path = path
        self.kept = 0  # lines beyond the head, with those that are appended
        self._kind = kind
        self._file = file
        self._content = _content(path, kind, file)
        self._whole = list(_whole_lines(self._content))
        self.lines = [text for _, text in self._whole]

    def begin(self, head: bytes) -> None:
        """Write the first line of an empty log; errors: ``StudyError`` if the file is no log."""
        begun = _line(head)
        if not begun.startswith(self._content):
            raise StudyError(f"{self.path}: is no journal of this {self._kind}; move it away")
        self.restart(head)

    def restart(self, head: bytes) -> None:
        """Truncate the log and begin anew with ``head``."""
        _cut(self.path, self._file, 0)
        _write(self.path, self._file, _line(head))
        _sync_folder(self.path)
        self.lines, self.kept = [head], 0

    def resume(self) -> None:
        """Truncate a torn last line, and continue after the last complete one."""
        self.kept = len(self.lines) - 1
        _cut(self.path, self._file, self._whole[-1][0])

    def append(self, lines: Sequence[bytes]) -> None:
        """Append ``lines``: they are on disk when this returns.  Errors: ``OutputError``."""
        self.kept += len(lines)  # before they are written: Ctrl-C may come in between
        _write(self.path, self._file, b"".join(map(_line, lines)))

    def remove(self) -> None:
        """Delete the file, whose content is stored elsewhere by now."""
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_log(path: Path, kind: str) -> Iterator[Log]:
    """Open or create the log at ``path``; it is removed if it got no lines.

    Errors: ``StudyError`` if somebody writes it, or it is too large to be one; ``OutputError`` if
    it cannot be read or written.
    """
    file, made = _opened(path, kind)
    log = None
    try:
        log = Log(path, kind, file)
        yield log
    finally:
        if made and not (log and log.kept):
            path.unlink(missing_ok=True)
        os.close(file)


def _opened(path: Path, kind: str) -> tuple[int, bool]:
    """Open and lock the file; the descriptor, and whether it was created."""
    try:
        made = not os.path.lexists(path)
        is_regular = made or stat.S_ISREG(path.lstat().st_mode)
        if is_regular:
            file = os.open(path, _OPENED | (os.O_CREAT | os.O_EXCL if made else 0), 0o666)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    if not is_regular:
        raise OutputError(f"{path}: is no regular file; move it away, or name another --out")
    if not _is_own_lock(path, file):
        os.close(file)
        raise StudyError(f"{path}: another {kind} is writing it; wait for it to end")
    return file, made


def _is_own_lock(path: Path, file: int) -> bool:
    """Whether we hold the lock, and the file is still the one at ``path``.

    Who had it may have removed it between our opening and locking it, and another made a new one.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), path.lstat())
    except OSError:
        return False


def _whole_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(end, text) of each line up to the first that is torn."""
    begin = 0
    while (end := content.find(b"\n", begin)) >= 0:
        checksum, text = content[begin : begin + _DIGITS], content[begin + _DIGITS : end]
        if checksum != _checksum(text):
            return
        begin = end + 1
        yield begin, text


def _line(text: bytes) -> bytes:
    return _checksum(text) + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%0*x" % (_DIGITS, zlib.crc32(text))


def _content(path: Path, kind: str, file: int) -> bytes:
    try:
        size = os.fstat(file).st_size
        if size > MOST_BYTES:
            raise StudyError(
                f"{path}: is no journal of a {kind}: it has {size:,} bytes; move it away"
            )
        return os.pread(file, size, 0)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error


def _cut(path: Path, file: int, length: int) -> None:
    try:
        os.ftruncate(file, length)
        os.lseek(file, 0, os.SEEK_END)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def _write(path: Path, file: int, content: bytes) -> None:
    try:
        written = 0
        while written < len(content):
            written += os.write(file, content[written:])
        os.fsync(file)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def _sync_folder(path: Path) -> None:
    """Sync the folder, so that the file's name survives a power loss."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
