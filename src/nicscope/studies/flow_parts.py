"""Takes flows apart from the log: parts of packets' latency, bands, engines' use, bandwidth."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import CONTROL_BYTES
from nicscope.drivers.simulate.observe import Engine, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Part(IntEnum):
    """A stage of a packet's path, in order."""

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


class _TimeSpans(NamedTuple):
    """Time spans (ps) of a message's activities; they may overlap."""

    message: NDArray[np.int64]  # its row
    part: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def latency_parts(log: NDArray[Any], messages: NDArray[Any]) -> NDArray[np.int64]:
    """Exclusive time (ps) of each ``Part`` (column) in each message's latency (row).

    A row adds up to ``read - posted`` exactly; that of an aborted message is 0.  ``log`` and
    ``messages`` are of the dtypes LOG and MESSAGE; ``log`` has every record of these messages.
    """
    table = np.zeros((len(messages), len(Part)), np.int64)
    acts = _activities(log, messages)
    waits = _waits(log, messages)
    spans = _TimeSpans(*(np.concatenate(pair) for pair in zip(acts, waits, strict=True)))
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
    """Total time (ps) of each activity (column, a ``Part``), overlaps included.

    Rows as in ``latency_parts``; waits are 0.  What was before ``posted`` or after ``read`` is
    left out.
    """
    table = np.zeros((len(messages), len(Part)), np.int64)
    spans = _activities(log, messages)
    np.add.at(table, (spans.message, spans.part), spans.end - spans.start)
    return table


def rows_of(records: NDArray[Any], messages: NDArray[Any]) -> NDArray[np.int64]:
    """The row of ``messages`` that each record belongs to (by ``sender``, ``packet``), or -1."""
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


def _activities(log: NDArray[Any], messages: NDArray[Any]) -> _TimeSpans:
    """The activities of each message that was read, clipped to its lifetime."""
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
    return _TimeSpans(row[lasting], part[lasting], start[lasting], end[lasting])


def _lookup(parts: dict[Any, Part], size: int) -> NDArray[np.int64]:
    """``parts`` as an array, -1 for what has none and, at the end, for -1."""
    table = np.full(size + 1, _NONE)
    for key, part in parts.items():
        table[key] = part
    return table


def _waits(log: NDArray[Any], messages: NDArray[Any]) -> _TimeSpans:
    """The four waiting stages of each message that was read; they partition its lifetime."""
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
    return _TimeSpans(message[lasting], part[lasting], start[lasting], end[lasting])


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


# From top to bottom of a packet flow graph.
BANDS = ("hostTx", "netTx", "netRcv", "hostRcv")
_ENGINES = (Engine.HOST_TX, Engine.NET_TX, Engine.NET_RCV, Engine.HOST_RCV)
NET_RCV = BANDS.index("netRcv")
# Times in ps.  Transfers of the other bands move from their start to their end.
TRANSFER = np.dtype(
    [
        ("band", "i8"),  # place in BANDS
        ("node", "i8"),
        ("sender", "i8"),
        ("packet", "i8"),
        ("control", "i8"),  # 1: the control message; 0: the payload
        ("start", "i8"),  # of netRcv: when it was posted
        ("moving", "i8"),  # of netRcv: when the sender began, if that is later
        ("end", "i8"),
        ("seen", "i8"),  # when the firmware could see that it had ended
        ("busy", "i8"),  # ps between ``moving`` and ``end`` in which the sender was at it too
        ("bytes", "i8"),
    ],
    align=True,
)


def band_transfers(log: NDArray[Any]) -> NDArray[Any]:
    """The transfers (TRANSFER) in ``log`` (LOG), by start, then band and node."""
    band_of = np.full(len(Engine), -1)
    band_of[list(_ENGINES)] = range(len(BANDS))
    band = band_of[log["engine"]]
    every = log
    log, band = log[band >= 0], band[band >= 0]
    found = np.zeros(len(log), TRANSFER)
    found["band"] = band
    for name in ("node", "sender", "packet", "control", "start", "end", "bytes"):
        found[name] = log[name]
    found["seen"] = ends_seen(every)[band_of[every["engine"]] >= 0]
    found["moving"] = found["start"]
    found["busy"] = found["end"] - found["start"]
    receives = np.flatnonzero(band == NET_RCV)
    parent, pieces = _pieces(found, receives)
    first = found["end"][receives]
    np.minimum.at(first, parent, pieces["start"])
    busy = np.zeros(len(receives), np.int64)
    np.add.at(busy, parent, pieces["end"] - pieces["start"])
    found["moving"][receives], found["busy"][receives] = first, busy
    return found[np.lexsort((found["node"], found["band"], found["start"]))]


def ends_seen(log: NDArray[Any]) -> NDArray[np.int64]:
    """When the firmware can see the end of each record's transfer (ps).

    It reads the engines' status bits between its actions (Trapeze, 2.1): of an engine that stops
    during one it hears at that one's end, of any other at once.
    """
    seen: NDArray[np.int64] = log["end"].astype(np.int64)
    for node in np.unique(log["node"]):
        actions = log[(log["node"] == node) & (log["engine"] == Engine.FIRMWARE)]
        if not len(actions):
            continue
        actions = actions[np.argsort(actions["start"], kind="stable")]
        here = np.flatnonzero(log["node"] == node)
        under_way = np.searchsorted(actions["start"], seen[here], side="left") - 1
        late = actions["end"][np.maximum(under_way, 0)]
        seen[here] = np.where(under_way >= 0, np.maximum(seen[here], late), seen[here])
    return seen


def receptions(transfers: NDArray[Any]) -> NDArray[Any]:
    """Spans (TRANSFER) in which netRcv was locked to its sender's rate, by start.

    ``bytes`` are those of the sender's transfer.
    """
    receives = np.flatnonzero(transfers["band"] == NET_RCV)
    _, pieces = _pieces(transfers, receives)
    return pieces[np.argsort(pieces["start"], kind="stable")]


def _pieces(
    transfers: NDArray[Any], receives: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Where each netTx was being received: the place in ``receives``, and the common stretch."""
    sends = transfers[transfers["band"] == BANDS.index("netTx")]
    posted = transfers[receives]
    if not len(sends) or not len(posted):
        return np.zeros(0, np.int64), np.zeros(0, TRANSFER)
    base = int(max(sends["packet"].max(), posted["packet"].max())) + 1
    wanted, known = (
        (some["sender"] * base + some["packet"]) * 2 + some["control"] for some in (sends, posted)
    )
    order = np.argsort(known, kind="stable")
    parent = order[np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)]
    whole = posted[parent]
    pieces = sends.copy()
    pieces["band"], pieces["node"] = NET_RCV, whole["node"]
    pieces["start"] = np.maximum(sends["start"], whole["start"])
    pieces["end"] = np.minimum(sends["end"], whole["end"])
    pieces["moving"] = pieces["start"]
    pieces["busy"] = pieces["end"] - pieces["start"]
    met = (known[parent] == wanted) & (pieces["busy"] > 0)
    return parent[met], pieces[met]


def is_moving(transfers: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of ``transfers`` moved data: a receive may be posted for a packet that is aborted."""
    moving: NDArray[np.bool_] = transfers["busy"] > 0
    return moving


PS_PER_US = 10**6
PROCESSORS = {
    "firmware": (Engine.FIRMWARE,),
    "host CPU": (Engine.HOST_WRITE, Engine.HOST_READ),
}


class EngineUse(NamedTuple):
    """The use of one band of one node, or of a processor, over a span of time."""

    node: int
    band: str
    transfers: int  # of a processor: actions
    control_transfers: int  # among them
    byte_count: int
    largest_bytes: int
    busy_ps: int  # netRcv: while its sender was at it too
    span_ps: int

    @property
    def mean_bytes(self) -> float:
        """Mean size of the payload's transfers; the control message's are all alike."""
        payloads = self.transfers - self.control_transfers
        return self._payload_bytes / payloads if payloads else 0.0

    @property
    def _payload_bytes(self) -> int:
        return self.byte_count - CONTROL_BYTES * self.control_transfers

    @property
    def utilisation(self) -> float:
        """The share of the span in which it was busy."""
        return self.busy_ps / self.span_ps if self.span_ps else 0.0

    @property
    def mb_per_s(self) -> float:
        """MB/s (10**6 bytes) while it was busy, set-up included."""
        return megabytes_per_second(self.byte_count, self.busy_ps)

    def to_json(self) -> dict[str, Any]:
        """Units are in the keys."""
        return {
            "node": self.node,
            "band": self.band,
            "transfers": self.transfers,
            "control_transfers": self.control_transfers,
            "bytes": self.byte_count,
            "mean_payload_transfer_bytes": self.mean_bytes,
            "largest_transfer_bytes": self.largest_bytes,
            "busy_ps": self.busy_ps,
            "utilisation": self.utilisation,
            "busy_mb_per_s": self.mb_per_s,
        }


def megabytes_per_second(byte_count: int, ps: int) -> float:
    """MB/s (10**6 bytes, as the paper counts) of ``byte_count`` bytes in ``ps``; 0 in no time."""
    return byte_count * PS_PER_US / ps if ps else 0.0


def engine_use(transfers: NDArray[Any], begin: int, end: int) -> list[EngineUse]:
    """Use of every band that had a transfer, by band and node, from ``begin`` to ``end`` (ps).

    ``transfers`` are TRANSFER records; those that end later are left out.
    """
    transfers = transfers[(transfers["end"] > begin) & (transfers["end"] <= end)]
    uses = []
    for band, name in enumerate(BANDS):
        mine = transfers[transfers["band"] == band]
        for node in np.unique(mine["node"]):
            each = mine[mine["node"] == node]
            uses.append(
                EngineUse(
                    node=int(node),
                    band=name,
                    transfers=len(each),
                    control_transfers=int(each["control"].sum()),
                    byte_count=int(each["bytes"].sum()),
                    largest_bytes=int(each["bytes"].max()),
                    busy_ps=int(each["busy"].sum()),
                    span_ps=end - begin,
                )
            )
    return uses


def processor_use(log: NDArray[Any], begin: int, end: int) -> list[EngineUse]:
    """Use of the NICs' processors and of the CPUs by messages, from ``begin`` to ``end`` (ps).

    ``log`` are LOG records; what processors do moves no bytes.
    """
    log = log[(log["end"] > begin) & (log["end"] <= end)]
    uses = []
    for name, engines in PROCESSORS.items():
        mine = log[np.isin(log["engine"], engines)]
        for node in np.unique(mine["node"]):
            each = mine[mine["node"] == node]
            busy = int((each["end"] - np.maximum(each["start"], begin)).sum())
            uses.append(EngineUse(int(node), name, len(each), 0, 0, 0, busy, end - begin))
    return uses


class Steps(NamedTuple):
    """One band's rate: ``mb_per_s[i]`` holds from ``edges[i]`` to ``edges[i + 1]`` (ps)."""

    node: int
    band: str
    edges: NDArray[np.int64]
    byte_counts: NDArray[np.int64]

    @property
    def mb_per_s(self) -> NDArray[np.float64]:
        """MB/s (10**6 bytes) of each step."""
        rates: NDArray[np.float64] = self.byte_counts * PS_PER_US / np.diff(self.edges)
        return rates


def bandwidth_steps(transfers: NDArray[Any]) -> list[Steps]:
    """A step function for every band of every node in ``transfers``, by band and node.

    Each payload transfer is a step from the end of the one before it to its own end, so the time
    in between, with the control message, lowers it.  The first begins when it begins to move.
    Bands that moved control messages only have steps of those.
    """
    curves = []
    for band, name in enumerate(BANDS):
        mine = transfers[(transfers["band"] == band) & (transfers["busy"] > 0)]
        for node in np.unique(mine["node"]):
            each = mine[mine["node"] == node]
            payloads = each[each["control"] == 0]
            each = payloads if len(payloads) else each
            each = each[np.argsort(each["end"], kind="stable")]
            edges = np.concatenate([each["moving"][:1], each["end"]])
            curves.append(Steps(int(node), name, edges, each["bytes"].copy()))
    return curves
