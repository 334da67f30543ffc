"""Temporary files under hidden names, and the removal of those whose writer was killed.

Where the file system can hold a file without a name, a killed writer leaves nothing.  Elsewhere,
and for the moment in which a file takes its name, there is a temporary name, which says that it
is nicscope's and whose file is locked while its writer lives.  So the next writer of the same
output knows what it may remove.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.errors import OutputError
from nicscope.outputs.target import Descriptor, Sink, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = ".part"
_LONGEST_NAME = 255  # bytes
_RANDOM_BYTES = 8
_MARK = re.compile(rb"\.nicscope-[0-9a-f]{16}")
_NEW = os.O_RDWR | os.O_CLOEXEC
_LOOKED_AT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}
_DESCRIPTORS = Path("/proc/self/fd")
_SCRATCH = "scratch"  # what temporary names are made from of files that never get one


def temporary_path(path: Path) -> Path:
    """A new temporary name beside ``path``, with as much of its name as fits."""
    mark = b".nicscope-" + os.urandom(_RANDOM_BYTES).hex().encode()
    return path.with_name(os.fsdecode(_beginning(path) + mark + ENDING.encode()))


def temporary_paths(path: Path, ending: str = ENDING) -> list[Path]:
    """All existing temporary names of ``path``, whoever owns them."""
    beginning, end = _beginning(path), ending.encode()
    try:
        names = [os.fsencode(name) for name in os.listdir(path.parent)]  # noqa: PTH208 - names only
    except OSError:
        return []
    return [
        path.with_name(os.fsdecode(name))
        for name in names
        if name.startswith(beginning)
        and name.endswith(end)
        and _MARK.fullmatch(name[len(beginning) : -len(end)])
    ]


@contextlib.contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Whether ``path`` is this user's and its writer is dead; locked within the block."""
    try:
        number = os.open(path, _LOOKED_AT)
    except OSError:
        yield False
        return
    try:
        yield _is_abandoned(path, number)
    finally:
        os.close(number)


def remove_abandoned(path: Path) -> None:
    """Remove a temporary file, or a folder of them, if its writer is dead."""
    with abandoned(path) as is_abandoned, contextlib.suppress(OSError):
        if not is_abandoned:
            return
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def lock(number: int) -> bool:
    """Lock a descriptor to show that its writer is alive; False if it is locked already."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks: nobody takes it for abandoned there
    return True


def nameless(folder: Path) -> int:
    """The descriptor of a nameless file in ``folder``, gone when closed; errors: ``OSError``."""
    number = _unnamed(folder)
    if number is None:
        for left in temporary_paths(folder / _SCRATCH):
            remove_abandoned(left)
        path = temporary_path(folder / _SCRATCH)
        number = os.open(path, _NEW | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink(missing_ok=True)  # another one may have removed it, as above
    return number


class Part:
    """A file being written, until ``place`` gives it its name; errors: ``OutputError``."""

    def __init__(self, path: Path, shown: object) -> None:
        self._shown = shown
        self._temporary: Path | None = None
        for left in temporary_paths(path):
            remove_abandoned(left)
        try:
            number = _unnamed(path.parent)
            if number is None:
                number = self._named(path)
        except OSError as error:
            raise unwritable(shown, error) from error
        self._number = number
        self.sink = Sink(Descriptor(number, shown, is_file=True))

    def _named(self, path: Path) -> int:
        """Create a file under a temporary name, locked before it could seem abandoned."""
        while True:
            self._temporary = temporary_path(path)
            number = os.open(self._temporary, _NEW | os.O_CREAT | os.O_EXCL, 0o666)
            if lock(number) and os.fstat(number).st_nlink:
                return number
            os.close(number)

    def finish(self) -> None:
        """Sync the file to disk."""
        self.sink.flush()
        try:
            os.fsync(self._number)
        except OSError as error:
            raise unwritable(self._shown, error) from error

    def place(self, path: Path, *, like: Path | None = None) -> None:
        """Rename the finished file to ``path``, replacing a plain file of that name.

        It has the permissions of that file, or of ``like``, and its owners as far as is allowed.
        """
        try:
            self._copy_mode_and_owner(like or path)
            if self._temporary is None:
                try:
                    _link(self._number, path)
                except FileExistsError:
                    lock(self._number)
                    self._temporary = temporary_path(path)
                    _link(self._number, self._temporary)
            if self._temporary is not None:
                self._temporary.rename(path)
                self._temporary = None
        except OSError as error:
            raise unwritable(self._shown, error) from error

    def _copy_mode_and_owner(self, path: Path) -> None:
        try:
            old = path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISREG(old.st_mode):
            raise OutputError(f"{self._shown}: cannot be written: it is no plain file any more")
        mine = os.fstat(self._number)
        if (old.st_uid, old.st_gid) != (mine.st_uid, mine.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(self._number, -1, old.st_gid)
                os.fchown(self._number, old.st_uid, -1)
        os.fchmod(self._number, stat.S_IMODE(old.st_mode))

    def discard(self) -> None:
        """Close the file, and remove its temporary name if it has no other."""
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            self._temporary = None
        self.sink.raw.give_up()
        if self._number >= 0:
            os.close(self._number)
            self._number = -1


def _beginning(path: Path) -> bytes:
    taken = len(b"." + b".nicscope-" + b"00" * _RANDOM_BYTES + ENDING.encode())
    return b"." + os.fsencode(path.name)[: _LONGEST_NAME - taken]


def _is_abandoned(path: Path, number: int) -> bool:
    status = os.fstat(number)
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if not is_plain or status.st_uid != os.geteuid():
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(path.lstat(), status)
    except OSError:
        return False


def _unnamed(folder: Path) -> int | None:
    """Create a nameless file in ``folder``; None where that is not supported."""
    if not _DESCRIPTORS.is_dir():  # through which it would get its name
        return None
    try:
        return os.open(folder, _NEW | os.O_TMPFILE, 0o666)
    except OSError as error:
        if error.errno not in _NO_UNNAMED:
            raise
        return None


def _link(number: int, path: Path) -> None:
    """Link the file of a descriptor to ``path``; errors: ``OSError``."""
    # Python follows the link to the file only if it is told of a folder as well.
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        os.link(
            _DESCRIPTORS / str(number),
            path.name,
            src_dir_fd=folder,
            dst_dir_fd=folder,
            follow_symlinks=True,
        )
    finally:
        os.close(folder)
