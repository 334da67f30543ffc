"""Descriptor tables of processes, as far as a strace log shows them.

A number is a socket, or something else, from the call that makes it until it is closed.  What was
there before the log begins, or is made by a call that the log leaves out, is not known.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from nicscope.traces.importers.strace_lines import number_of

if TYPE_CHECKING:
    from nicscope.traces.importers.strace_lines import Call

F_DUPFD = ("F_DUPFD", "0")
F_DUPFD_CLOEXEC = ("F_DUPFD_CLOEXEC", "0x406")
F_SETFD = ("F_SETFD", "0x2")
SOCK_CLOEXEC = O_CLOEXEC = 0o2000000
CLOSE_RANGE_CLOEXEC = 4
CLONE_FILES, CLONE_THREAD = 0x400, 0x10000

ACCEPTING = frozenset({"accept", "accept4"})
# Calls that only a socket answers: whoever returns well from them has one, known or not.
NAMING_CALLS = frozenset(
    {"bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "setsockopt"}
)
MOVING_CALLS = frozenset(
    {"recv", "recvfrom", "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto"}
)
SOCKET_CALLS = ACCEPTING | NAMING_CALLS | MOVING_CALLS | {"shutdown"}
# Failures of these calls that come after the kernel has found a socket.
OF_SOCKETS = frozenset(
    {
        "EADDRINUSE", "EADDRNOTAVAIL", "EAGAIN", "EALREADY", "ECONNREFUSED", "ECONNRESET",
        "EDESTADDRREQ", "EHOSTUNREACH", "EINPROGRESS", "EISCONN", "EMSGSIZE", "ENETUNREACH",
        "ENOTCONN", "EOPNOTSUPP", "EPIPE", "ETIMEDOUT",
    }
)  # fmt: skip
# Calls that no socket answers well.
FILE_CALLS = frozenset(
    {"fdatasync", "fsync", "ftruncate", "getdents", "getdents64", "lseek", "pread64", "pwrite64"}
)
# Calls that return the number of something that is no socket.
MAKING_FILES = frozenset(
    {
        "creat", "epoll_create", "epoll_create1", "eventfd", "eventfd2", "fanotify_init",
        "inotify_init", "inotify_init1", "memfd_create", "mq_open", "open", "openat", "openat2",
        "perf_event_open", "pidfd_open", "signalfd", "signalfd4", "timerfd_create",
    }
)  # fmt: skip
MAKING_PAIRS = frozenset({"pipe", "pipe2", "socketpair"})
CLOSING = frozenset({"close", "close_range"})
SOCKET_NOTES = ("TCP", "UDP", "UNIX", "NETLINK", "RAW", "PING", "SCTP", "DCCP", "socket:", "VSOCK")
CREATING_TASKS = frozenset({"clone", "clone3", "fork", "vfork"})

_DESCRIPTOR = re.compile(r"(0x[0-9a-f]{1,8}|\d{1,9})(?:<(.*?)>)?(?:,|\)|$|\s)")
_PAIR = re.compile(r"\[(\d{1,9})(?:<.*?>)?, (\d{1,9})(?:<.*?>)?\]")


class File:
    """What a descriptor refers to."""

    __slots__ = ("closes", "followed", "is_socket")

    def __init__(self, is_socket: bool, closes: bool = False) -> None:
        self.is_socket = is_socket
        self.closes = closes  # on exec
        # Requests that were taken for a socket's since the log last proved that it is one.
        self.followed = array("q")


class Descriptors:
    """The known descriptors of a process."""

    def __init__(self, doubted: array[int], files: dict[int, File] | None = None) -> None:
        """Add to ``doubted`` the requests that were not a socket's, as it turns out."""
        self.files = dict(files or {})
        self.doubted = doubted

    def copy(self) -> Descriptors:
        """A copy for a forked child."""
        files = {n: File(file.is_socket, file.closes) for n, file in self.files.items()}
        return Descriptors(self.doubted, files)

    def is_socket(self, arguments: str) -> tuple[bool | None, File | None]:
        """Whether the first argument is a socket; None if that is not known.

        And the descriptor by which it was followed here, if strace made no note of it.
        """
        match = _DESCRIPTOR.match(arguments)
        if match is None:
            return None, None
        if match[2] is not None:
            return match[2].startswith(SOCKET_NOTES), None
        number = number_of(match[1])
        file = None if number is None else self.files.get(number)
        return (None, None) if file is None else (file.is_socket, file)

    def begin(self, name: str, arguments: str) -> None:
        """Apply a call that takes effect at its entry: others may reuse the number at once."""
        if name == "close":
            number = number_of(arguments.partition(",")[0])
            if number is not None:
                self.files.pop(number, None)

    def end(self, call: Call) -> None:
        """Apply the effect of a call that returned."""
        result = call.result
        name, words = call.name, call.arguments.split(", ")
        first = number_of(words[0])
        self._look(call, first)
        if result is None or result < 0:
            return
        if name == "socket":
            self._made(result, File(True, _says(words[1:2], "SOCK_CLOEXEC", SOCK_CLOEXEC)))
        elif name in ACCEPTING:
            self._made(result, File(True, _says(words[3:4], "SOCK_CLOEXEC", SOCK_CLOEXEC)))
        elif name in MAKING_FILES:
            self._made(result, File(False, "CLOEXEC" in call.arguments))
        elif name in MAKING_PAIRS:
            self._make_pair(name, call.arguments)
        elif name in ("dup", "dup2", "dup3") and first is not None:
            self._duplicate(first, result, _says(words[2:3], "O_CLOEXEC", O_CLOEXEC), name != "dup")
        elif name == "fcntl" and first is not None and len(words) > 1:
            self._control(first, words, result)
        elif name == "close_range" and first is not None and len(words) > 1:
            self._close_range(first, words)
        elif name == "execve":
            self.files = {n: file for n, file in self.files.items() if not file.closes}

    def _look(self, call: Call, first: int | None) -> None:
        """Classify the first argument by the call that uses it."""
        if first is None or call.result is None or call.name in CLOSING:
            return
        note = _DESCRIPTOR.match(call.arguments) if "<" in call.arguments[:12] else None
        if note is not None and note[2] is not None:
            self._seen(first, note[2].startswith(SOCKET_NOTES))
        elif call.name in SOCKET_CALLS:
            if call.result >= 0 or call.error in OF_SOCKETS:
                self._seen(first, True)
            elif call.error == "ENOTSOCK":
                self._seen(first, False)
        elif call.name in FILE_CALLS and call.result >= 0:
            self._seen(first, False)

    def _seen(self, number: int, is_socket: bool) -> None:
        file = self.files.get(number)
        if file is None or file.is_socket != is_socket:
            # Somebody has closed it, which the log does not show.
            self._made(number, File(is_socket))
        else:
            del file.followed[:]

    def _made(self, number: int, file: File) -> None:
        """Bind ``number`` to ``file``, replacing an entry that should not exist."""
        before = self.files.get(number)
        if before is not None:
            self.doubted.extend(before.followed)
        self.files[number] = file

    def _make_pair(self, name: str, arguments: str) -> None:
        match = _PAIR.search(arguments)
        if match is not None:
            closes = "CLOEXEC" in arguments
            for number in (int(match[1]), int(match[2])):
                self._made(number, File(name == "socketpair", closes))

    def _duplicate(self, old: int, new: int, closes: bool, over: bool) -> None:
        if old == new:
            return
        if over:  # closes what was there
            self.files.pop(new, None)
        file = self.files.get(old)
        if file is not None:
            self._made(new, File(file.is_socket, closes))
        elif new in self.files:
            self.doubted.extend(self.files.pop(new).followed)

    def _control(self, number: int, words: list[str], result: int) -> None:
        if words[1] in F_DUPFD + F_DUPFD_CLOEXEC:
            self._duplicate(number, result, words[1] in F_DUPFD_CLOEXEC, over=False)
        elif words[1] in F_SETFD and number in self.files:
            self.files[number].closes = words[2:3] in (["FD_CLOEXEC"], ["1"], ["0x1"])

    def _close_range(self, first: int, words: list[str]) -> None:
        last = number_of(words[1])
        on_exec = _says(words[2:3], "CLOSE_RANGE_CLOEXEC", CLOSE_RANGE_CLOEXEC)
        for number in [n for n in self.files if first <= n and (last is None or n <= last)]:
            if on_exec:
                self.files[number].closes = True
            else:
                del self.files[number]


def shares(call_name: str, arguments: str) -> tuple[bool, bool]:
    """Whether a clone call shares the descriptor table, and the process.

    Raw ``clone3`` hides its flags behind a pointer; the C library makes threads with it.
    """
    if call_name in ("fork", "vfork"):
        return False, False
    flags = re.search(r"flags=([^,})]*)", arguments)
    if flags is None:
        raw = number_of(arguments.partition(",")[0])
        if call_name == "clone3" or raw is None:
            return True, True
        return bool(raw & CLONE_FILES), bool(raw & CLONE_THREAD)
    thread = "CLONE_THREAD" in flags[1]
    return thread or "CLONE_FILES" in flags[1], thread


def _says(word: list[str], name: str, bit: int) -> bool:
    """Whether flags, by name or raw, include that bit."""
    if not word:
        return False
    raw = number_of(word[0])
    return name in word[0] if raw is None else bool(raw & bit)
