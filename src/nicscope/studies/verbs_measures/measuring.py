"""The measurements of a question, one after another, each on a device of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nicscope.studies.sources import repeat
from nicscope.studies.verbs_measures.bandwidth import Bandwidth, bandwidth
from nicscope.studies.verbs_measures.latencies import KEPT, Latencies, latencies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.platform import Platform
    from nicscope.interfaces.verbs.world import World
    from nicscope.studies.verbs_measures.question import Question

    Watch = Callable[[int, int], None]
    Measure = Callable[[World, Question, int, Callable[[], object]], "T"]

T = TypeVar("T")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What both kinds of measurements say beside their numbers."""

    operation: str
    queue_pairs: int
    depth: int
    inline_bytes: int
    nodes: int  # 1: the node sends to itself
    evidence: dict[str, dict[str, int]]  # by platform: how many of its costs, by class
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Bandwidths(Measured, frozen=True, kw_only=True):
    """Of each design and size."""

    rows: list[Bandwidth]


class AllLatencies(Measured, frozen=True, kw_only=True):
    """Of each design and size."""

    rows: list[Latencies]


def bandwidths(question: Question, command: Sequence[str], watch: Watch) -> Bandwidths:
    """Measure bandwidth on each design, for each size.  Errors: ``NicscopeError``."""
    rows, said = _measured(question, command, watch, bandwidth, 0)
    return Bandwidths(rows=rows, **said)


def all_latencies(question: Question, command: Sequence[str], watch: Watch) -> AllLatencies:
    """Measure latency on each design, for each size.  Errors: ``NicscopeError``."""
    rows, said = _measured(question, command, watch, latencies, KEPT)
    return AllLatencies(rows=rows, **said)


def _measured(
    question: Question, command: Sequence[str], watch: Watch, measure: Measure[T], keep_log: int
) -> tuple[list[T], dict[str, Any]]:
    from nicscope.interfaces.verbs.world import World, use

    for design in question.designs:
        _device(question, design, 0)  # all of them can be, before the first is measured
    each = question.iterations * question.pairs
    total = each * len(question.sizes) * len(question.designs)
    done, rows = 0, []
    evidence: dict[str, dict[str, int]] = {}

    def one_more() -> None:
        nonlocal done
        done += 1
        watch(done, total)

    for design in question.designs:
        for size in question.sizes:
            device = _device(question, design, keep_log)
            world = World(device)
            use(world)
            try:
                rows.append(measure(world, question, size, one_more))
            finally:
                use(None)
            platform = device.fabric.platform
            evidence[platform.name] = _classes(platform)
    return rows, {
        "operation": question.operation,
        "queue_pairs": question.pairs,
        "depth": min(question.depth, question.iterations),
        "inline_bytes": question.inline,
        "nodes": 1,
        "evidence": evidence,
        "repeat": repeat(command),
    }


def _classes(platform: Platform) -> dict[str, int]:
    """How many of its costs are of which class of evidence."""
    found: dict[str, int] = {}
    for cost in platform.costs.values():
        kind = cost.origin.evidence.value
        found[kind] = found.get(kind, 0) + 1
    return found


def _device(question: Question, design: Any, keep_log: int) -> Any:
    from nicscope.interfaces.verbs_device.device import Device

    chosen: dict[str, Any] = {} if design is None else {"design": design}
    if question.platform is not None:
        chosen["platform"] = question.platform
    return Device(seed=question.seed, keep_log=keep_log, **chosen)
