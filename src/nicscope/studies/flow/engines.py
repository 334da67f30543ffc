"""What each engine did in all: transfers, bytes, how long it was busy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.delivery import CONTROL_BYTES
from nicscope.drivers.simulate.log import Engine
from nicscope.studies.flow.transfers import BANDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
