"""Latency by mechanism and message size, taken apart; the parts add up to the picosecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.delivery import MESSAGE_STORE_AND_FORWARD
from nicscope.config.design import with_settings
from nicscope.config.machine import MACHINE_TIMES
from nicscope.config.platform import completed, load_platform
from nicscope.interfaces.via.settings import settings_of
from nicscope.interfaces.ways import Combination, check_runs
from nicscope.studies.latency.parts import DATA_TRANSFER, TRANSPORT, Part
from nicscope.studies.latency.ping_pong import Setting, ping_pong, rounds_of
from nicscope.studies.latency.translated import Translating, needed_by, translated
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.latency.question import Question

__all__ = ["Latency", "LatencyReport", "Part", "measure"]

# Of the platform's costs, what a message's latency has in it beside the machine's times.
OF_A_MESSAGE = (
    "post",
    "poll",
    "send_queue",
    "receive_queue",
    "ni_table_read",
    "firmware_start",
    "firmware_finish",
    "link_start",
    "link_per_byte",
    "switch_hop",
)
PS_PER_CYCLE = 1000  # of the host, at 1 GHz
PS_PER_US = 10**6


class Latency(msgspec.Struct, frozen=True):
    """Of one mechanism and size: all measured messages together, picoseconds."""

    mechanism: str
    byte_count: int
    messages: int
    total_ps: int
    parts_ps: dict[str, int]  # by the name of the ``Part``, in lower case
    lookups: int = 0  # of pages in a translation cache, on both NICs, for messages both ways
    misses: int = 0

    @property
    def us(self) -> float:
        """Microseconds of one message."""
        return self.total_ps / self.messages / PS_PER_US

    def cycles(self, *parts: Part) -> float:
        """Host cycles of one message, in all or in ``parts``."""
        ps = sum(self.parts_ps[part.name.lower()] for part in parts) if parts else self.total_ps
        return ps / self.messages / PS_PER_CYCLE

    def until_seen(self) -> float:
        """Host cycles until the receiver knows that the message is there: without its loads."""
        return self.cycles() - self.cycles(Part.USER_READ)

    def user_data(self) -> float:
        """Host cycles to write the message."""
        return self.cycles(Part.USER_DATA)

    def data_transfer(self) -> float:
        """Host cycles between host and NIC, both ends."""
        return self.cycles(*DATA_TRANSFER)

    def transport(self) -> float:
        """Host cycles of messaging on the NICs, both ends."""
        return self.cycles(*TRANSPORT)


class LatencyReport(msgspec.Struct, frozen=True):
    """Everything that ``nicscope latency`` found."""

    platform: str
    settings: dict[str, int]  # what was changed
    mtu: int
    dma_mbytes_s: int
    evidence: dict[str, int]  # how many of the platform's times, by class
    latencies: list[Latency]
    repeat: dict[str, Any]  # how it comes again
    delivery: str = MESSAGE_STORE_AND_FORWARD
    translation: Translating | None = None

    def of(self, mechanism: str, byte_count: int) -> Latency:
        """That one; ``KeyError`` if it was not asked for."""
        for one in self.latencies:
            if (one.mechanism, one.byte_count) == (mechanism, byte_count):
                return one
        raise KeyError((mechanism, byte_count))

    def to_json(self) -> dict[str, Any]:
        """Plain values; each latency also in microseconds."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        for row, one in zip(plain["latencies"], self.latencies, strict=True):
            row["us"] = one.us
        return plain


def measure(
    question: Question,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> LatencyReport:
    """Play ping-pong for every mechanism and size.  ``watch`` hears bytes (sent, to be sent).

    Errors: ``PlatformError``, ``SimulationError`` for settings that make no machine.
    """
    changes = dict(question.settings)
    platform = load_platform(question.platform)
    design, translating = translated(question)
    if translating is not None:
        platform = completed(platform, load_platform(translating.platform), needed_by(design))
    for name in question.mechanisms:
        check_runs(Combination("VIA", platform, name, with_settings(design, [f"way={name}"])))
    settings = settings_of(platform, changes)
    latencies = []
    games = [
        (Setting(platform, name, changes, design, question.pages, question.delivery), size)
        for size in question.sizes
        for name in question.mechanisms
    ]
    sent = [2 * size * sum(rounds_of(how, size)) for how, size in games]
    done, every = 0, sum(sent)
    for (how, size), byte_count in zip(games, sent, strict=True):
        found = ping_pong(how, size)
        parts = {part.name.lower(): found.parts[part] for part in Part}
        latencies.append(
            Latency(how.way, size, found.messages, found.total, parts, found.lookups, found.misses)
        )
        done += byte_count
        if watch is not None:
            watch(done, every)
    evidence: dict[str, int] = {}
    for cost in (*OF_A_MESSAGE, *MACHINE_TIMES):
        if cost in platform.costs and cost not in changes:
            kind = platform.costs[cost].origin.evidence.value
            evidence[kind] = evidence.get(kind, 0) + 1
    return LatencyReport(
        platform.name,
        changes,
        settings.mtu,
        settings.nic["dma_mbytes_s"],
        evidence,
        latencies,
        repeat(command),
        question.delivery,
        translating,
    )
