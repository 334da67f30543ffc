"""What a run of programs over ports is reported from: the counters of NICs that serve ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.machine_run import MachineRun
from nicscope.interfaces.ports.book import fates
from nicscope.interfaces.run_report import PS_PER_US, Looked, NodeReport, Received, Sent
from nicscope.nic.ports import layout as carried
from nicscope.nic.ports.layout import ONE, OWN_PORT, STATUS_NAMES
from nicscope.nic.ports.pools import BLANK
from nicscope.nic.ports.traffic import MADE_NAMES
from nicscope.nic.translate.codes import UTLB
from nicscope.nic.transport import LAST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.book import PortBook
    from nicscope.interfaces.run_report import Account, Names

KINDS = {
    carried.SEND: "message",
    carried.WRITE: "store",
    carried.FETCH: "fetch",
    carried.REPLY: "answer",
    carried.ACKNOWLEDGEMENT: "acknowledgement",
    carried.PROBE: "probe",
}


class PortsRun(MachineRun):
    """A run whose NICs served ports."""

    def __init__(
        self,
        machine: Machine,
        counts: list[dict[str, int | None]],
        names: Names,
        book: PortBook,
        statuses: Sequence[str] = STATUS_NAMES,
    ) -> None:
        """``counts`` are of translation, by node; ``statuses``: what ends are called."""
        super().__init__(machine, names)
        self._counts = counts
        self._book = book
        self._statuses = statuses

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""
        return [self._node(n, counts) for n, counts in enumerate(self._counts)]

    def endpoints(self) -> list[Account]:
        """What was done for each endpoint."""
        handles = bool(self._machine.ports.rules[0]["handles"])
        return self._book.accounts(self._statuses, handles=handles)

    def _packets(self) -> Mapping[tuple[int, int], str]:
        ports = self._machine.ports
        made = ports.happenings[: ports.happened[0]]
        return {
            (int(one["sender"]), int(one["number"])): KINDS[int(one["kind"])]
            for one in made[made["came"] == 0]
            if int(one["kind"]) in KINDS
        }

    def _node(self, n: int, counts: dict[str, int | None]) -> NodeReport:
        ports = self._machine.ports
        serving = ports.nodes[n]
        copied = ("messages_out", "messages_in", "bytes_out", "bytes_in")
        kept = ("repeated", "interrupts", "page_ins")
        told: dict[str, int] = {}
        for status, count in zip(self._statuses, ports.told[n].tolist(), strict=True):
            if count:
                told[status] = told.get(status, 0) + count
        checks, missed = self._checked(n, counts)
        return NodeReport(
            **self._engines(n),
            **{name: int(serving[name]) for name in (*copied, *kept)},
            requests=told,
            open_requests=self._open_requests(n),
            sent=self._sent(n),
            received=self._received(n),
            lookups=self._looked(n, counts, "lookups"),
            misses=self._looked(n, counts, "misses"),
            checks=checks,
            check_misses=missed,
            pins=counts["pins"] or 0,
            unpins=counts["unpins"] or 0,
            pinned_now=int(ports.memory.hosts[n]["pinned"]),
            miss_us=int(serving["miss_time"]) / PS_PER_US,
        )

    def _checked(self, n: int, counts: dict[str, int | None]) -> tuple[int | None, int | None]:
        """What a node's user libraries have checked, and missed; None under a design without."""
        if self._machine.ports.rules[0]["scheme"] < UTLB:
            return None, None
        return int(self._machine.ports.nodes[n]["checks"]), counts["check_misses"] or 0

    def _open_requests(self, n: int) -> int:
        """Descriptors of all queues that had not ended."""
        ports = self._machine.ports
        table = ports.table[n, OWN_PORT + 1 :]
        receives = (table["receives_posted"] - table["received"])[table["takes"] == ONE]
        return int(ports.pending[n, OWN_PORT + 1 :]["busy"].sum() + receives.sum())

    def _sent(self, n: int) -> Sent:
        ports = self._machine.ports
        own = ports.stream_of[n]
        streams = ports.pools.streams[own[own > BLANK]]
        numbered = outstanding = 0
        if ports.rules[0]["reliable"]:
            numbered = int(streams["sent"].sum())
            outstanding = int(((streams["fresh"] - streams["oldest"]) & LAST).sum())
        made = ports.made[n].tolist()
        return Sent(
            total=sum(made),
            **dict(zip(MADE_NAMES, made, strict=True)),
            acknowledged=numbered - outstanding,
            unacknowledged=outstanding,
            **self._made(n),
        )

    def _received(self, n: int) -> Received:
        ended = self._machine.ports.ended[n].tolist()
        came = int(self._machine.endpoints[n]["accepted"])
        return fates(ended, came - sum(ended))

    def _looked(self, n: int, counts: dict[str, int | None], what: str) -> Looked:
        serving = self._machine.ports.nodes[n]
        name = "ni_misses" if what == "misses" else what
        send, receive = (counts[f"{name}_{path}"] or 0 for path in ("send", "receive"))
        handles = None
        if self._machine.ports.rules[0]["handles"]:
            handles = int(serving[f"buffer_{what}"]) + int(serving[f"process_{what}"])
        total = send + receive + (handles or 0)
        return Looked(total=total, send=send, receive=receive, handles=handles)
