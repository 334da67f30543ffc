"""Frames between NICs: no time on the way, and losses by seed.

Source: EDT, 7.1 (no delay); VIA Specification 1.0 (what each level of reliability promises).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.errors import SimulationError
from nicscope.nic.vimsg.layout import HEADER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.via.endpoint import Endpoint, Work
    from nicscope.interfaces.via.journal import Journal

NO_BYTES = np.zeros(0, np.uint8)
_KIND, _EPOCH, _INDEX, _LAST, _OFFSET, _COUNT, _TOTAL, _IMMEDIATE, _REMOTE_ADDRESS = (
    list(HEADER.names or ()).index(name)
    for name in (
        *("kind", "epoch", "index", "last", "offset", "count", "total", "immediate"),
        "remote_address",
    )
)


class Sending(msgspec.Struct, eq=False):
    """A message on its way out, as its sender has it."""

    work: Work | None  # to be completed when it has arrived; None for the answer to a read
    journal: Journal | None  # until the last frame takes it along


class Frame:
    """One fragment of a message: what the firmware made, and what tests and reports follow."""

    __slots__ = (
        "begin",
        "epoch",
        "header",
        "immediate",
        "index",
        "journal",
        "kind",
        "last",
        "message",
        "number",
        "pieces",
        "raw",
        "remote_address",
        "sent",
        "source",
        "target",
        "total",
        "work",
    )

    def __init__(
        self,
        header: Any,
        raw: NDArray[np.uint8],
        source: Endpoint,
        target: Endpoint,
        message: Sending,
    ) -> None:
        """``header``: HEADER, shape (1,); ``raw``: all bytes of the message."""
        words = header.tolist()[0]
        self.header = header
        self.sent = False  # before
        self.number = -1  # of its sender's frames, as it came
        self.pieces = 1  # frames that it stands for: of a whole message its last does, for all
        self.begin: int = words[_OFFSET]  # in the message
        self.raw = raw[self.begin : self.begin + words[_COUNT]]
        self.source = source
        self.target = target
        self.message = message
        self.work = message.work
        self.journal: Journal | None = None  # of the message, when it has come with this frame
        self.kind: int = words[_KIND]  # MESSAGE, WRITE, READ_REQUEST or READ_RESPONSE
        self.epoch: int = words[_EPOCH]  # of the connection
        self.index: int = words[_INDEX]  # of the fragment
        self.last = bool(words[_LAST])
        self.total: int = words[_TOTAL]  # bytes of the message
        self.immediate: int = words[_IMMEDIATE]  # data in the descriptor itself
        self.remote_address: int = words[_REMOTE_ADDRESS]  # where an RDMA begins


class Network:
    """What happens to a frame on its way."""

    def __init__(self, loss: float, seed: int) -> None:
        """``loss``: the share of frames, and of acknowledgements, that do not arrive."""
        if not 0 <= loss < 1:
            raise SimulationError(f"loss must be from 0 to below 1, got {loss!r}")
        self._loss = loss
        self._random = random.Random(seed)
        self.frames = 0
        self.lost = 0

    def loses(self) -> bool:
        """Whether the next frame, or acknowledgement, is lost."""
        self.frames += 1
        gone = self._loss > 0 and self._random.random() < self._loss
        self.lost += gone
        return gone
