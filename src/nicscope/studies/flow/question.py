"""``nicscope flow``: its options, checked before anything is simulated."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from nicscope.config.design import CONTROL_BYTES, DELIVERY_COSTS, POLICIES, Delivery, Policy
from nicscope.config.platform import (
    LONGEST_PS,
    PER_BYTE_UNITS,
    TIME_UNITS,
    delivery_costs,
    load_platform,
    whole_ps,
)
from nicscope.config.quantities import read_bytes
from nicscope.drivers.simulate.processor import OtherMaster
from nicscope.errors import DesignError, PlatformError, SimulationError, did_you_mean
from nicscope.studies.verbs_programs import topology_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.fabric.topology import Topology

MOST_NODES = 64
MOST_MESSAGES = 1 << 20
LARGEST = 1 << 24  # bytes of a payload: what a record of the firmware's log holds, not included
LONGEST_GAP_PS = 10**12
PS_PER_DAY = 86_400 * 10**12
_NUMBER = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?) *([A-Za-z/]*)")


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
    held, every = (_time(where, part, TIME_UNITS, "8us/20us") for part in (hold, period))
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
    ps = _time("--gap", text, TIME_UNITS, "130us")
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
    ps = _time(f"--set {text}", value, units, "6.25ns/B" if by_byte else "2us")
    if not 0 <= ps <= LONGEST_PS:
        raise PlatformError(f"--set {text}: must be from 0 to {LONGEST_PS} ps")
    return name, ps


def _time(where: str, text: str, units: Mapping[str, int], example: str) -> int:
    split = _NUMBER.fullmatch(text.strip())
    if not split or split[2] not in units:
        raise SimulationError(
            f"{where}: must be a number and a unit ({', '.join(units)}), such as {example}"
        )
    ps = whole_ps(Decimal(split[1]), units[split[2]])
    if ps is None:
        raise SimulationError(f"{where}: {split[0]} is not a whole number of picoseconds")
    return ps
