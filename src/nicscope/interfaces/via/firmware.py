"""One NIC's messaging firmware as calls: what ``nic.vimsg`` decides, one crossing each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.via import firmware as entries
from nicscope.interfaces.via.tables import Outcome, Tables
from nicscope.nic.vimsg import connections, sending
from nicscope.nic.vimsg.layout import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.nic.vimsg.layout import Vimsg


class Firmware(Tables):
    """The messaging on one node's NIC."""

    def _keep(self, memory: Vimsg) -> None:
        super()._keep(memory)
        bound, desk = self._bound.of, self._desk.of
        self._open_message = bound(sending.open_message)
        self._next_fragment = bound(sending.next_fragment)
        self._take_frame, self._match = desk(entries.take_frame), desk(entries.match)
        self._hear_frame = desk(entries.hear_frame)

    # --- sending -------------------------------------------------------------------------

    def admit(self, v: int, request: int) -> int:
        """What becomes of a descriptor of the send queue (``nic.vimsg.sending``)."""
        return self._call(sending.admit, v, request)

    def refuse(self, v: int, status: int) -> Outcome:
        """What follows an error of a request itself."""
        self._call(sending.refuse, v, status)
        return self.outcome()

    def fragments(
        self, v: int, node: int, request: int | None, kind: int, count: int
    ) -> Iterator[Any]:
        """Header of each frame of a message of ``count`` bytes, not yet numbered."""
        asked = NOWHERE if request is None else request
        self._open_message(v, node, asked, kind, count)
        left = True
        while left:
            left = not self._next_fragment()
            yield self.memory.header.copy()

    def number(self, v: int, header: Any) -> None:
        """Give the frame the next number of VI ``v``."""
        header[0]["sequence"] = self._call(sending.number_frame, v)

    def is_window_open(self, v: int) -> bool:
        """Whether VI ``v`` may have one more frame on its way."""
        return bool(self._call(sending.is_window_open, v))

    def next_to_send(self, v: int) -> int | None:
        """Which of the frames that are not acknowledged goes out next; None if all have."""
        place = self._call(sending.next_frame, v)
        return None if place == NOWHERE else place

    def settle(self, v: int, acknowledgement: int) -> int:
        """How many frames are done with, after the next was sent and that came back.

        It may be ``NOWHERE``.
        """
        return self._call(sending.settle, v, acknowledgement)

    def is_given_up(self, v: int) -> bool:
        """Whether the connection is lost, as no acknowledgement came in time once more."""
        return bool(self._call(sending.is_given_up, v))

    # --- receiving -----------------------------------------------------------------------

    def take_receive(self, v: int, request: int) -> bool:
        """Whether the receive now waits for a message."""
        return bool(self._call(connections.take_receive, v, request))

    def hear_frame(self, header: Any) -> tuple[bool, int]:
        """Whether the frame is to be taken, and what is acknowledged, or ``NOWHERE``."""
        self._frame[:] = header
        taken, acknowledgement = self._hear_frame()
        return bool(taken), int(acknowledgement)

    def take_frame(self, header: Any, raw: NDArray[np.uint8], *, waited: bool) -> int:
        """What becomes of a frame (``nic.vimsg.receiving``)."""
        self._payload[: len(raw)] = raw
        self._frame[:] = header
        return int(self._desk.of(entries.place_frame)() if waited else self._take_frame())

    def receive_ahead(self, header: Any) -> int | None:
        """The receive that a message will take, if it fits there."""
        self._frame[:] = header
        found = int(self._desk.of(entries.receive_ahead)())
        return None if found == NOWHERE else found

    def assembly(self, v: int) -> int:
        """Where the message that is arriving at VI ``v`` is put together."""
        return int(self.memory.vis[v]["assembly"])

    def match(self, header: Any) -> tuple[int, Outcome]:
        """Where the message that has come is put together, and what follows."""
        self._frame[:] = header
        return int(self._match()), self.outcome()
