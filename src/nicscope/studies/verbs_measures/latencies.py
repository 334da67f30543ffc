"""Latency of verbs: one message at a time, in virtual time, and where its time went.

Source: perftest, which has typical for the median and the percentiles of a sorted list.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.delivery import Way
from nicscope.config.scheme import Scheme
from nicscope.drivers.simulate.log import Engine, Task
from nicscope.drivers.simulate.machine import POLLING
from nicscope.studies.latency.parts import Part, Sent, parts_of, prices_of
from nicscope.studies.verbs_measures.costs import Costs, costs_now
from nicscope.studies.verbs_measures.ends import both_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.verbs.world import World
    from nicscope.studies.verbs_measures.ends import End
    from nicscope.studies.verbs_measures.question import Question

NS_PER_US = 1000
KEPT = 1 << 17  # records of the log, of which messages are taken apart
# What the NIC does for what comes; the rest is for what goes.
OF_RECEIVER = (Engine.NET_RCV, Engine.HOST_RCV, Engine.HOST_READ, Engine.REPORT)
TASKS_OF_RECEIVER = (Task.POST_CONTROL, Task.POST_PAYLOAD, Task.HOST_RCV, Task.COMPLETE)


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Of messages of one size on one design, ns."""

    design: str
    platform: str
    payload_bytes: int
    iterations: int
    least: float
    most: float
    typical: float  # the median
    average: float
    deviation: float
    p99: float
    p99_9: float
    taken_apart: int  # messages that ``parts_ns`` is the mean of
    parts_ns: dict[str, float]  # by the name of the ``Part``, in lower case
    costs: Costs

    def us(self, *parts: Part) -> float:
        """Microseconds of a message that is taken apart, in these parts of it."""
        return sum(self.parts_ns[part.name.lower()] for part in parts) / NS_PER_US


def latencies(
    world: World, question: Question, size: int, watch: Callable[[], object]
) -> Latencies:
    """Time messages one by one: sends there and back in turn, the rest until their completion."""
    device = world.device
    left, right = both_ends(world, question, size)
    before = costs_now(device)
    times: list[tuple[int, int]] = []
    for number in range(question.iterations):
        ends = (left, right) if number % 2 == 0 or question.operation != "send" else (right, left)
        times.append(_timed(device, *ends, sends=question.operation == "send"))
        watch()
    after = costs_now(device)
    left.close()
    right.close()
    apart = _apart(device, size, times)
    taken = np.array([until - since for since, until in times]) / NS_PER_US  # ps to ns
    in_order = np.sort(taken)
    return Latencies(
        design=device.design_name,
        platform=device.fabric.platform.name,
        payload_bytes=size,
        iterations=len(taken),
        least=float(in_order[0]),
        most=float(in_order[-1]),
        typical=float(np.median(in_order)),
        average=float(taken.mean()),
        deviation=float(taken.std()),
        p99=percentile(in_order, 0.99),
        p99_9=percentile(in_order, 0.999),
        taken_apart=len(apart),
        parts_ns={
            part.name.lower(): sum(one[part] for one in apart) / max(len(apart), 1) / NS_PER_US
            for part in Part
        },
        costs=after.since(before),
    )


def percentile(in_order: NDArray[Any], share: float) -> float:
    """The least of them that so many are at most."""
    return float(in_order[math.ceil(len(in_order) * share) - 1])


def _timed(device: Any, here: End, there: End, *, sends: bool) -> tuple[int, int]:
    """When a message was begun, and when it was known to have come, ps."""
    begun = device.now_ps
    here.post()
    if not sends:
        here.ended(here.sent)
        return begun, device.now_ps
    there.ended(there.come)
    seen = device.now_ps
    there.receive()
    here.ended(here.sent)
    return begun, seen


def _apart(device: Any, size: int, times: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Ps by ``Part`` of each message whose records were kept."""
    log = device.records()
    kept = [each for each in times if len(log) and each[1] <= int(log["end"][-1])]
    parted = two_ends(log)
    costs = {name: cost.high_ps for name, cost in device.fabric.platform.costs.items()}
    own_table = device.fabric.design.scheme is Scheme.STATIC
    prices = prices_of(Way.PCI, costs, {}, own_table=own_table)
    return [
        parts_of(parted, Sent(0, 1, size, since, until, until), prices) for since, until in kept
    ]


def two_ends(log: NDArray[Any]) -> NDArray[Any]:
    """The records of a NIC that sends to itself, as if what comes came to another node's, 1.

    A miss is the side's whose lookup was before it.
    """
    found = log.copy()
    firmware = found["engine"] == Engine.FIRMWARE
    missing = firmware & (found["task"] == Task.MISSING) | (found["engine"] == Engine.TABLE)
    comes = np.isin(found["engine"], OF_RECEIVER)
    comes |= firmware & np.isin(found["task"], TASKS_OF_RECEIVER)
    comes |= (found["engine"] == Engine.CPU) & (found["task"] == POLLING)
    looked = np.where(firmware & ~missing, np.arange(len(found)), 0)
    side = comes[np.maximum.accumulate(looked)] if len(found) else comes
    found["node"] = np.where(missing, side, comes)
    return found
