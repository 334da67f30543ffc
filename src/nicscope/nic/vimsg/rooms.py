"""Rooms in NIC memory for messages that have no registered buffer there: first fit.

Each side, what is sent and what is received, has a stretch of its own.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.vimsg.layout import NOWHERE, ROOM_BLOCK


@step
def room_for(vimsg, side, count):
    """The lowest place of that side with room for ``count`` bytes, now taken; or ``NOWHERE``."""
    config = vimsg.config[0]
    size = max((count + ROOM_BLOCK - 1) // ROOM_BLOCK, 1) * ROOM_BLOCK
    place = side * config.staging
    end = place + config.staging
    at = config.rooms
    for r in range(config.rooms):
        if vimsg.rooms[r].begin >= end or place + size <= vimsg.rooms[r].begin:
            at = np.int64(r)
            break
        place = max(place, vimsg.rooms[r].end)
    if place + size > end or config.rooms == vimsg.rooms.size:
        return np.int64(NOWHERE)
    for r in range(config.rooms, at, -1):
        vimsg.rooms[r].begin = vimsg.rooms[r - 1].begin
        vimsg.rooms[r].end = vimsg.rooms[r - 1].end
    vimsg.rooms[at].begin = place
    vimsg.rooms[at].end = place + size
    config.rooms += 1
    return place


@step
def leave_room(vimsg, place):
    """The room at ``place`` is free again."""
    config = vimsg.config[0]
    gone = 0
    for r in range(config.rooms):
        vimsg.rooms[r - gone].begin = vimsg.rooms[r].begin
        vimsg.rooms[r - gone].end = vimsg.rooms[r].end
        if gone == 0 and vimsg.rooms[r].begin == place:
            gone = 1
    config.rooms -= gone


@kernel
def take_room(vimsg, side, count):
    """``room_for``, for the processor's own use."""
    return room_for(vimsg, side, count)


@kernel
def give_room(vimsg, place):
    """``leave_room``, likewise."""
    leave_room(vimsg, place)
