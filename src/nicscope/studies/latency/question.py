"""What is asked of ``nicscope latency``, checked before anything is simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.byte_size import read_bytes
from nicscope.config.cost_name import COSTS
from nicscope.config.delivery import MESSAGE_STORE_AND_FORWARD, POLICIES, Policy, Way
from nicscope.config.machine import MACHINE, read_number
from nicscope.config.platform import read_cost
from nicscope.errors import StudyError, did_you_mean
from nicscope.interfaces.via.cluster import DELIVERIES
from nicscope.interfaces.ways import why_no_way

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    """Which messages, how, on what."""

    mechanisms: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes, ascending
    platform: str | Path | Platform = PLATFORM
    settings: tuple[tuple[str, int], ...] = ()  # name, value
    translation: str | None = None  # a scheme, or a design; None: a table on the NIC
    entries: int | None = None  # of its cache; None: the design's
    pages: int = 1  # buffers that messages use in turn
    delivery: str = MESSAGE_STORE_AND_FORWARD


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
    """The question in the words of the command line.

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
    """The mechanisms that are asked for; by default all of the usual for which it makes sense."""
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
    makes_no_sense = {name: why_no_way("VIA", name, cuts_through=cuts_through) for name in names}
    if mechanisms is None:
        return tuple(name for name in names if makes_no_sense[name] is None)
    for why in makes_no_sense.values():
        if why is not None:
            raise StudyError(str(why))
    return names


def _sizes(text: str) -> tuple[int, ...]:
    """Bytes that a list such as ``64,1500`` or ``64..4096``, by powers of two, names."""
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
