"""What a run of VIA programs is reported from: the observers of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.log import Engine
from nicscope.interfaces.run_log import RunLog, Stop
from nicscope.interfaces.run_report import PS_PER_US, Looked, NodeReport, Received, Sent
from nicscope.nic.vimsg.layout import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.run_report import Names
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.observer import Observer, Records
    from nicscope.interfaces.via.translating import Translator

WAY = (Stop(Engine.FIRMWARE, of_sender=True), Stop(Engine.FIRMWARE, of_sender=False))
NAMED = ("delivered", "acknowledgements", "lost", "duplicates", "out_of_turn", "refused",
         "incomplete", "void")  # fmt: skip


class ViaRun:
    """A run of NICs that speak VIA."""

    def __init__(
        self,
        nodes: Sequence[Messaging],
        records: Records,
        translator: Translator | None,
        names: Names,
    ) -> None:
        self.names = names
        self._nodes = nodes
        self._records = records
        self._translator = translator

    @property
    def elapsed_ps(self) -> int:
        """When the last program ended."""
        return self._nodes[0].turns.now

    @property
    def events(self) -> int:
        """How many turns there were."""
        return self._nodes[0].turns.taken

    def log(self) -> RunLog:
        """What every engine did when, as far as it was kept."""
        records = self._records
        actions = dict.fromkeys(Engine, records.actions)
        kept = records.until(self.elapsed_ps)
        return RunLog(kept, records.total, actions, records.packets, WAY)

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""
        return [self._node(n, ni) for n, ni in enumerate(self._nodes)]

    def _node(self, n: int, ni: Messaging) -> NodeReport:
        seen = ni.observer
        elapsed = max(self.elapsed_ps, 1)
        counts = {} if self._translator is None else self._translator.counts(n)
        return NodeReport(
            node=n,
            programs=seen.programs,
            messages_out=seen.messages_out,
            messages_in=seen.messages_in,
            bytes_out=seen.bytes_out,
            bytes_in=seen.bytes_in,
            requests=dict(seen.requests),
            open_requests=seen.posted - seen.requests.total(),
            sent=_sent(seen),
            received=_received(seen),
            lookups=self._looked(n, "looked"),
            misses=self._looked(n, "missed"),
            interrupts=seen.interrupts + counts.get("interrupts", 0),
            pins=seen.pins + counts.get("pins", 0),
            unpins=seen.unpins + counts.get("unpins", 0),
            pinned_now=_registered_pages(ni),
            miss_us=None if self._translator is None else seen.miss_ps / PS_PER_US,
            cpu_share=seen.busy_ps(Engine.CPU, elapsed) / elapsed,
            nic_share=seen.busy_ps(Engine.FIRMWARE, elapsed) / elapsed,
            bus_share=min(ni.port.bus_busy / elapsed, 1.0),
        )

    def _looked(self, n: int, what: str) -> Looked | None:
        if self._translator is None:
            return None
        send, receive = getattr(self._translator, what)[n]
        return Looked(total=send + receive, send=send, receive=receive, handles=None)


def _sent(seen: Observer) -> Sent:
    return Sent(
        total=seen.first + seen.again + seen.acknowledgements,
        first=seen.first,
        again=seen.again,
        acknowledgements=seen.acknowledgements,
        acknowledged=seen.acknowledged,
        unacknowledged=seen.to_acknowledge - seen.acknowledged,
    )


def _received(seen: Observer) -> Received:
    return Received(
        total=seen.came,
        **{name: seen.ended[name] for name in NAMED},
        dropped={"room": seen.ended["room"]},
        unfinished=seen.came - seen.ended.total(),
    )


def _registered_pages(ni: Messaging) -> int:
    regions = ni.firmware.memory.regions
    pages = {
        page
        for one in regions[regions["handle"] != 0]
        for page in range(
            int(one["address"]) // PAGE, -(-int(one["address"] + one["length"]) // PAGE)
        )
    }
    return len(pages)
