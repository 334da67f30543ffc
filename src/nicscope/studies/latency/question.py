"""What is asked of ``nicscope latency``, checked before anything is simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import StudyError, did_you_mean
from nicscope.nic.coherent.mechanism import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 65536
DEFAULT_MECHANISMS = "edt,cc-dma-intervention,cc-dma-retry,cni,dma,pio"
DEFAULT_BYTES = "64..4096"
PLATFORM = "sonic-via"


class Question(NamedTuple):
    """Which messages, how, on what."""

    mechanisms: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes, ascending
    platform: str = PLATFORM
    settings: tuple[tuple[str, int], ...] = ()  # name, value


def ask(
    *,
    mechanisms: str = DEFAULT_MECHANISMS,
    sizes: str = DEFAULT_BYTES,
    platform: str = PLATFORM,
    mtu: int | None = None,
    dma_rate: int | None = None,
    overrides: Sequence[str] = (),
) -> Question:
    """The question in the words of the command line.

    Errors: ``StudyError`` for the first word that makes no sense.
    """
    names = tuple(dict.fromkeys(word.strip() for word in mechanisms.split(",")))
    for name in names:
        if name not in NAMES:
            raise StudyError(f"no mechanism {name!r}{did_you_mean(name, NAMES)}")
    settings: dict[str, int] = {}
    for option, name, value in (("--mtu", "mtu", mtu), ("--dma-rate", "dma_mbytes_s", dma_rate)):
        if value is not None:
            if value < 1:
                raise StudyError(f"{option} must be at least 1, got {value}")
            settings[name] = value
    for override in overrides:
        name, equals, text = override.partition("=")
        number = _whole(text)
        if not equals or number is None:
            raise StudyError(
                f"--set must be NAME=NUMBER, such as cache_supply=60000; got {override!r}"
            )
        settings[name.strip()] = number
    return Question(names, _sizes(sizes), platform, tuple(settings.items()))


def _sizes(text: str) -> tuple[int, ...]:
    """Bytes that a list such as ``64,1500`` or ``64..4096``, by powers of two, names."""
    found: set[int] = set()
    for word in text.split(","):
        low, dots, high = word.partition("..")
        ends = [_whole(one) for one in ([low, high] if dots else [low])]
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
