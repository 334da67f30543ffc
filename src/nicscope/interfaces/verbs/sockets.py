"""Sockets and shared values between programs of several nodes, apart from the RDMA network."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import select
import socket
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.cmid import ANYWHERE, FIRST_PORT, local_names
from nicscope.interfaces.verbs.world import here, whose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.interfaces.verbs.world import World


def exchange(name: str, value: Any) -> list[Any]:
    """Give a value to all nodes; what each has given under that name, in order of the nodes.

    It waits, in no virtual time, until every node has given one, as often as one likes: a node's
    second value is exchanged for the others' second.  What is given is copied.
    """
    own = here()
    mine = pickle.dumps(value)
    own.offered.setdefault(name, []).append(mine)
    turn = own.taken.get(name, 0)
    own.taken[name] = turn + 1

    def is_whole() -> bool:
        return all(len(each.offered.get(name, ())) > turn for each in own.neighbours)

    own.wait(f"the other nodes to exchange {name!r}", is_whole)
    # Programs of this very run have given these.
    return [pickle.loads(each.offered[name][turn]) for each in own.neighbours]


_SOCKET = socket.socket
_INET = (socket.AF_INET, socket.AF_INET6)
Place = tuple[str, int]
Coming = tuple[socket.socket, Place]  # a connection that nobody has accepted yet, and whence
_listening: dict[tuple[int, int], deque[Coming]] = {}  # by node and port
_open: dict[int, weakref.WeakSet[socket.socket]] = {}  # by node


class NodeSocket(_SOCKET):
    """A stream socket between simulated nodes; other kinds are the system's sockets."""

    def __init__(
        self,
        family: int = -1,
        type: int = -1,  # noqa: A002 - its name is given
        proto: int = -1,
        fileno: int | None = None,
    ) -> None:
        super().__init__(family, type, proto, fileno)
        self._world = whose() if self.family in _INET and self.type == socket.SOCK_STREAM else None
        self._at: Place = ("0.0.0.0", 0)
        self._peer: Place | None = None
        self._coming: deque[Coming] | None = None
        self._patience: float | None = None
        if self._world is not None:
            super().setblocking(False)
            _open.setdefault(self._world.node, weakref.WeakSet()).add(self)

    def settimeout(self, value: float | None) -> None:
        """Set the timeout; only 0 matters, as waiting takes no virtual time."""
        if self._world is None:
            super().settimeout(value)
        self._patience = value

    def setblocking(self, flag: bool) -> None:
        """Set whether calls block."""
        self.settimeout(None if flag else 0.0)

    def setsockopt(self, *given: Any) -> None:
        """Does nothing: the simulated network has no options."""
        if self._world is None:
            super().setsockopt(*given)

    def bind(self, address: Any) -> None:
        """Bind to an address."""
        if self._world is None:
            super().bind(address)
            return
        name, port = address[:2]
        if name not in local_names(self._world) and name not in ANYWHERE:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        node = self._world.node
        if not port:
            port = next(at for at in range(FIRST_PORT, 1 << 16) if (node, at) not in _listening)
        self._at = (name or "0.0.0.0", int(port))

    def listen(self, backlog: int = 0) -> None:
        """Listen for connections."""
        if self._world is None:
            super().listen(backlog)
            return
        if not self._at[1]:
            self.bind(self._at)
        key = self._world.node, self._at[1]
        if self._coming is None and key in _listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._coming = _listening.setdefault(key, deque())

    def accept(self) -> tuple[socket.socket, Any]:
        """Wait for the next connection."""
        if self._world is None:
            return super().accept()
        coming = self._coming
        if coming is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._wait(f"a connection to port {self._at[1]}", lambda: bool(coming))
        taken, whence = coming.popleft()
        made = NodeSocket(self.family, self.type, self.proto, fileno=taken.detach())
        made._at, made._peer = self._at, whence
        return made, whence

    def connect(self, address: Any) -> None:
        """Connect to a listener, waiting for one; errors: if there never is one."""
        if self._world is None:
            super().connect(address)
            return
        name, port = str(address[0]), int(address[1])
        world = self._world
        what = f"somebody to listen at {name}, port {port}"
        world.wait(what, lambda: _found(world, name, port) is not None, may_fail=True)
        coming = _found(world, name, port)
        if coming is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        mine, other = socket.socketpair()
        with mine:
            os.dup2(mine.fileno(), self.fileno())
        super().setblocking(False)
        own = next(gid.raw for gid in world.gids() if gid.slot == 1)
        self._at, self._peer = (".".join(map(str, own[12:])), FIRST_PORT), (name, port)
        coming.append((other, self._at))

    def connect_ex(self, address: Any) -> int:
        """Connect, and return the errno of an error."""
        try:
            self.connect(address)
        except OSError as wrong:
            return wrong.errno or errno.EINVAL
        return 0

    def getsockname(self) -> Any:
        """The local address."""
        return super().getsockname() if self._world is None else self._at

    def getpeername(self) -> Any:
        """The peer's address."""
        if self._world is None:
            return super().getpeername()
        if self._peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer

    def recv(self, *given: Any) -> bytes:
        """Wait for bytes; none at the end of the stream."""
        self._until(select.POLLIN)
        return super().recv(*given)

    def recv_into(self, *given: Any, **named: Any) -> int:
        """Wait for bytes and store them into a buffer."""
        self._until(select.POLLIN)
        return super().recv_into(*given, **named)

    def send(self, *given: Any) -> int:
        """Send some of the bytes; how many."""
        self._until(select.POLLOUT)
        return super().send(*given)

    def sendall(self, data: Any, *given: Any) -> None:
        """Send all of the bytes."""
        if self._world is None:
            super().sendall(data, *given)
            return
        left = memoryview(data).cast("B")
        while left:
            left = left[self.send(left, *given) :]

    def _until(self, what: int) -> None:
        if self._world is None:
            return
        poll = select.poll()
        poll.register(self.fileno(), what)
        side = "bytes from" if what == select.POLLIN else "room for bytes to"
        self._wait(f"{side} {self._told_peer()}", lambda: bool(poll.poll(0)))

    def _told_peer(self) -> str:
        return "a socket" if self._peer is None else f"{self._peer[0]}, port {self._peer[1]}"

    def _wait(self, what: str, has_come: Callable[[], bool]) -> None:
        if self._patience == 0 and not has_come():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        assert self._world is not None
        self._world.wait(what, has_come)

    def close(self) -> None:
        """Close the socket; the peer can still read what was sent."""
        if self._world is not None and self._coming is not None:
            _listening.pop((self._world.node, self._at[1]), None)
            for taken, _ in self._coming:
                taken.close()
        self._coming = None
        super().close()


def _found(world: World, name: str, port: int) -> deque[Coming] | None:
    """The backlog of the listener at an address, on this node before other nodes of that name."""
    for each in sorted(world.neighbours, key=lambda one: one is not world):
        if name in local_names(each) and (each.node, port) in _listening:
            return _listening[each.node, port]
    return None


def close_all() -> None:
    """Close the sockets that the ending program has left open, as the system does."""
    for each in [*_open.pop(here().node, ())]:
        each.close()


@contextlib.contextmanager
def sockets_emulated() -> Iterator[None]:
    """Within the block, sockets that programs create are of their simulated nodes."""
    socket.socket = NodeSocket  # type: ignore[misc]
    try:
        yield
    finally:
        socket.socket = _SOCKET  # type: ignore[misc]
        for each in [one for sockets in _open.values() for one in sockets]:
            each.close()
        _listening.clear()
        _open.clear()
