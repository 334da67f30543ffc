"""A latency taken apart: each instant of a packet's way belongs to exactly one part.

It belongs to the activity furthest downstream that is in progress for that packet; while there is
none, the packet waits, in the send ring until the firmware takes it, on the sender's NIC until its
last byte has left, on the receiver's until the host sees it, then in the receive ring.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.observe import Engine, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Part(IntEnum):
    """What a packet is at, in the order of its way."""

    HOST_WRITE = 0
    SEND_RING = 1
    FIRMWARE_SEND = 2
    HOST_TX = 3
    SENDER_NIC = 4
    NETWORK = 5
    FIRMWARE_RECEIVE = 6
    HOST_RCV = 7
    RECEIVER_NIC = 8
    RECEIVE_RING = 9
    HOST_READ = 10


PART_NAMES = {
    Part.HOST_WRITE: "host write",
    Part.SEND_RING: "wait in the send ring",
    Part.FIRMWARE_SEND: "firmware, sending",
    Part.HOST_TX: "hostTx",
    Part.SENDER_NIC: "wait on the sender's NIC",
    Part.NETWORK: "network",
    Part.FIRMWARE_RECEIVE: "firmware, receiving",
    Part.HOST_RCV: "hostRcv",
    Part.RECEIVER_NIC: "wait on the receiver's NIC",
    Part.RECEIVE_RING: "wait in the receive ring",
    Part.HOST_READ: "host read",
}
WAITS = (Part.SEND_RING, Part.SENDER_NIC, Part.RECEIVER_NIC, Part.RECEIVE_RING)
# Whoever stands later has the instant: waits give way to all, then upstream to downstream.
PRECEDENCE = (
    *WAITS,
    Part.HOST_WRITE,
    Part.HOST_TX,
    Part.FIRMWARE_SEND,
    Part.NETWORK,
    Part.FIRMWARE_RECEIVE,
    Part.HOST_RCV,
    Part.HOST_READ,
)
# The network is what netTx spends, with its stalls: netRcv counts from when it is posted, which
# may be long before the packet is.
_PART_OF_ENGINE = {
    Engine.HOST_WRITE: Part.HOST_WRITE,
    Engine.HOST_TX: Part.HOST_TX,
    Engine.NET_TX: Part.NETWORK,
    Engine.HOST_RCV: Part.HOST_RCV,
    Engine.HOST_READ: Part.HOST_READ,
}
# FINISH clears up behind the packet, and POST_CONTROL acts for whichever comes.
_PART_OF_TASK = {
    Task.HOST_TX: Part.FIRMWARE_SEND,
    Task.NET_TX: Part.FIRMWARE_SEND,
    Task.POST_PAYLOAD: Part.FIRMWARE_RECEIVE,
    Task.HOST_RCV: Part.FIRMWARE_RECEIVE,
    Task.COMPLETE: Part.FIRMWARE_RECEIVE,
}
_NONE = -1


class _Spans(NamedTuple):
    """Stretches of time (ps) in which a message was at something; they may overlap."""

    message: NDArray[np.int64]  # its row
    part: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def latency_parts(log: NDArray[Any], messages: NDArray[Any]) -> NDArray[np.int64]:
    """Picoseconds of each ``Part`` (column) in the latency of each of ``messages`` (row).

    A row adds up to ``read - posted`` exactly; that of an aborted message is 0.  ``log`` and
    ``messages`` are of the dtypes LOG and MESSAGE; ``log`` has every record of these messages.
    """
    table = np.zeros((len(messages), len(Part)), np.int64)
    acts = _activities(log, messages)
    waits = _waits(log, messages)
    spans = _Spans(*(np.concatenate(pair) for pair in zip(acts, waits, strict=True)))
    if not len(spans.message):
        return table
    message = np.concatenate([spans.message, spans.message])
    time = np.concatenate([spans.start, spans.end])
    rank = np.argsort(PRECEDENCE)[spans.part]
    change = np.zeros((2 * len(rank), len(PRECEDENCE)), np.int16)
    rows = np.arange(len(rank))
    change[rows, rank] = 1
    change[rows + len(rank), rank] = -1
    order = np.lexsort((time, message))
    message, time = message[order], time[order]
    going_on = np.cumsum(change[order], axis=0, dtype=np.int16) > 0
    lasts = np.diff(time)
    same = message[1:] == message[:-1]
    furthest = len(PRECEDENCE) - 1 - np.argmax(going_on[:-1, ::-1], axis=1)
    part = np.array(PRECEDENCE, np.int64)[furthest]
    np.add.at(table, (message[:-1][same], part[same]), lasts[same])
    return table


def busy_parts(log: NDArray[Any], messages: NDArray[Any]) -> NDArray[np.int64]:
    """Picoseconds that each activity (column, a ``Part``) took in all, beneath others or not.

    Rows as in ``latency_parts``; waits are 0.  What was before ``posted`` or after ``read`` is
    left out.
    """
    table = np.zeros((len(messages), len(Part)), np.int64)
    spans = _activities(log, messages)
    np.add.at(table, (spans.message, spans.part), spans.end - spans.start)
    return table


def rows_of(records: NDArray[Any], messages: NDArray[Any]) -> NDArray[np.int64]:
    """Row of ``messages`` that each record (with ``sender`` and ``packet``) is about, or -1."""
    if not len(messages):
        return np.full(len(records), _NONE)
    base = int(max(messages["packet"].max(), records["packet"].max(initial=0))) + 2
    known = messages["sender"] * base + messages["packet"]
    asked = records["sender"] * base + records["packet"]
    order = np.argsort(known, kind="stable")
    place = np.minimum(np.searchsorted(known[order], asked), len(known) - 1)
    row = order[place]
    found = (known[row] == asked) & (records["packet"] >= 0)
    return np.where(found, row, _NONE)


def _activities(log: NDArray[Any], messages: NDArray[Any]) -> _Spans:
    """What was done for each message that was read, cut to its life."""
    part_of_engine = _lookup(_PART_OF_ENGINE, len(Engine))
    part_of_task = _lookup(_PART_OF_TASK, len(Task))
    is_firmware = log["engine"] == Engine.FIRMWARE
    part = np.where(is_firmware, part_of_task[log["task"]], part_of_engine[log["engine"]])
    row = rows_of(log, messages)
    wanted = (part != _NONE) & (row != _NONE)
    row, part, log = row[wanted], part[wanted], log[wanted]
    posted, read = messages["posted"][row], messages["read"][row]
    start = np.maximum(log["start"], posted)
    end = np.minimum(log["end"], read)
    lasting = start < end
    return _Spans(row[lasting], part[lasting], start[lasting], end[lasting])


def _lookup(parts: dict[Any, Part], size: int) -> NDArray[np.int64]:
    """``parts`` as an array, -1 for what has none and, at the end, for -1."""
    table = np.full(size + 1, _NONE)
    for key, part in parts.items():
        table[key] = part
    return table


def _waits(log: NDArray[Any], messages: NDArray[Any]) -> _Spans:
    """What each message that was read waited in: four stretches, end to end, over its life."""
    row = rows_of(log, messages)
    firmware = log["engine"] == Engine.FIRMWARE
    taken = firmware & (log["task"] == Task.HOST_TX)
    complete = firmware & (log["task"] == Task.COMPLETE)
    marks = np.empty((len(WAITS) + 1, len(messages)), np.int64)
    marks[0], marks[-1] = messages["posted"], messages["read"]
    marks[1] = _latest(log["start"], row, taken, messages)
    marks[2] = _latest(log["end"], row, log["engine"] == Engine.NET_TX, messages)
    marks[3] = _latest(log["end"], row, complete, messages)
    marks = np.minimum(np.maximum.accumulate(marks, axis=0), messages["read"])
    count = len(messages)
    message = np.tile(np.arange(count), len(WAITS))
    part = np.repeat(np.array(WAITS, np.int64), count)
    start, end = marks[:-1].ravel(), marks[1:].ravel()
    lasting = start < end
    return _Spans(message[lasting], part[lasting], start[lasting], end[lasting])


def _latest(
    time: NDArray[np.int64],
    row: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    messages: NDArray[Any],
) -> NDArray[np.int64]:
    """Latest ``time`` of the ``chosen`` records of each message, or when it was posted."""
    latest: NDArray[np.int64] = messages["posted"].copy()
    mine = chosen & (row != _NONE)
    np.maximum.at(latest, row[mine], time[mine])
    return latest
