"""Frames between NICs: no time on the way, and losses by seed.

Source: EDT, 7.1 (no delay); VIA Specification 1.0 (what each level of reliability promises).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from nicscope.interfaces.via.descriptor import AddressSegment
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.vi import Vi, Work

# Kinds of frames.
MESSAGE = 0
WRITE = 1  # RDMA
READ_REQUEST = 2
READ_RESPONSE = 3


class Frame(msgspec.Struct, eq=False):
    """One fragment of a message."""

    kind: int
    source: Vi
    target: Vi
    number: int  # of the message, by its sender's VI
    index: int  # of the fragment
    last: bool
    offset: int
    total: int  # bytes of the message
    raw: bytes
    control: int
    immediate: int
    remote: AddressSegment | None
    work: Work | None  # at the sender, to be completed when the message has arrived
    journal: Journal | None


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
