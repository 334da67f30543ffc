"""The connection manager's half in the machine: ends find each other by address and port."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.verbs_device.calls import Refused
from nicscope.live import layout
from nicscope.live.device import NODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Client(Protocol):
        """A process that is attached."""

        @property
        def node(self) -> int:
            """The node of its NIC."""

        def write_event(self, channel: int, event: bytes) -> None:
            """Write an event to a channel of it."""


REQUEST, RESPONSE, UNREACHABLE, REJECTED, ESTABLISHED, DISCONNECTED = 4, 5, 7, 8, 9, 10
NO_SUCH_SERVICE, BY_ITS_PROGRAM = 8, 28  # why a request is rejected (InfiniBand, 12.6.7.2)
DATAGRAMS = 0x111
_HEAD = struct.Struct("QQ6I")
_PARAMETERS = struct.Struct(f"{len(layout.PARAMETERS)}I")
_PRIVATE = struct.Struct(f"{layout.PRIVATE_WORDS}Q")
EVENT_BYTES = _HEAD.size + _PARAMETERS.size + _PRIVATE.size
_NOTHING = (0,) * (len(layout.PARAMETERS) + layout.PRIVATE_WORDS)
FIRST_FREE, LAST = 32768, 65535  # ports that are given out
NETWORK = 10 << 24
VERSION_6, ONE_VERSION, REUSED, ANY_ADDRESS = (
    layout.CONSTANTS[each] for each in ("VERSION_6", "ONE_VERSION", "REUSED", "ANY_ADDRESS")
)
HALF_MASK = (1 << 32) - 1


class End(msgspec.Struct, eq=False):
    """One end of a connection, or one that listens."""

    handle: int
    client: Client
    channel: int
    cookie: int
    space: int
    port: int = 0
    holds_port: bool = False  # what a request has made shares that of who listened
    shares: int = 0  # how it holds it
    listens: bool = False
    peer: int = 0  # its handle
    is_up: bool = False

    @property
    def node(self) -> int:
        """The node of its process."""
        return self.client.node


class Connections:
    """All ends of all processes."""

    def __init__(self) -> None:
        self._ends: dict[int, End] = {}
        self._made = 0
        self._next_port = FIRST_FREE

    def end(self, client: Client, handle: int) -> End:
        """An end of a process.  Errors: EINVAL."""
        found = self._ends.get(handle)
        if found is None or found.client is not client:
            raise Refused(errno.EINVAL)
        return found

    def create(self, client: Client, channel: int, cookie: int, space: int) -> int:
        """A new end, whose events go to a channel."""
        self._made += 1
        self._ends[self._made] = End(self._made, client, channel, cookie, space)
        return self._made

    def bind(self, end: End, port: int, shares: int) -> int:
        """Give an end a port, or one that is free for 0.

        Errors: as ``_refuse_second``; EADDRNOTAVAIL if none is free.
        """
        if port > LAST:
            raise Refused(errno.EINVAL)
        used = {each.port for each in self._holders(end)}
        if not port and used.issuperset(range(FIRST_FREE, LAST + 1)):
            raise Refused(errno.EADDRNOTAVAIL)
        while not port:
            self._next_port = self._next_port + 1 if self._next_port < LAST else FIRST_FREE
            port = 0 if self._next_port in used else self._next_port
        self._refuse_second(end, port, shares)
        end.port, end.holds_port, end.shares = port, True, shares
        return port

    def listen(self, end: End) -> None:
        """Have an end listen at its port, which nobody may reuse then.

        Errors: EINVAL without one; as ``_refuse_second``.
        """
        if not end.port:
            raise Refused(errno.EINVAL)
        alone = end.shares & ~REUSED
        self._refuse_second(end, end.port, alone)
        end.shares, end.listens = alone, True

    def _holders(self, end: End) -> list[End]:
        """Other ends that hold a port of its node and space."""
        where = end.node, end.space
        found = [each for each in self._ends.values() if each.holds_port and each is not end]
        return [each for each in found if (each.node, each.space) == where]

    def _refuse_second(self, end: End, port: int, shares: int) -> None:
        """Check that no other end holds the port in a way that excludes this one.

        Errors, as on Linux: EADDRINUSE; EADDRNOTAVAIL if one of them holds it for any address.
        """
        for each in self._holders(end):
            both = each.shares & shares
            apart = both & ONE_VERSION and (each.shares ^ shares) & VERSION_6
            if each.port == port and not (apart or both & REUSED):
                any_address = (each.shares | shares) & ANY_ADDRESS
                raise Refused(errno.EADDRNOTAVAIL if any_address else errno.EADDRINUSE)

    def _listener(self, asking: End, address: int, port: int) -> End | None:
        """Who listens there: on the node of the address, or for any other address on all nodes."""
        node = address - NETWORK - 1
        nodes = [node] if 0 <= node < NODES else [asking.node, *range(NODES)]
        for each in nodes:
            for end in self._ends.values():
                where = end.node, end.port, end.space
                if end.listens and where == (each, port, asking.space):
                    return end
        return None

    def connect(self, end: End, address: int, port: int, told: Sequence[int]) -> None:
        """Ask who listens there for a connection; an event tells if nobody does."""
        listener = self._listener(end, address, port)
        if listener is None:
            self._tell(end, REJECTED, NO_SUCH_SERVICE, end.node)
            return
        made = self.create(listener.client, listener.channel, 0, listener.space)
        other = self._ends[made]
        other.port, other.peer, end.peer = listener.port, end.handle, made
        head = REQUEST, 0, NETWORK + end.node + 1, end.port, listener.port, end.node
        event = self._event(listener.cookie, made, head, told)
        listener.client.write_event(listener.channel, event)

    def accept(self, end: End, told: Sequence[int]) -> None:
        """Tell who asked that it is connected.  Errors: EINVAL if nobody has."""
        peer = self._peer(end)
        if end.space == DATAGRAMS:
            end.is_up = peer.is_up = False
            end.peer = peer.peer = 0
        self._tell(peer, RESPONSE, 0, end.node, told)

    def reject(self, end: End, told: Sequence[int]) -> None:
        """Tell who asked that it is not.  Errors: EINVAL if nobody has."""
        peer = self._peer(end)
        end.peer = peer.peer = 0
        self._tell(peer, REJECTED, BY_ITS_PROGRAM, end.node, told)

    def establish(self, end: End) -> None:
        """Both ends are up: who accepted hears of it.  Errors: EINVAL without a peer."""
        peer = self._peer(end)
        end.is_up = peer.is_up = True
        self._tell(peer, ESTABLISHED, 0, end.node)

    def disconnect(self, end: End) -> None:
        """End a connection, of which both ends hear; one that the peer has ended stays so."""
        if end.is_up:
            self._take_down(end, is_left=True)

    def _take_down(self, end: End, is_left: bool) -> None:
        peer = self._ends.get(end.peer)
        was_up, end.is_up, end.peer = end.is_up, False, 0
        if was_up and is_left:
            self._tell(end, DISCONNECTED, 0, end.node)
        if peer is not None and peer.peer == end.handle:
            peer.peer = 0
            if peer.is_up or was_up:
                peer.is_up = False
                self._tell(peer, DISCONNECTED, 0, end.node)
            else:
                self._tell(peer, UNREACHABLE, 0, end.node)

    def destroy(self, end: End) -> None:
        """Forget an end; a peer hears that it has gone."""
        self._take_down(end, is_left=False)
        del self._ends[end.handle]

    def refuse(self, client: Client, event: bytes) -> None:
        """Reject the connection that ``event`` asks for, as the end that it asks is gone."""
        _, handle, kind, *_ = _HEAD.unpack_from(event)
        made = self._ends.get(handle)
        if kind == REQUEST and made is not None and made.client is client:
            if made.peer in self._ends:
                self.reject(made, ())
            self.destroy(made)

    def leave(self, client: Client) -> None:
        """A process has gone, and all its ends with it."""
        for end in [each for each in self._ends.values() if each.client is client]:
            self.destroy(end)

    def _peer(self, end: End) -> End:
        found = self._ends.get(end.peer)
        if found is None:
            raise Refused(errno.EINVAL)
        return found

    def _tell(
        self, end: End, kind: int, status: int, node: int, told: Sequence[int] = _NOTHING
    ) -> None:
        event = self._event(end.cookie, end.handle, (kind, status, 0, 0, end.port, node), told)
        if end.cookie:
            end.client.write_event(end.channel, event)

    def _event(self, cookie: int, handle: int, head: tuple[int, ...], told: Sequence[int]) -> bytes:
        count = len(layout.PARAMETERS)
        words = [*told, *_NOTHING][: count + layout.PRIVATE_WORDS]
        return (
            _HEAD.pack(cookie, handle, *head)
            + _PARAMETERS.pack(*(word & HALF_MASK for word in words[:count]))
            + _PRIVATE.pack(*words[count:])
        )
