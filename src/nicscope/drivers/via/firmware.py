"""VI-MSG's steps that need more than its own state: a descriptor's bytes, a frame that comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel
from nicscope.kernel.records import records
from nicscope.nic.vimsg import receiving, requests
from nicscope.nic.vimsg.layout import HEADER, MOST_SEGMENTS
from nicscope.nic.vimsg.requests import CONTROL_BYTES, SEGMENT_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.nic.vimsg.layout import Vimsg


class Desk(NamedTuple):
    """One NIC's messaging, its memory, and what it has before it."""

    vimsg: Vimsg
    memory: NDArray[np.uint8]  # the NIC's
    frame: NDArray[Any]  # HEADER, shape (1,): of a frame that comes
    payload: NDArray[np.uint8]  # its bytes, or those of a descriptor


def new_desk(vimsg: Vimsg, memory: NDArray[np.uint8], mtu: int) -> Desk:
    """With room for the longest frame and the longest descriptor."""
    longest = max(mtu, CONTROL_BYTES + SEGMENT_BYTES * MOST_SEGMENTS)
    return Desk(vimsg, memory, records(1, HEADER), np.zeros(longest, np.uint8))


@kernel
def read_request(desk, request, count, is_receive):
    """``requests.read_request`` of the payload."""
    return requests.read_request(desk.vimsg, request, desk.payload, 0, count, is_receive)


@kernel
def hear_frame(desk):
    """``receiving.hear_frame``."""
    return receiving.hear_frame(desk.vimsg, desk.frame)


@kernel
def take_frame(desk):
    """``receiving.take_frame``."""
    return receiving.take_frame(desk.vimsg, desk.frame, desk.memory, desk.payload)


@kernel
def place_frame(desk):
    """``receiving.place_frame``."""
    return receiving.place_frame(desk.vimsg, desk.frame, desk.memory, desk.payload)


@kernel
def match(desk):
    """``receiving.match``."""
    return receiving.match(desk.vimsg, desk.frame)


@kernel
def receive_ahead(desk):
    """``receiving.receive_ahead``."""
    return receiving.receive_ahead(desk.vimsg, desk.frame)
