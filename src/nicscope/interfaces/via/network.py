"""Frames between NICs: no time on the way, and losses by seed.

Source: EDT, 7.1 (no delay); VIA Specification 1.0 (what each level of reliability promises).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.vi import Vi, Work

NO_BYTES = np.zeros(0, np.uint8)


class Frame(msgspec.Struct, eq=False):
    """One fragment of a message: what the firmware made, and what tests and reports follow."""

    header: Any  # HEADER, shape (1,)
    raw: NDArray[np.uint8]
    source: Vi
    target: Vi
    work: Work | None  # at the sender, to be completed when the message has arrived
    journal: Journal | None

    @property
    def kind(self) -> int:
        """``MESSAGE``, ``WRITE``, ``READ_REQUEST`` or ``READ_RESPONSE``."""
        return int(self.header[0]["kind"])

    @property
    def index(self) -> int:
        """Of the fragment."""
        return int(self.header[0]["index"])

    @property
    def total(self) -> int:
        """Bytes of the message."""
        return int(self.header[0]["total"])

    @property
    def immediate(self) -> int:
        """Data in the descriptor itself."""
        return int(self.header[0]["immediate"])

    @property
    def remote_address(self) -> int:
        """Where in the other node's memory an RDMA begins."""
        return int(self.header[0]["remote_address"])


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
