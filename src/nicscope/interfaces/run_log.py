"""What every engine of a run did when, in one form for every interface: what a timeline draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.log import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

TRACKS = {
    Engine.HOST_WRITE: "host write",
    Engine.HOST_TX: "hostTx",
    Engine.NET_TX: "netTx",
    Engine.NET_RCV: "netRcv",
    Engine.HOST_RCV: "hostRcv",
    Engine.HOST_READ: "host read",
    Engine.FIRMWARE: "firmware",
    Engine.CPU: "CPU",
    Engine.TABLE: "table reads",
    Engine.DESCRIPTOR: "descriptor reads",
    Engine.REPORT: "reports",
}


class Stop(NamedTuple):
    """Where a packet's arrow touches down: an engine, of any node or of one side alone."""

    engine: Engine
    of_sender: bool | None = None


class RunLog(NamedTuple):
    """A run's records, and what their numbers are called."""

    records: NDArray[Any]  # LOG, by ``end``
    total: int  # records that there would have been with room for all
    actions: Mapping[Engine, Mapping[int, str]]  # what a processor did, by ``task``
    packets: Mapping[tuple[int, int], str]  # what a packet carries, by sender and number
    way: Sequence[Stop]  # of a packet's arrow, in this order
