"""The transfers of the four bands, as an instrumented firmware logs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.drivers.simulate.log import Engine

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
    log, band = log[band >= 0], band[band >= 0]
    found = np.zeros(len(log), TRANSFER)
    found["band"] = band
    for name in ("node", "sender", "packet", "control", "start", "end", "bytes"):
        found[name] = log[name]
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
