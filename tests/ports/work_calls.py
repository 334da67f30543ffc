"""What a process asks of a port with work queues: sends and receives of registered memory."""

from __future__ import annotations

from types import coroutine
from typing import NamedTuple

from nicscope.drivers.simulate.ports.posting import GATHER
from nicscope.drivers.simulate.ports.reports import KIND_BITS
from nicscope.drivers.simulate.process import OWN, TIME
from nicscope.drivers.simulate.records import POST, PROVIDE
from nicscope.errors import SimulationError
from nicscope.interfaces.ports.process import Asked, Process
from nicscope.nic.ports.layout import DONE, FENCED, IMMEDIATE, SENT, STATUS_NAMES

WORD = 8  # bytes of immediate data
_NOTHING = [(0, 0, 0)]  # in the place of pieces, of which it has none


class Ended(NamedTuple):
    """How a request, or a receive, ended."""

    cookie: int
    status: str
    operation: int
    length: int
    immediate: int | None = None


class WorkCalls(Process):
    """The calls of a process whose port takes one receive for each message."""

    def posting_gather(
        self,
        operation,
        pieces,
        *,
        name=0,
        offset=0,
        immediate=None,
        fenced=False,
        swap=0,
        port=None,
    ):
        """``post_gather``, to be put before a call that answers."""
        self._check_pieces(pieces)
        which = self._own(port)
        flags = (0 if immediate is None else IMMEDIATE) | FENCED * fenced
        own = self._mapped[which] | GATHER | operation | flags << KIND_BITS
        request, many = self._next_request, len(pieces)
        what = self._sim_process.request(POST, which, many, name, 0, offset, request, own)
        self._next_request += 1
        words = [each.to_bytes(WORD, "little", signed=True) for each in (immediate or 0, 0, swap)]
        return Asked(request, what, b"".join(words), pieces or _NOTHING)

    def posting_receive(self, cookie, pieces, *, status=DONE, port=None):
        """``post_receive``, to be put before a call that answers."""
        self._check_pieces(pieces)
        which = self._own(port)
        own, many = self._mapped[which] | status, len(pieces)
        what = self._sim_process.request(PROVIDE, which, many, packet=cookie, own=own)
        return Asked(-1, what, b"", pieces or _NOTHING)

    def _check_pieces(self, pieces):
        self._owner.check_caller()
        most = self.cluster.size.segments
        if len(pieces) > most:
            raise SimulationError(
                f"a descriptor names up to {most} pieces of memory, {len(pieces)} were given"
            )

    @coroutine
    def post_gather(
        self,
        operation,
        pieces,
        *,
        name=0,
        offset=0,
        immediate=None,
        fenced=False,
        swap=0,
        port=None,
    ):
        """Post a descriptor; its number, by which ``ended`` will report it.

        ``pieces``: address, length and key of registered memory, which are sent as one message;
        ``name`` and ``offset``: the peer's memory that a remote operation is about; ``fenced``: it
        waits until what was fetched before has come.  Of an atomic operation ``immediate`` is what
        to compare with or to add, ``swap`` what to swap.
        """
        asked = self.posting_gather(
            operation,
            pieces,
            name=name,
            offset=offset,
            immediate=immediate,
            fenced=fenced,
            swap=swap,
            port=port,
        )
        return (yield from self._posted(asked, port))

    @coroutine
    def post_receive(self, cookie, pieces, *, status=DONE, port=None):
        """Post a receive for one message; ``received`` will report it by ``cookie``.

        ``status``: what the library has found wrong with it, with which it then ends at once.
        """
        asked = self.posting_receive(cookie, pieces, status=status, port=port)
        yield from self._posted(asked, port)

    def _posted(self, asked, port):
        self._place(asked)
        ended = yield asked.what
        self._sim_process.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._closed_port_error(port)
        return asked.request

    # Reports are asked for as of any port, and say more.
    @coroutine
    def ended(self, mode="poll", port=None, *, after=None, timeout_us=None):
        question = self._question(SENT, mode, port, timeout_us)
        record = yield question if after is None else self._chain_requests(after, question)
        self._sim_process.now = record[TIME]
        if record[OWN] < 0:
            raise self._wait_error(record)
        _, _, _, _, _, cookie, length, operation, status, _, _ = record
        return Ended(cookie, STATUS_NAMES[status], operation, length)

    received = Process.arrival

    def _received(self, record):
        _, _, _, _, _, cookie, length, word, status, own, _ = record
        operation = own & ((1 << KIND_BITS) - 1)
        immediate = word if own >> KIND_BITS else None
        return Ended(cookie, STATUS_NAMES[status], operation, length, immediate)
