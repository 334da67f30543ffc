"""What is asked of ``nicscope size``, checked before any trace is opened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.nic_memory import excess_of
from nicscope.config.platform import load_platform
from nicscope.config.scheme import BYTE_UNITS, Scheme, read_setting
from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.platform import Platform

_BYTES = re.compile(r"([0-9]{1,18})\s*([a-zA-Z]*)")
MOST_BYTES = 1 << 40


class Question(NamedTuple):
    """Within what budgets, and by which costs, designs are to be sized."""

    nic_bytes: int  # of each NIC
    pin_bytes: int | None = None  # of each host; None: no limit
    platform: Platform | None = None  # None: the fewest misses are best
    platform_given: str | None = None  # how it was asked for: a name, or a file
    target_us: float | None = None  # per lookup
    page_sizes: tuple[int, ...] = ()  # to be set side by side, in the order given


def ask(
    nic_memory: str,
    *,
    pin_memory: str | None = None,
    platform: str | None = None,
    target_us: float | None = None,
    page_sizes: str | None = None,
) -> Question:
    """The question in the words of the command line.

    Errors: ``StudyError`` for the first word that makes no sense, ``PlatformError`` for a
    platform, ``DesignError`` for a page size.
    """
    nic_bytes = _budget("--nic-memory", nic_memory, "128KiB")
    pin_bytes = None if pin_memory is None else _budget("--pin-memory", pin_memory, "4MiB")
    if target_us is not None and platform is None:
        raise StudyError("--target-us needs costs; name a platform with --platform")
    if target_us is not None and not 0 < target_us < float("inf"):
        raise StudyError(f"--target-us must be above 0, got {target_us!r}")
    sizes = () if page_sizes is None else _page_sizes(page_sizes.split(","))
    costs = None if platform is None else load_platform(platform)
    excess = None if costs is None else excess_of({"the budget": nic_bytes}, costs)
    if excess is not None:
        raise StudyError(f"--nic-memory {nic_memory}: {excess}; give no more than it has")
    return Question(nic_bytes, pin_bytes, costs, platform, target_us, sizes)


def _budget(option: str, text: str, example: str) -> int:
    found = _BYTES.fullmatch(text.strip())
    unit = BYTE_UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise StudyError(f"{option} must be a number of bytes, such as {example}; got {text!r}")
    count = int(found[1]) * unit
    if not 1 <= count <= MOST_BYTES:
        raise StudyError(f"{option} must be from 1B to {MOST_BYTES >> 40} TiB, got {text!r}")
    return count


def _page_sizes(words: Sequence[str]) -> tuple[int, ...]:
    found: list[int] = []
    for word in words:
        size = read_setting(Scheme.UTLB, "page_size", word.strip(), "--page-size")
        if not isinstance(size, int):
            raise StudyError(f"--page-size must list sizes, such as 4KiB,2MiB; got {word!r}")
        if size not in found:
            found.append(size)
    return tuple(found)
