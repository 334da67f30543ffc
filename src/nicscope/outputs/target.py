"""What the path of an output leads to: a file to be replaced, or a stream to be written to."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from nicscope.errors import OutputError
from nicscope.outputs.sink import unwritable

STDOUT = Path("/dev/stdout")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MOST_LINKS = 40  # as the kernel follows
_OPENED = os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC


class Target(NamedTuple):
    """Where bytes go that are written to ``shown``."""

    shown: str  # as it was given
    path: Path  # without links, if it is a file
    is_stream: bool
    number: int | None = None  # of the descriptor of this process that it is
    is_socket: bool = False

    def open_stream(self) -> int:
        """A new descriptor of the stream; waits for the reader of a FIFO.

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
            if stat.S_ISREG(os.fstat(number).st_mode):
                os.ftruncate(number, 0)
        except OSError as error:
            raise unwritable(self.shown, error) from error
        return number

    def is_standard_output(self) -> bool:
        """Whether it and this process's standard output are one, so that text would be mixed in."""
        if self.number is not None or not self.is_stream:
            return self.number == 1
        try:
            mine, its = os.fstat(1), self.path.stat()
        except OSError:
            return False
        return stat.S_ISFIFO(mine.st_mode) and os.path.samestat(mine, its)


def target_of(path: Path | str) -> Target:
    """What ``path`` leads to, through all its links.

    Errors: ``OutputError`` if it is a folder or a block device, if its links go round in a
    circle, or if it may not be looked at or written to.
    """
    shown = os.fspath(path)
    number = _own_descriptor(shown)
    if number is not None:
        return _descriptor(shown, number)
    final = Path(os.path.realpath(shown))
    try:
        status = Path(shown).stat()
    except FileNotFoundError:
        return Target(shown, final, is_stream=False)
    except OSError as error:
        raise unwritable(shown, error) from error
    kind = status.st_mode
    _refuse_folders_and_disks(shown, kind)
    if stat.S_ISREG(kind) and _is_same(final, status):
        if not os.access(final, os.W_OK, effective_ids=True):
            raise OutputError(f"{shown}: cannot be written: it is read-only")
        return Target(shown, final, is_stream=False)
    # A file without a name, held open by some process, can only be written as it is.
    return Target(shown, Path(shown), is_stream=True, is_socket=stat.S_ISSOCK(kind))


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
