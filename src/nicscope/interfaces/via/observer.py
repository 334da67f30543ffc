"""What is known of a node's run when it is over: counts, and when its engines were at work.

It only listens: nothing that it keeps decides anything, or takes time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.log import LOG, Engine
from nicscope.interfaces.via.names import STATUS_ERROR_MASK, Status
from nicscope.nic.transport import distance
from nicscope.nic.vimsg.layout import MESSAGE, READ_REQUEST, READ_RESPONSE, WRITE
from nicscope.nic.vimsg.receiving import ARRIVED, IGNORED, TAKEN

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.interfaces.via.endpoint import Endpoint
    from nicscope.interfaces.via.network import Frame, Sending

KINDS = {
    MESSAGE: "message",
    WRITE: "RDMA write",
    READ_REQUEST: "RDMA read",
    READ_RESPONSE: "answer",
}
DONE = "done"


class Records:
    """Of all nodes, in the order in which work begins."""

    def __init__(self, room: int) -> None:
        """``room``: how many are kept."""
        self.room = room
        self.total = 0
        self.packets: dict[tuple[int, int], str] = {}  # what a frame carries
        self._doings: dict[str, int] = {}
        self._kept: list[tuple[int, ...]] = []

    @property
    def actions(self) -> dict[int, str]:
        """What was done, by its number in a record."""
        return {number: doing for doing, number in self._doings.items()}

    def add(self, worker: Worker, frame: tuple[int, int], doing: str, begin: int, end: int) -> None:
        """Work at ``doing`` from ``begin`` to ``end`` (ps); ``frame``: its sender and number."""
        self.total += 1
        if len(self._kept) < self.room:
            task = self._doings.setdefault(doing, len(self._doings))
            sender = frame[0] if frame[1] >= 0 else worker.process
            place = worker.observer.node, worker.engine
            self._kept.append((frame[1], sender, *place, task, 0, begin, end, 0, 0))

    def until(self, elapsed: int) -> NDArray[Any]:
        """LOG, by end; what went on when the run ended is cut there."""
        log = np.array(self._kept, LOG)
        log["end"] = np.minimum(log["end"], elapsed)
        return log[np.argsort(log["end"], kind="stable")]


class Busy:
    """How long an engine has been at work, in ps, and until when it is."""

    __slots__ = ("spent", "until")

    def __init__(self) -> None:
        self.spent = 0
        self.until = 0


class Worker:
    """One engine of a node, or one process on its CPU."""

    def __init__(self, observer: Observer, engine: Engine, process: int = -1) -> None:
        self.observer = observer
        self.engine = engine
        self.process = process
        self._busy = observer.busy[engine]
        self._records = observer.records

    def work(self, begin: int, end: int, doing: str, frame: tuple[int, int]) -> None:
        """It works at ``doing`` from now, ``begin``, until ``end``; processes may do so at once."""
        busy = self._busy
        if end > busy.until:
            busy.spent += end - (begin if begin > busy.until else busy.until)
            busy.until = end
        if self._records.room and end > begin:
            self._records.add(self, frame, doing, begin, end)


class Observer:
    """Of one node."""

    def __init__(self, node: int, records: Records) -> None:
        self.node = node
        self.records = records
        self.programs = 0
        self.messages_out = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.bytes_in = 0
        self.posted = 0  # descriptors
        self.requests: Counter[str] = Counter()
        self.first = 0  # frames sent for the first time
        self.again = 0
        self.acknowledgements = 0  # sent
        self.to_acknowledge = 0  # frames sent on reliable VIs, each once
        self.acknowledged = 0
        self.came = 0  # frames and acknowledgements
        self.ended: Counter[str] = Counter()  # what became of those
        self.interrupts = 0
        self.pins = 0
        self.unpins = 0
        self.miss_ps = 0
        self.busy = {engine: Busy() for engine in Engine}
        self._arriving: dict[Endpoint, tuple[Sending, int]] = {}  # frames of a message not whole

    # --- engines -------------------------------------------------------------------------

    def busy_ps(self, engine: Engine, elapsed: int) -> int:
        """How long ``engine`` was at work until ``elapsed``, the end of the run."""
        busy = self.busy[engine]
        return busy.spent - max(busy.until - elapsed, 0)

    # --- descriptors ---------------------------------------------------------------------

    def note_end(self, status: int) -> None:
        """The host can see how a descriptor has ended."""
        errors = Status(status & STATUS_ERROR_MASK)
        names = [str(error.name).removeprefix("VIP_STATUS_") for error in errors]
        self.requests[" and ".join(names).lower().replace("_", " ") or DONE] += 1

    # --- frames that are sent ------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """Of the next frame that leaves, among those of this node."""
        return self.first + self.again

    def note_sent(self, frame: Frame) -> None:
        """The frame leaves."""
        if self.records.room > len(self.records.packets):
            self.records.packets[self.node, self.next_number] = (
                f"{KINDS[frame.kind]} {int(frame.header[0]['number'])} of VI "
                f"{frame.source.number}, frame {frame.index}"
            )
        if frame.sent:
            self.again += 1
        else:
            frame.sent = True
            self.first += 1
            self.to_acknowledge += frame.source.reliable
            self.bytes_out += len(frame.raw)
            self.messages_out += frame.last and frame.work is not None

    # --- frames that come ----------------------------------------------------------------

    def note_came(self, what: str | None = None) -> None:
        """A frame, or an acknowledgement, has come, and that has become of it at once."""
        self.came += 1
        if what is not None:
            self.ended[what] += 1

    def note_turned_away(self, frame: Frame, links: NDArray[Any]) -> None:
        """The network's engine does not take the frame; ``links``: TRANSPORT, by VI."""
        self.came += 1
        if not frame.target.has(frame.epoch):
            self.ended["void"] += 1
            return
        wanted = int(links[frame.target.place]["wanted"])
        is_late = distance(int(frame.header[0]["sequence"]), wanted) < 0
        self.ended["duplicates" if is_late else "out_of_turn"] += 1

    def note_found(self, frame: Frame, found: int) -> None:
        """What messaging makes of the frame, as ``take_frame`` says."""
        if found in (TAKEN, ARRIVED):
            self._note_taken(frame)
        if found == ARRIVED:  # from now on the frame stands for all of its message
            frame.pieces = self._arriving.pop(frame.target)[1]
        if found != IGNORED:
            return
        if not frame.target.has(frame.epoch):
            self.ended["void"] += 1
        else:  # a piece before it is missing, or the first has found no room on the NIC
            self.ended["incomplete" if frame.index else "room"] += 1

    def _note_taken(self, frame: Frame) -> None:
        """The frame's bytes are on the NIC, with those of its message that came before it."""
        message, count = self._arriving.get(frame.target, (frame.message, 0))
        if message is not frame.message:
            self.ended["incomplete"] += count
            count = 0
        self._arriving[frame.target] = frame.message, count + 1

    def note_message(self, frame: Frame, what: str) -> None:
        """That became of the message, with all of its frames."""
        self.ended[what] += frame.pieces
        if what == "delivered":
            self.messages_in += 1
            self.bytes_in += 0 if frame.kind == READ_REQUEST else frame.total

    def note_given_up(self, vi: Endpoint) -> None:
        """The rest of the message that is arriving will not come."""
        self.ended["incomplete"] += self._arriving.pop(vi, (None, 0))[1]
