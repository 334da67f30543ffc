"""The run of Figures 4 and 5: a stream of 8 KB payloads from rest, under adaptive delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.delivery_measures import PS_PER_US, policy, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.studies.delivery_measures import Costs

PAYLOAD = 8192  # bytes
SMALL = 368  # bytes of Figure 4's first hostRcv transfer
MESSAGES = 80  # more than the ring takes, so that the host writes on
RECORDS = 1 << 14


class ColdStart(msgspec.Struct, frozen=True):
    """Log of a stream's transfers, and the duration of one small transfer to the host."""

    log: NDArray[Any]  # LOG
    small_us: float

    def of(self, engine: Engine, packet: int | None = None) -> NDArray[Any]:
        """Payload transfers of ``engine``, of one packet or of all, in order of their start."""
        log = self.log
        chosen = (log["engine"] == engine) & (log["control"] == 0)
        if packet is not None:
            chosen &= log["packet"] == packet
        found: NDArray[Any] = log[chosen]
        return found[found["start"].argsort(kind="stable")]

    def duration_us(self, packet: int) -> float:
        """How long the hostTx transfer of ``packet`` took."""
        (transfer,) = self.of(Engine.HOST_TX, packet)
        return float(transfer["end"] - transfer["start"]) / PS_PER_US

    def events(self) -> dict[str, float]:
        """The durations (us) that Figure 4 prints, by the names of ``anchors``."""
        return {
            "host_tx_first": self.duration_us(0),
            "host_tx_second": self.duration_us(1),
            "host_rcv_368": self.small_us,
        }


def cold_start(ends: Sequence[Costs], *, logging: bool = False) -> ColdStart:
    """A stream of 8 KB, as fast as the ring takes them, between hosts that were idle before."""
    delivery = policy("adaptive", PAYLOAD, logging=logging)
    found = stream(ends, delivery, PAYLOAD, MESSAGES, keep_log=RECORDS)
    alone = stream(ends, policy("store-and-forward", SMALL), SMALL, 1, keep_log=RECORDS).log
    (small,) = alone[alone["engine"] == Engine.HOST_RCV]
    return ColdStart(found.log, float(small["end"] - small["start"]) / PS_PER_US)
