"""Where every microsecond of a packet's path goes: what is asked, the run, and the answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.design import CONTROL_BYTES, DELIVERY_COSTS, POLICIES, Delivery, Policy
from nicscope.config.platform import (
    LONGEST_PS,
    PER_BYTE_UNITS,
    TIME_UNITS,
    delivery_costs,
    load_platform,
)
from nicscope.config.quantities import read_bytes
from nicscope.drivers.simulate.observe import Engine, RunLog
from nicscope.drivers.simulate.processor import OtherMaster
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.errors import DesignError, PlatformError, SimulationError, did_you_mean
from nicscope.interfaces.arguments import read_time
from nicscope.interfaces.run_report import ACTIONS, WAY
from nicscope.interfaces.run_timeline import Drawn, document
from nicscope.studies.flow_parts import (
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
from nicscope.studies.verbs_programs import topology_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.config.platform import Platform
    from nicscope.fabric.topology import Topology


MOST_NODES = 64
MOST_MESSAGES = 1 << 20
LARGEST = 1 << 24  # bytes of a payload: what a record of the firmware's log holds, not included
LONGEST_GAP_PS = 10**12
PS_PER_DAY = 86_400 * 10**12


class FlowQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A script: senders, receivers, sizes, delivery, and costs."""

    sender: Platform
    receiver: Platform
    policy: str  # of POLICIES, from which ``delivery`` was made
    delivery: Delivery
    topology: Topology
    flows: tuple[tuple[int, int], ...]  # (sender, destination)
    payload: int  # bytes
    count: int  # messages of each flow
    gap_ps: int  # at least, between two starts of a sender
    overrides: dict[str, int]  # cost: ps, on both platforms
    masters: tuple[OtherMaster, ...] = ()  # of the hosts' buses

    @property
    def total(self) -> int:
        """The total number of messages."""
        return self.count * len(self.flows)

    def costs(self) -> list[dict[str, int]]:
        """Delivery's costs (ps) of each node: senders are of one platform, the rest of the other.

        Errors: ``PlatformError`` if a platform states too few.
        """
        sends = {sender for sender, _ in self.flows}
        ours, theirs = (delivery_costs(each) | self.overrides for each in self.platforms)
        return [ours if node in sends else theirs for node in range(self.topology.nodes)]

    @property
    def platforms(self) -> tuple[Platform, Platform]:
        """The senders' and the receivers' platform."""
        return self.sender, self.receiver

    def platform_of(self, node: int) -> Platform:
        """The platform of ``node``."""
        return self.sender if any(node == sender for sender, _ in self.flows) else self.receiver


def ask(
    *,
    platform: str | Path | Platform,
    to: str | Path | Platform | None = None,
    policy: str = "adaptive",
    payload: str = "8192",
    count: int = 8,
    gap: str = "0us",
    minpulse: int | None = None,
    buffers: int | None = None,
    ring: int | None = None,
    max_payload: str | None = None,
    logging: bool = False,
    topology: str = "crossbar",
    nodes: int = 2,
    bus_master: str | None = None,
    assignments: Iterable[str] = (),
) -> FlowQuestion:
    """Parse and check the options.

    Errors: ``PlatformError``, ``DesignError`` or ``SimulationError`` for the first word that makes
    no sense.
    """
    if policy not in POLICIES:
        raise DesignError(f"no policy {policy!r}{did_you_mean(policy, POLICIES)}")
    size = _byte_count("--payload", payload, least=0)
    largest = POLICIES[policy].max_payload
    if max_payload is not None:
        largest = _byte_count("--max-payload", max_payload, least=1)
    if size > largest:
        raise SimulationError(
            f"a payload of {size} bytes is above the largest, {largest}; "
            f"lower --payload, or raise it with --max-payload {size}"
        )
    if not 1 <= count <= MOST_MESSAGES:
        raise SimulationError(f"--count must be from 1 to {MOST_MESSAGES}, got {count}")
    question = FlowQuestion(
        sender=load_platform(platform),
        receiver=load_platform(platform if to is None else to),
        policy=policy,
        delivery=_delivery(policy, largest, size, minpulse, buffers, ring, logging),
        topology=_topology(topology, nodes),
        flows=tuple((node, node + nodes // 2) for node in range(nodes // 2)),
        payload=size,
        count=count,
        gap_ps=_gap(gap),
        overrides=dict(_override(text) for text in assignments),
        masters=() if bus_master is None else _masters(bus_master, nodes),
    )
    if question.total > MOST_MESSAGES:
        raise SimulationError(
            f"{count} messages of each of {nodes // 2} senders are more than {MOST_MESSAGES}; "
            "lower --count or --nodes"
        )
    _check_clock(question)
    return question


def _check_clock(question: FlowQuestion) -> None:
    """Refuse runs that could exceed 64 bits of picoseconds, all steps in sequence."""
    pulses = min(question.delivery.minpulse_send, question.delivery.minpulse_receive)
    steps = 8 * (question.payload // pulses + 8)  # of a message, generously
    longest = 0
    for costs in question.costs():
        memory = costs["nic_memory_per_byte"]
        buses = [costs[f"pci_{way}_per_byte"] for way in ("read", "write")]
        shared = [2 * memory * bus // (bus - memory) for bus in buses if bus > memory]
        by_byte = sum(shared) + sum(ps for name, ps in costs.items() if name.endswith("per_byte"))
        once = costs["link_watchdog"] + question.gap_ps
        by_step = sum(
            ps
            for name, ps in costs.items()
            if not name.endswith("per_byte") and name != "link_watchdog"
        )
        each = steps * by_step + 4 * (question.payload + CONTROL_BYTES) * by_byte + once
        longest += question.total * each
    if question.masters:
        held, every = question.masters[0].hold_ps, question.masters[0].period_ps
        longest = longest * every // (every - held) + every
    if longest > LONGEST_PS:
        raise SimulationError(
            "at these costs the messages could take longer than the clock can count, "
            f"{LONGEST_PS // PS_PER_DAY} days; lower --count or --payload"
        )


def _delivery(
    policy: str,
    largest: int,
    payload: int,
    minpulse: int | None,
    buffers: int | None,
    ring: int | None,
    logging: bool,
) -> Delivery:
    base = POLICIES[policy]
    changes: dict[str, int | bool] = {"max_payload": largest, "logging": logging}
    sides = ("send", "receive")
    if minpulse is not None and base.policy is Policy.STORE_AND_FORWARD:
        raise DesignError(f"policy {policy!r} has no minpulse; leave --minpulse out")
    if minpulse is not None and not 1 <= minpulse <= payload:
        raise DesignError(
            f"minpulse must be from 1 to the payload, {payload} bytes, got {minpulse}"
        )
    for side in sides:
        own = min(getattr(base, f"minpulse_{side}"), largest)
        changes[f"minpulse_{side}"] = own if minpulse is None else minpulse
    for option, wanted, name in (("--buffers", buffers, "buffers"), ("--ring", ring, "ring")):
        if wanted is not None:
            if not 1 <= wanted <= LARGEST:
                raise DesignError(f"{option} must be from 1 to {LARGEST}, got {wanted}")
            changes |= {f"{side}_{name}": wanted for side in sides}
    return msgspec.structs.replace(base, **changes)


def _topology(name: str, nodes: int) -> Topology:
    if not 2 <= nodes <= MOST_NODES or nodes % 2:
        raise DesignError(f"--nodes must be even, from 2 to {MOST_NODES}, got {nodes}")
    return topology_named(name, nodes)


def _masters(text: str, nodes: int) -> tuple[OtherMaster, ...]:
    """Parse ``HOLD/PERIOD``: another bus master at each host."""
    hold, slash, period = text.partition("/")
    if not slash:
        raise SimulationError(
            f"--bus-master {text}: write it as HOLD/PERIOD, such as 8us/20us: for how long of "
            "every how long another master has each host's bus"
        )
    where = f"--bus-master {text}"
    held, every = (read_time(where, part, TIME_UNITS, "8us/20us") for part in (hold, period))
    masters = tuple(OtherMaster(node, held, every) for node in range(nodes))
    for each in masters:
        each.check(nodes)
    return masters


def _byte_count(option: str, text: str, least: int) -> int:
    """Bytes, such as ``8192`` or ``8KiB``."""
    sign = "-" if text.strip().startswith("-") else ""
    size = read_bytes(text.strip().removeprefix(sign))
    if size is None:
        raise SimulationError(
            f"{option} must be a whole number of bytes, such as 8192 or 8KiB, got {text!r}"
        )
    if sign or not least <= size < LARGEST:
        raise SimulationError(f"{option} must be from {least} to {LARGEST - 1}, got {text}")
    return size


def _gap(text: str) -> int:
    ps = read_time("--gap", text, TIME_UNITS, "130us")
    if not 0 <= ps <= LONGEST_GAP_PS:
        raise SimulationError(f"--gap must be from 0 to 1 s, got {text}")
    return ps


def _override(text: str) -> tuple[str, int]:
    """``cost=value`` as the cost and picoseconds (per byte)."""
    name, equals, value = text.partition("=")
    if not equals:
        raise PlatformError(f"--set {text}: write it as COST=VALUE, such as firmware_start=2us")
    if name not in DELIVERY_COSTS:
        raise PlatformError(
            f"--set {text}: no cost of delivery {name!r}{did_you_mean(name, DELIVERY_COSTS)}"
        )
    by_byte = name.endswith("per_byte")
    units: Mapping[str, int] = PER_BYTE_UNITS if by_byte else TIME_UNITS
    ps = read_time(f"--set {text}", value, units, "6.25ns/B" if by_byte else "2us")
    if not 0 <= ps <= LONGEST_PS:
        raise PlatformError(f"--set {text}: must be from 0 to {LONGEST_PS} ps")
    return name, ps


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
        costs, (sender, receiver) = ask.costs(), ask.flows[0]
        return {
            "platforms": {
                role: {"name": each.name, "title": each.title, "evidence": evidence_of(ask, role)}
                for role, each in zip(("sender", "receiver"), ask.platforms, strict=True)
            },
            "costs_ps": {"sender": costs[sender], "receiver": costs[receiver]},
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
        progress=watch or (lambda _done, _total: None),
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
