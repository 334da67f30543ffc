"""What the library keeps of a queue pair: its work, in the order in which it was posted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.calls import QpState

if TYPE_CHECKING:
    from nicscope.interfaces.verbs_device.calls import Caps, Piece, Receive, Send

NO_STREAM = 0


class Pair:
    """A queue pair."""

    __slots__ = (
        "attributes",
        "caps",
        "dgid",
        "domain",
        "heard",
        "inline_at",
        "inline_key",
        "inlined",
        "kind",
        "number",
        "peer",
        "peer_node",
        "port",
        "receives",
        "recv_cq",
        "send_cq",
        "sends",
        "sig_all",
        "srq",
        "state",
        "stream",
        "waiting_receives",
        "waiting_sends",
        "xrcd",
    )

    def __init__(
        self,
        number: int,
        kind: int,
        port: int,
        domain: int,
        cqs: tuple[int, int],
        caps: Caps,
        sig_all: bool,
    ) -> None:
        self.number, self.kind, self.port, self.domain = number, kind, port, domain
        self.send_cq, self.recv_cq = cqs
        self.caps, self.sig_all = caps, sig_all
        self.srq = self.xrcd = 0
        self.state = codes.RESET
        self.attributes = QpState(codes.RESET)
        self.stream = NO_STREAM
        self.dgid = bytes(16)  # where the last datagram went
        self.peer: int | None = None  # the other end's number
        self.peer_node = 0
        self.heard = 0  # of the port's troubles
        self.inline_at = self.inline_key = 0
        self.inlined = 0  # requests that were given by value
        # Posted and not known to have ended: number, what the program calls it, what it is.
        self.sends: deque[tuple[int, int, int]] = deque()
        self.receives: deque[tuple[int, int, tuple[Piece, ...]]] = deque()
        self.waiting_sends: deque[tuple[int, Send]] = deque()
        self.waiting_receives: deque[tuple[int, Receive]] = deque()

    @property
    def queues(self) -> set[int]:
        """Completion queues that it uses."""
        return {self.send_cq, self.recv_cq} - {0}

    def take_send(self, cookie: int) -> tuple[int, int]:
        """What the program calls that one, and what ended; those before it are over, too."""
        while True:
            number, wr_id, opcode = self.sends.popleft()
            if number == cookie:
                return wr_id, opcode

    def take_receive(self, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        """What the program calls that receive, and where it is."""
        number, wr_id, pieces = self.receives[0]
        if number == cookie:
            self.receives.popleft()
            return wr_id, pieces
        for place, (number, wr_id, pieces) in enumerate(self.receives):
            if number == cookie:
                del self.receives[place]
                return wr_id, pieces
        raise LookupError(cookie)

    def forget(self) -> None:
        """Nothing is posted any more."""
        for queue in (self.sends, self.receives, self.waiting_sends, self.waiting_receives):
            queue.clear()

    def has_unended(self, ports: Any, node: int) -> bool:
        """Whether a descriptor has not ended yet."""
        record = ports.table[node, self.port]
        return bool(record["posted"] + record["refused"] > record["reported"])
