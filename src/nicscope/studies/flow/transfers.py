"""Transfers on the four bands of a flow: what each engine did in all, and bandwidth over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import CONTROL_BYTES
from nicscope.drivers.simulate.observe import Engine

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """When the firmware can see that what a record of ``log`` (LOG) is of has ended (ps).

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
    """Stretches (TRANSFER) in which netRcv moved in lockstep with its sender, by start.

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
    """Which of ``transfers`` ever moved: a receive may be posted for a packet that is aborted."""
    moving: NDArray[np.bool_] = transfers["busy"] > 0
    return moving


PS_PER_US = 10**6
PROCESSORS = {
    "firmware": (Engine.FIRMWARE,),
    "host CPU": (Engine.HOST_WRITE, Engine.HOST_READ),
}


class EngineUse(NamedTuple):
    """One band of one node, or a processor, over a span of time."""

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
        """Share of the span in which it was busy."""
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
    """One band of one node: ``mb_per_s[i]`` holds from ``edges[i]`` to ``edges[i + 1]`` (ps)."""

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
    """A curve for every band of every node in ``transfers`` (TRANSFER), by band and node.

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
