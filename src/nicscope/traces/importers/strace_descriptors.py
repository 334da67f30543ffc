"""Which descriptors of which process are sockets, followed through the calls of a strace log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nicscope.traces.importers.strace_lines import number_of

if TYPE_CHECKING:
    from nicscope.traces.importers.strace_lines import Call

F_DUPFD = ("F_DUPFD", "0")
F_DUPFD_CLOEXEC = ("F_DUPFD_CLOEXEC", "0x406")
F_SETFD = ("F_SETFD", "0x2")
SOCK_CLOEXEC = O_CLOEXEC = 0o2000000
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
SOCKET_NOTES = ("TCP", "UDP", "UNIX", "NETLINK", "RAW", "PING", "SCTP", "DCCP", "socket:", "VSOCK")
CREATING_TASKS = frozenset({"clone", "clone3", "fork", "vfork"})

_DESCRIPTOR = re.compile(r"(0x[0-9a-f]+|\d+)(?:<(.*?)>)?(?:,|\)|$|\s)")
_PAIR = re.compile(r"\[(\d+)(?:<.*?>)?, (\d+)(?:<.*?>)?\]")


class Descriptors:
    """Descriptors that are sockets: number to whether exec closes it."""

    def __init__(self, sockets: dict[int, bool] | None = None) -> None:
        self.sockets = dict(sockets or {})

    def copy(self) -> Descriptors:
        """Return what a forked child gets."""
        return Descriptors(self.sockets)

    def is_socket(self, arguments: str) -> bool:
        """Whether the first argument is a socket, by strace's own note if it made one."""
        match = _DESCRIPTOR.match(arguments)
        if match is None:
            return False
        if match[2] is not None:
            return match[2].startswith(SOCKET_NOTES)
        return int(match[1], 0) in self.sockets

    def begin(self, name: str, arguments: str) -> None:
        """Note a call that takes effect when it begins: another task may get the number at once."""
        if name == "close":
            number = number_of(arguments.partition(",")[0])
            if number is not None:
                self.sockets.pop(number, None)

    def end(self, call: Call) -> None:
        """Note what a call that returned well has made of the table."""
        result = call.result
        if result is None or result < 0:
            return
        name, words = call.name, call.arguments.split(", ")
        first = number_of(words[0])
        if name == "socket":
            self.sockets[result] = _closes_on_exec(words[1:2], "SOCK_CLOEXEC", SOCK_CLOEXEC)
        elif name in ACCEPTING:
            self.sockets[result] = _closes_on_exec(words[3:4], "SOCK_CLOEXEC", SOCK_CLOEXEC)
        elif name == "socketpair":
            self._add_pair(call.arguments)
        elif name in ("dup", "dup2", "dup3") and first is not None:
            self._duplicate(first, result, _closes_on_exec(words[2:3], "O_CLOEXEC", O_CLOEXEC))
        elif name == "fcntl" and first is not None and len(words) > 1:
            self._control(first, words, result)
        elif name == "close_range" and first is not None and len(words) > 1:
            last = number_of(words[1])
            for number in [n for n in self.sockets if first <= n <= (last if last else n)]:
                del self.sockets[number]
        elif name == "execve":
            self.sockets = {n: closes for n, closes in self.sockets.items() if not closes}
        if name in SOCKET_CALLS and first is not None:
            self.sockets.setdefault(first, False)

    def _add_pair(self, arguments: str) -> None:
        match = _PAIR.search(arguments)
        if match is not None:
            closes = "SOCK_CLOEXEC" in arguments
            self.sockets[int(match[1])] = self.sockets[int(match[2])] = closes

    def _duplicate(self, old: int, new: int, closes: bool) -> None:
        if old == new:
            return
        self.sockets.pop(new, None)
        if old in self.sockets:
            self.sockets[new] = closes

    def _control(self, number: int, words: list[str], result: int) -> None:
        if words[1] in F_DUPFD + F_DUPFD_CLOEXEC:
            self._duplicate(number, result, words[1] in F_DUPFD_CLOEXEC)
        elif words[1] in F_SETFD and number in self.sockets:
            self.sockets[number] = words[2:3] in (["FD_CLOEXEC"], ["1"], ["0x1"])


def shares(call_name: str, arguments: str) -> tuple[bool, bool]:
    """Whether a task made by this call shares its maker's descriptors, and its process.

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


def _closes_on_exec(word: list[str], name: str, bit: int) -> bool:
    if not word:
        return False
    raw = number_of(word[0])
    return name in word[0] if raw is None else bool(raw & bit)
