"""Files that a user names are opened here, whatever they turn out to be.

``-`` is standard input.  What is read is a regular file, a pipe or a socket; a folder, a terminal
and a device, which may never end, are refused.  A named pipe (FIFO) is waited for until somebody
writes to it, for a bounded time.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import stat
import sys
import tempfile
import time
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

    Refuse = Callable[[str], Exception]  # a class of errors that takes a message

STDIN = "-"
WRITER_S = 10.0  # until somebody must have opened a FIFO for writing
_LOOK_S = 0.02  # between two looks at a FIFO that nobody writes
KEPT_BYTES = 4 << 30  # of a stream that has to be kept in a file, as it is not read in order
_KEPT: ContextVar[dict[str, bytes] | None] = ContextVar("_KEPT", default=None)
_COPY_BYTES = 1 << 20
# Names of descriptors that are open already.  Opening them again may fail (sockets), or wait for
# a writer that has left (pipes).
_OPEN = re.compile(r"/dev/stdin|(?:/dev/fd|/proc/self/fd)/(\d{1,9})")


class Input(io.RawIOBase):
    """The bytes of a file, pipe or socket in their order; the first ones can be looked at before.

    Every message begins with ``name``, which is fit to be printed, and is raised as ``error``.
    """

    def __init__(self, path: Path | str, error: Refuse) -> None:
        """Errors: ``error`` if it is missing, cannot be opened or is nothing to be read."""
        text = os.fspath(path)
        self.name = "standard input" if text == STDIN else printable(text)
        self.error = error
        self.position = 0  # bytes read so far
        self._kept: int | None = None
        self._head = b""
        self._file = -1
        try:
            self._file, self._by_path = self._opened(text)
            found = os.fstat(self._file)
            self._check_kind(found)
            is_file = stat.S_ISREG(found.st_mode)
            # What stands before is somebody else's: the rest is a stream.
            at_start = is_file and os.lseek(self._file, 0, os.SEEK_CUR) == 0
        except BaseException as problem:
            self.close()
            if isinstance(problem, OSError | ValueError):
                raise self._refused(problem) from problem
            raise
        self.path = Path(text) if at_start and self._by_path else None
        self.byte_count = found.st_size if at_start else None
        if stat.S_ISFIFO(found.st_mode) and self._by_path:
            self._wait_for_writer()

    def _opened(self, text: str) -> tuple[int, bool]:
        """A descriptor of our own, and whether its name was one of the file system's."""
        match = _OPEN.fullmatch(text)
        if text == STDIN or match is not None:
            number = int(match[1] or 0) if match is not None else 0
            if number == 0 and sys.stdin is None:
                raise self.error(f"{self.name}: is closed; name a file")
            return os.dup(number), False
        # Before it is opened: opening alone does something to some devices.
        self._check_kind(os.stat(text))  # noqa: PTH116 - a name is text here
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        file = os.open(text, flags)
        os.set_blocking(file, not stat.S_ISFIFO(os.fstat(file).st_mode))
        return file, True

    def _check_kind(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise self.error(f"{self.name}: is a folder; name a file")
        if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
            what = "terminal" if self._file >= 0 and os.isatty(self._file) else "device"
            raise self.error(f"{self.name}: is a {what}; name a file, or pipe one in")

    def _refused(self, problem: Exception) -> Exception:
        if isinstance(problem, FileNotFoundError | ValueError):  # a name with a zero byte
            return self.error(f"{self.name}: no such file; check the name")
        return self.error(f"{self.name}: cannot be read: {getattr(problem, 'strerror', problem)}")

    def _wait_for_writer(self) -> None:
        """Errors: ``error`` if nobody opens the FIFO for writing in ``WRITER_S``."""
        until = time.monotonic() + WRITER_S
        while True:
            try:
                self._head = os.read(self._file, 1)
            except BlockingIOError:  # there is one, who has not written yet
                break
            if self._head:
                break
            if time.monotonic() > until:
                self.close()
                raise self.error(
                    f"{self.name}: is a FIFO that nobody has written to for {WRITER_S:g} s; "
                    "start its writer first"
                )
            time.sleep(_LOOK_S)
        os.set_blocking(self._file, True)

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill ``buffer`` as far as bytes are at hand; 0 at the end."""
        view = memoryview(buffer).cast("B")
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
        else:
            count = self._read_into(view)
        self.position += count
        return count

    def _read_into(self, view: memoryview) -> int:
        while True:
            try:
                file = self._file if self._kept is None else self._kept
                return os.readv(file, [view]) if len(view) else 0
            except BlockingIOError:  # a standard input that somebody made so
                select.select([self._file], [], [])
            except OSError as problem:
                raise self._refused(problem) from problem

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer only at the end."""
        pieces = []
        while count and (piece := self.read(min(count, _COPY_BYTES))):
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def head(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer only at the end; they will be read again."""
        if len(self._head) < count:
            before = self.position
            self._head = self.take(count)
            self.position = before
        return self._head[:count]

    def at_rest(self) -> Path:
        """Where libraries that jump about find all of it, until it is closed.

        A stream is copied to a file without a name, and begins again with that.  Errors: ``error``
        if it is longer than ``KEPT_BYTES``, or there is no room for it.
        """
        if self.path is not None and _is_utf8(self.path):
            return self.path
        if self.byte_count is None and self._kept is None:
            self._keep()
        return Path(f"/proc/self/fd/{self._file if self._kept is None else self._kept}")

    def _keep(self) -> None:
        count = 0
        try:
            with tempfile.TemporaryFile() as kept:
                while piece := self.read(_COPY_BYTES):
                    kept.write(piece)
                    count += len(piece)
                    if count > KEPT_BYTES:
                        raise self.error(
                            f"{self.name}: is longer than {KEPT_BYTES >> 20} MiB, which is all "
                            "that is kept of a stream; write it to a file and name that"
                        )
                kept.flush()
                self._kept = os.dup(kept.fileno())
                os.lseek(self._kept, 0, os.SEEK_SET)
                self.position = 0
        except OSError as problem:
            raise self.error(
                f"{self.name}: cannot be kept in {printable(tempfile.gettempdir())}: "
                f"{problem.strerror}; set TMPDIR to a folder with room"
            ) from problem
        self.byte_count = count

    def is_same_file(self, path: Path) -> bool:
        """Whether ``path`` names the very file that is read."""
        try:
            return os.path.samestat(os.fstat(self._file), path.stat())
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Let go of the file; may be called again."""
        for file in (self._file, self._kept):
            if file is not None and file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)
        self._file, self._kept = -1, None
        super().close()


def read_whole(path: Path | str, most: int, error: Refuse) -> bytes:
    """Everything in the file ``path``, of which there may be ``most`` bytes.

    Errors: ``error`` if it is missing, cannot be read, is no file or pipe, or is longer.
    """
    text = os.fspath(path)
    kept = _KEPT.get()
    if kept is not None and text in kept:
        return kept[text]
    with Input(path, error) as source:
        content = source.take(most + 1)
        if len(content) > most:
            raise error(f"{source.name}: is longer than {most >> 10} KiB; is it the right file?")
        if kept is not None and source.byte_count is None:
            kept[text] = content
        return content


@contextlib.contextmanager
def small_streams_kept() -> Iterator[None]:
    """Within the block ``read_whole`` gives a stream's content again when it is asked again.

    A command may want a file more than once; a stream can be read but once.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
