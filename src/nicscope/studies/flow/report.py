"""The result of a ``FlowQuestion``: packets, latency parts, engines, memory.

It holds what the structures of delivery take of NIC memory, and becomes a timeline.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.design import CONTROL_BYTES, DELIVERY_COSTS
from nicscope.drivers.simulate.observe import Engine, RunLog
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.interfaces.run_report import ACTIONS, WAY
from nicscope.interfaces.run_timeline import Drawn, document
from nicscope.studies.flow.parts import (
    PART_NAMES,
    EngineUse,
    Part,
    band_transfers,
    busy_parts,
    engine_use,
    latency_parts,
    megabytes_per_second,
    processor_use,
)
from nicscope.studies.sources import repeat as repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Delivery
    from nicscope.studies.flow.question import FlowQuestion

# A record of the firmware's log as it is packed (Trapeze, 3.2, names the five fields, not their
# widths).  Times are ticks of the NIC's 33 MHz counter, which 32 bits hold for two minutes; 24 bits
# hold any payload up to 16 MB.
LOG_RECORD = {"packet": 4, "engine": 1, "bytes": 3, "start": 4, "completion": 4}
LOG_RECORD_BYTES = sum(LOG_RECORD.values())
# An entry of the incoming payload table: where a payload of that tag goes (the widths are assumed;
# a 32-bit PCI bus takes addresses of 4 bytes).
TABLE_ENTRY = {"DMA address": 4, "length": 4}
TABLE_ENTRIES = 64  # assumed: the paper states no number; as many as a ring has entries
TABLE_ENTRY_BYTES = sum(TABLE_ENTRY.values())


class Held(NamedTuple):
    """``number`` objects of ``each_bytes`` bytes in NIC memory."""

    what: str
    number: int
    each_bytes: int

    @property
    def byte_count(self) -> int:
        """Bytes of all of them."""
        return self.number * self.each_bytes

    def to_json(self) -> dict[str, Any]:
        """Units are in the keys."""
        return {
            "what": self.what,
            "count": self.number,
            "each_bytes": self.each_bytes,
            "bytes": self.byte_count,
        }


def memory_account(
    delivery: Delivery, log_records: int = 0, table_entries: int = TABLE_ENTRIES
) -> list[Held]:
    """The complete NIC memory of one endpoint, structure by structure.

    ``log_records`` are those that the firmware has logged since the host last read them;
    ``table_entries`` those of the incoming payload table.
    """
    held = [
        Held("send ring", delivery.send_ring, CONTROL_BYTES),
        Held("receive ring", delivery.receive_ring, CONTROL_BYTES),
        Held("send buffers", delivery.send_buffers, delivery.max_payload),
        Held("receive buffers", delivery.receive_buffers, delivery.max_payload),
        Held("incoming payload table", table_entries, TABLE_ENTRY_BYTES),
    ]
    if delivery.logging:
        held.append(Held("log of transfers", log_records, LOG_RECORD_BYTES))
    return held


MOST_RECORDS = 1 << 19  # of the observer's log; what comes later is counted, not taken apart
LISTED = 10_000  # packets in JSON; the table has all of them


class FlowReport(msgspec.Struct, frozen=True, kw_only=True):
    """The messages, and the latency parts of those with a complete log."""

    question: FlowQuestion
    messages: NDArray[Any]  # MESSAGE, in order of ``read``; every one
    log: NDArray[Any]  # LOG of the observer, in order of ``end``; the first MOST_RECORDS
    detailed: NDArray[Any]  # MESSAGE: those whose records are all in ``log``
    parts: NDArray[np.int64]  # (detailed, Part): ps, each row adds up to a latency
    busy: NDArray[np.int64]  # (detailed, Part): ps of each activity, beneath others or not
    transfers: NDArray[Any]  # TRANSFER
    engines: list[EngineUse]
    memory: dict[str, list[Held]]  # by role: sender, receiver
    end_ps: int
    repeat: dict[str, Any]

    @property
    def delivered(self) -> NDArray[Any]:
        """The messages that were read; the rest was aborted by the watchdog."""
        return self.messages[self.messages["read"] >= 0]

    @property
    def latencies(self) -> NDArray[np.int64]:
        """Picoseconds of each delivered message."""
        done = self.delivered
        latencies: NDArray[np.int64] = done["read"] - done["posted"]
        return latencies

    @property
    def bandwidth(self) -> float:
        """MB/s (10**6 bytes) of payload, all flows together.

        From the first message read to the last; of a single one, its payload over its latency.
        """
        done = self.delivered
        if not len(done):
            return 0.0
        lasting = int(done["read"][-1] - done["read"][0])
        if lasting:
            return megabytes_per_second(int(done["payload"][1:].sum()), lasting)
        return megabytes_per_second(int(done["payload"].sum()), int(self.latencies.max()))

    @property
    def log_is_whole(self) -> bool:
        """Whether the log has all records of every message."""
        return len(self.detailed) == len(self.messages)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers and text; units are in the keys."""
        ask = self.question
        return {
            "platforms": {
                role: {"name": each.name, "title": each.title, "evidence": evidence_of(ask, role)}
                for role, each in zip(("sender", "receiver"), ask.platforms, strict=True)
            },
            "costs_ps": dict(zip(("sender", "receiver"), _two_costs(ask), strict=True)),
            "overridden": sorted(ask.overrides),
            "policy": ask.policy,
            "delivery": msgspec.to_builtins(ask.delivery) | {"policy": ask.delivery.policy.name},
            "topology": {"name": ask.topology.name, "nodes": ask.topology.nodes},
            "traffic": {
                "flows": [list(flow) for flow in ask.flows],
                "payload_bytes": ask.payload,
                "count": ask.count,
                "gap_ps": ask.gap_ps,
            },
            "bus_master": self._master(),
            "delivered": len(self.delivered),
            "aborted": len(self.messages) - len(self.delivered),
            "latency_ps": self._latency(),
            "bandwidth_mb_per_s": self.bandwidth,
            "end_ps": self.end_ps,
            "taken_apart": len(self.detailed),
            "parts": self._parts(),
            "packets": self._packets(),
            "engines": [use.to_json() for use in self.engines],
            "nic_memory": {
                role: [held.to_json() for held in account] for role, account in self.memory.items()
            },
            "log_record_bytes": dict(LOG_RECORD),
            "repeat": self.repeat,
        }

    def _master(self) -> dict[str, int] | None:
        """Of each host's bus: how long another master holds it, and how often."""
        if not self.question.masters:
            return None
        each = self.question.masters[0]
        return {"hold_ps": each.hold_ps, "period_ps": each.period_ps}

    def _latency(self) -> dict[str, int | float] | None:
        ps = self.latencies
        if not len(ps):
            return None
        return {
            "least": int(ps.min()),
            "median": float(np.median(ps)),
            "mean": float(ps.mean()),
            "most": int(ps.max()),
        }

    def _parts(self) -> list[dict[str, Any]]:
        totals, busy = self.parts.sum(axis=0), self.busy.sum(axis=0)
        every = int(totals.sum())
        return [
            {
                "part": PART_NAMES[part],
                "total_ps": int(totals[part]),
                "share": int(totals[part]) / every if every else 0.0,
                "busy_ps": int(busy[part]),
            }
            for part in Part
        ]

    def _packets(self) -> list[dict[str, Any]]:
        found = []
        rows = zip(self.detailed[:LISTED], self.parts[:LISTED].tolist(), strict=True)
        for message, parts in rows:
            fields = {name: int(message[name]) for name in ("sender", "destination", "packet")}
            read = int(message["read"])
            found.append(
                fields
                | {
                    "payload_bytes": int(message["payload"]),
                    "posted_ps": int(message["posted"]),
                    "read_ps": read if read >= 0 else None,
                    "latency_ps": sum(parts) if read >= 0 else None,
                    "parts_ps": {PART_NAMES[part]: parts[part] for part in Part},
                }
            )
        return found


def report(
    question: FlowQuestion,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> FlowReport:
    """Simulate the question; reports messages done to ``watch``.

    ``command`` is passed on, for whoever wants to do it again.  Errors: ``SimulationError`` for
    costs that cannot be.
    """
    keep = min(question.total * _records_each(question), MOST_RECORDS)
    outcome = simulate_script(
        question.costs(),
        question.delivery,
        question.topology,
        [
            Run(sender, destination, question.payload, question.count, question.gap_ps)
            for sender, destination in question.flows
        ],
        masters=question.masters,
        keep_messages=question.total,
        keep_log=keep,
        progress=watch or _unwatched,
    )
    return answer(
        question,
        outcome.messages,
        outcome.log,
        outcome.end_ps,
        whole=len(outcome.log) < keep,
        repeat=repeated(command),
    )


def answer(
    question: FlowQuestion,
    messages: NDArray[Any],
    log: NDArray[Any],
    end_ps: int,
    *,
    whole: bool = True,
    repeat: dict[str, Any] | None = None,
) -> FlowReport:
    """The report on ``messages`` (MESSAGE) and ``log`` (LOG), which is cut short if not ``whole``.

    ``end_ps``: when the last thing happened.
    """
    detailed = messages
    if not whole:
        # Records come in order of their end: a message read before the last one has all of its.
        detailed = messages[(messages["read"] >= 0) & (messages["read"] < log["end"][-1])]
    transfers = band_transfers(log)
    begin = int(messages["posted"].min(initial=end_ps))
    until = end_ps if whole else int(log["end"][-1])
    return FlowReport(
        question=question,
        messages=messages,
        log=log,
        detailed=detailed,
        parts=latency_parts(log, detailed),
        busy=busy_parts(log, detailed),
        transfers=transfers,
        engines=engine_use(transfers, begin, until) + processor_use(log, begin, until),
        memory=_memory(question, transfers),
        end_ps=end_ps,
        repeat=repeat or {},
    )


def _unwatched(done: int, total: int) -> None:
    """A watch that does nothing."""


def evidence_of(question: FlowQuestion, role: str) -> dict[str, int]:
    """How many of delivery's costs are of each class of evidence; overridden ones are "set"."""
    platform = question.sender if role == "sender" else question.receiver
    classes = Counter(
        "set"
        if name in question.overrides
        else platform.costs[name].origin.evidence.value
        if name in platform.costs
        else "not applicable"
        for name in DELIVERY_COSTS
    )
    return dict(classes.most_common())


def _two_costs(question: FlowQuestion) -> tuple[dict[str, int], dict[str, int]]:
    costs = question.costs()
    sender, receiver = question.flows[0]
    return costs[sender], costs[receiver]


def _records_each(question: FlowQuestion) -> int:
    """Records per message: all fragments but the last are larger than minpulse."""
    delivery = question.delivery
    pulses = (delivery.minpulse_send, delivery.minpulse_receive)
    fragments = sum(question.payload // pulse + 2 for pulse in pulses)
    return 2 * len(Engine) + 2 * fragments


def _memory(question: FlowQuestion, transfers: NDArray[Any]) -> dict[str, list[Held]]:
    """Of the first flow's two NICs, with the log of the whole run."""
    sender, receiver = question.flows[0]
    delivery = question.delivery
    return {
        role: memory_account(delivery, int((transfers["node"] == node).sum()))
        for role, node in (("sender", sender), ("receiver", receiver))
    }


ENGINES = (
    Engine.HOST_WRITE,
    Engine.HOST_TX,
    Engine.NET_TX,
    Engine.NET_RCV,
    Engine.HOST_RCV,
    Engine.HOST_READ,
    Engine.FIRMWARE,
)


def timeline(report: FlowReport) -> dict[str, Any]:
    """The timeline document."""
    ask = report.question
    names = [f"node {n}: {ask.platform_of(n).name}" for n in range(ask.topology.nodes)]
    log = RunLog(report.log, len(report.log), ACTIONS, {}, WAY)
    repeat = report.repeat
    drawn = Drawn(names, log, ENGINES)
    return document([drawn], repeat.get("command", []), repeat.get("version", ""))
