"""The connection behind a descriptor that a call used, and counts of what could not be seen."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable


HERE = 0  # the number of this machine, as a node and as a peer
UNKNOWN = "unknown"
_PIDFD_GETFD = 438  # on every machine
_KINDS = {
    (socket.AF_INET, socket.SOCK_STREAM): "tcp",
    (socket.AF_INET6, socket.SOCK_STREAM): "tcp",
    (socket.AF_INET, socket.SOCK_DGRAM): "udp",
    (socket.AF_INET6, socket.SOCK_DGRAM): "udp",
}

_libc = ctypes.CDLL(None, use_errno=True)


class Connection(NamedTuple):
    """A socket, as it was when it was first used."""

    kind: str  # tcp, udp, unix, another family's name, or unknown
    local: str
    remote: str  # empty: connected to nobody
    peer: int | None  # of the remote's machine: 0 is this one, others in the order of first use


class Connections:
    """All sockets of a recording, numbered from 0 in the order of their first use."""

    def __init__(self) -> None:
        self.met: list[Connection] = []
        self._numbers: dict[int, int] = {}  # by inode
        self._machines: dict[str, int] = {}

    def number_of(self, inode: int, process: int, descriptor: int) -> int:
        """The number of the socket with that inode, which ``process`` has as ``descriptor``."""
        number = self._numbers.get(inode)
        if number is None:
            met = self._meet(process, descriptor)
            number = self._numbers[inode] = len(self.met)
            self.met.append(met)
        return number

    def _meet(self, process: int, descriptor: int) -> Connection:
        try:
            held = socket.socket(fileno=_duplicate(process, descriptor))
        except OSError:  # an older kernel, or the process is gone
            return Connection(UNKNOWN, "", "", None)
        with held:
            local, remote = _asked(held.getsockname), _asked(held.getpeername)
            if held.family == socket.AF_UNIX:
                return Connection("unix", _spelt(local), _spelt(remote), HERE)
            kind = _KINDS.get((held.family, held.type)) or _family(held)
            peer = None
            if kind in _KINDS.values() and isinstance(local, tuple) and isinstance(remote, tuple):
                peer = self._peer_of(local, remote)
            return Connection(kind, _spelt(local), _spelt(remote), peer)

    def _peer_of(self, local: tuple[str, int], remote: tuple[str, int]) -> int:
        machine = remote[0].removeprefix("::ffff:")
        if machine == "::1" or machine.startswith("127.") or remote[0] == local[0]:
            return HERE
        return self._machines.setdefault(machine, len(self._machines) + 1)


def _duplicate(process: int, descriptor: int) -> int:
    """A duplicate of a descriptor that ``process`` has open.  Errors: ``OSError``."""
    handle = os.pidfd_open(process)
    try:
        found = int(_libc.syscall(_PIDFD_GETFD, handle, descriptor, 0))
    finally:
        os.close(handle)
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def _family(held: socket.socket) -> str:
    """The name of a socket's family, its number where Python knows none."""
    family = held.family
    return family.name.lower() if isinstance(family, socket.AddressFamily) else f"family {family}"


def _asked(end: Callable[[], Any]) -> Any:
    """The address of one end; None of a socket that is not connected, or has no address."""
    try:
        return end()
    except OSError:
        return None


def _spelt(address: object) -> str:
    """``HOST:PORT``, a path, or ``@NAME`` for a unix socket without one."""
    if isinstance(address, tuple):
        host, port = str(address[0]), address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(address, bytes):
        return "@" + address.lstrip(b"\0").decode(errors="backslashreplace")
    return "" if address is None else printable(str(address))  # a path is of any bytes


MOST_FOLDERS = 256  # of 1,024 descriptors that a process usually may have


class Descriptors:
    """The descriptors of traced threads."""

    def __init__(self) -> None:
        self._folders: dict[int, int] = {}  # by thread, the latest last

    def status(self, tid: int, descriptor: int) -> os.stat_result:
        """The kind of file behind a descriptor of a thread.

        Errors: ``PermissionError`` if this user may not know, else ``OSError`` if it is none.
        """
        folder = self._folders.get(tid)
        if folder is None:
            folder = self._open(tid)
        return os.stat(str(descriptor), dir_fd=folder)

    def forget(self, tid: int) -> None:
        """Close the /proc folder of a thread that has ended or called exec."""
        folder = self._folders.pop(tid, None)
        if folder is not None:
            os.close(folder)

    def close(self) -> None:
        """Close all folders."""
        for tid in list(self._folders):
            self.forget(tid)

    def _open(self, tid: int) -> int:
        if len(self._folders) >= MOST_FOLDERS:
            self.forget(next(iter(self._folders)))
        folder = os.open(f"/proc/{tid}/fd", os.O_PATH | os.O_CLOEXEC)
        self._folders[tid] = folder
        return folder


@dataclass
class Observed:
    """Counts of one recording; the tracer adds to them as it goes."""

    rows: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    processes: int = 0
    threads: int = 0  # the first of each process among them
    programs: int = 0  # successful calls of exec
    moved: Counter[str] = field(default_factory=Counter)  # calls that gave rows, by name
    empty: int = 0  # calls that moved nothing, such as a read at the end of a stream
    failed: Counter[str] = field(default_factory=Counter)  # by name of the error
    interrupted: int = 0  # by a signal before anything moved; most are made again
    unfinished: int = 0  # the thread ended, or was let go, before the call did
    copies: Counter[str] = field(default_factory=Counter)  # sendfile and splice, by name
    copied_bytes: int = 0
    ring_calls: Counter[str] = field(default_factory=Counter)  # io_uring, by name
    foreign_calls: int = 0  # system calls of 32-bit code, of any kind
    hidden: int = 0  # calls whose descriptor or buffers this user may not look at
    not_sockets: int = 0  # reads and writes of files, pipes and terminals

    def fail(self, number: int) -> None:
        """Count a call that failed with errno ``number``."""
        self.failed[errno.errorcode.get(number, str(number))] += 1

    def as_json(self) -> dict[str, Any]:
        """All counts, by name."""
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }
