"""User-to-user latency by component: options and report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import COSTS
from nicscope.config.design import (
    MESSAGE_STORE_AND_FORWARD,
    POLICIES,
    Design,
    Policy,
    Way,
    load_design,
    with_settings,
)
from nicscope.config.platform import (
    MACHINE,
    MACHINE_TIMES,
    completed,
    load_platform,
    read_cost,
    read_number,
)
from nicscope.config.quantities import read_bytes
from nicscope.errors import DesignError, StudyError, did_you_mean
from nicscope.interfaces.via.cluster import DELIVERIES, settings_of
from nicscope.interfaces.ways import Combination, check_runs, why_way_refused
from nicscope.studies.latency.parts import DATA_TRANSFER, TRANSPORT, Part
from nicscope.studies.latency.ping_pong import (
    DESIGN,
    DESIGNS,
    Setting,
    Translating,
    costs_needed_by,
    ping_pong,
    rounds_of,
)
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform


MOST_BYTES = 65536
MOST_PAGES = 256
DEFAULT_MECHANISMS = "edt,cc-dma-intervention,cc-dma-retry,cni,dma,pio"
DEFAULT_BYTES = "64..4096"
PLATFORM = "sonic-via"
OPTIONS = {"mtu": "--mtu", "dma_mbytes_s": "--dma-rate"}  # of their own, by setting
WAYS = tuple(way.value for way in Way)


class Question(NamedTuple):
    """Mechanisms, sizes and platform."""

    mechanisms: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes, ascending
    platform: str | Path | Platform = PLATFORM
    settings: tuple[tuple[str, int], ...] = ()  # name, value
    translation: str | None = None  # a scheme, or a design; None: a table on the NIC
    entries: int | None = None  # of its cache; None: the design's
    pages: int = 1  # buffers that messages use in turn
    delivery: str = MESSAGE_STORE_AND_FORWARD


def translated(question: Question) -> tuple[Design, Translating | None]:
    """The design of the cluster, and the report's description of its translation.

    Errors: ``DesignError``, ``StudyError``.
    """
    if question.translation is None:
        return load_design(DESIGN), None
    design = load_design(DESIGNS.get(question.translation, question.translation))
    if question.entries is not None:
        try:
            design = with_settings(design, [f"entries={question.entries}"])
        except DesignError as error:
            raise StudyError(f"--entries: {str(error).partition(': ')[2]}") from None
    if design.platform is None:
        raise StudyError(
            f"design {design.name!r} names no platform, so nothing says what its misses take"
        )
    scheme = design.scheme.value
    return design, Translating(design.name, scheme, design.platform, design.entries, question.pages)


def ask(
    *,
    mechanisms: str | None = None,
    sizes: str = DEFAULT_BYTES,
    platform: str | Path | Platform = PLATFORM,
    mtu: int | None = None,
    dma_rate: int | None = None,
    overrides: Sequence[str] = (),
    translation: str | None = None,
    entries: int | None = None,
    pages: int | None = None,
    delivery: str = MESSAGE_STORE_AND_FORWARD,
) -> Question:
    """Parse and check the options.

    Errors: ``StudyError`` for the first word that makes no sense.
    """
    if delivery not in DELIVERIES:
        raise StudyError(f"no delivery {delivery!r}{did_you_mean(delivery, DELIVERIES)}")
    if translation is None:
        for option, number in (("--entries", entries), ("--pages", pages)):
            if number is not None:
                raise StudyError(f"{option} is of a translation cache; add --translation utlb")
    buffers = 1 if pages is None else pages
    if not 1 <= buffers <= MOST_PAGES:
        raise StudyError(f"--pages must be from 1 to {MOST_PAGES}, got {pages}")
    names = _names(mechanisms, delivery)
    settings: dict[str, int] = {}
    for name, value in (("mtu", mtu), ("dma_mbytes_s", dma_rate)):
        if value is not None:
            if value < 1:
                raise StudyError(f"{OPTIONS[name]} must be at least 1, got {value}")
            settings[name] = value
    for override in overrides:
        name, number = _setting(override)
        if name in settings:
            option = OPTIONS.get(name, "another --set")
            raise StudyError(f"{name} is said twice, by --set {override} and by {option}; keep one")
        settings[name] = number
    made = tuple(settings.items())
    asked = _sizes(sizes)
    longest = settings.get("max_transfer", MOST_BYTES)
    if asked[-1] > longest:
        raise StudyError(
            f"--bytes asks for {asked[-1]} bytes, more than max_transfer, {longest}; ask for less, "
            "or leave max_transfer as it is"
        )
    return Question(names, asked, platform, made, translation, entries, buffers, delivery)


def _setting(override: str) -> tuple[str, int]:
    before, equals, text = override.partition("=")
    name, number = before.strip(), _whole(text)
    if number is None and name in MACHINE:
        number = read_number(name, text)
    if number is None and name in COSTS and equals:
        number = read_cost(name, text.strip(), f"--set {override}").low_ps
    if not equals or number is None or not name:
        raise StudyError(
            "--set must be NAME=NUMBER, a whole number that is not negative, or a time, such as "
            f"cache_supply=60ns; got {override!r}"
        )
    return name, number


def _names(mechanisms: str | None, delivery: str) -> tuple[str, ...]:
    """The mechanisms asked for; by default all usual ones that support the delivery."""
    words = (DEFAULT_MECHANISMS if mechanisms is None else mechanisms).split(",")
    names = tuple(dict.fromkeys(word.strip() for word in words))
    for name in names:
        if not name:
            raise StudyError(
                f"--mechanism must list names, such as edt,dma; got {mechanisms!r}, where one "
                "is empty"
            )
        if name not in WAYS:
            raise StudyError(f"no mechanism {name!r}{did_you_mean(name.lower(), WAYS)}")
    cuts_through = POLICIES[delivery].policy == Policy.CUT_THROUGH
    makes_no_sense = {
        name: why_way_refused("VIA", name, cuts_through=cuts_through) for name in names
    }
    if mechanisms is None:
        return tuple(name for name in names if makes_no_sense[name] is None)
    for why in makes_no_sense.values():
        if why is not None:
            raise StudyError(str(why))
    return names


def _sizes(text: str) -> tuple[int, ...]:
    """Parse a list of sizes such as ``64,1500``, or ``64..4096``, by powers of two."""
    found: set[int] = set()
    for word in text.split(","):
        low, dots, high = word.partition("..")
        ends = [read_bytes(one) for one in ([low, high] if dots else [low])]
        if any(end is None or not 1 <= end <= MOST_BYTES for end in ends):
            raise StudyError(
                f"--bytes must list sizes from 1 to {MOST_BYTES}, such as 64,1500 or 64..4096; "
                f"got {word!r}"
            )
        sizes = [end for end in ends if end is not None]
        if sizes[0] > sizes[-1]:
            raise StudyError(f"--bytes must ascend, such as {high}..{low}; got {word!r}")
        if dots:
            while sizes[0] * 2 < sizes[1]:
                found.add(sizes[0])
                sizes[0] *= 2
        found.update(sizes)
    return tuple(sorted(found))


def _whole(text: str) -> int | None:
    word = text.strip().replace("_", "")
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 19 else None


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
    """One mechanism and size: sums over all measured messages, picoseconds."""

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
        """Host cycles until the receiver detects the message: without its loads."""
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
    """All latencies."""

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
        """One latency; ``KeyError`` if it was not asked for."""
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
    """Play ping-pong for every mechanism and size.  ``watch`` hears packets (sent, to be sent).

    Errors: ``PlatformError``, ``SimulationError`` for settings that make no machine.
    """
    changes = dict(question.settings)
    platform = load_platform(question.platform)
    design, translating = translated(question)
    if translating is not None:
        platform = completed(platform, load_platform(translating.platform), costs_needed_by(design))
    for name in question.mechanisms:
        check_runs(Combination("VIA", platform, name, with_settings(design, [f"way={name}"])))
    settings = settings_of(platform, changes)
    latencies = []
    games = [
        (Setting(platform, name, changes, design, question.pages, question.delivery), size)
        for size in question.sizes
        for name in question.mechanisms
    ]
    packets = [2 * -(-size // settings.mtu) * sum(rounds_of(how, size)) for how, size in games]
    done, every = 0, sum(packets)
    for (how, size), sent in zip(games, packets, strict=True):
        found = ping_pong(how, size)
        parts = {part.name.lower(): found.parts[part] for part in Part}
        latencies.append(
            Latency(how.way, size, found.messages, found.total, parts, found.lookups, found.misses)
        )
        done += sent
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
