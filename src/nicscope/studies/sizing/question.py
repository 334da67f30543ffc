"""What is asked of ``nicscope size``, checked before any trace is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.byte_size import read_bytes
from nicscope.config.nic_memory import excess_of
from nicscope.config.platform import Platform, load_platform
from nicscope.config.scheme import Scheme, read_setting
from nicscope.errors import StudyError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_BYTES = 1 << 40
PAGE_SIZES = "page-sizes"  # a word of --only
USUAL_PAGE_SIZES = "4KiB,2MiB,1GiB"


class Question(NamedTuple):
    """Within what budgets, and by which costs, designs are to be sized."""

    nic_bytes: int  # of each NIC
    pin_bytes: int | None = None  # of each host; None: no limit
    platform: Platform | None = None  # None: the fewest misses are best
    platform_given: str | None = None  # how it was asked for: a name, or a file
    target_us: float | None = None  # per lookup
    page_sizes: tuple[int, ...] = ()  # to be set side by side, in the order given
    only: tuple[str, ...] = ()  # families, by their schemes; none named: all, unless ``only_pages``
    only_pages: bool = False  # no families, but for those that ``only`` names

    def sizes(self, scheme: Scheme) -> bool:
        """Whether the family of ``scheme`` is to be sized."""
        return scheme.value in self.only if self.only or self.only_pages else True


def ask(
    nic_memory: str,
    *,
    pin_memory: str | None = None,
    platform: str | Path | Platform | None = None,
    target_us: float | None = None,
    page_sizes: str | None = None,
    only: Sequence[str] = (),
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
    families = _families(only, page_sizes)
    only_pages = PAGE_SIZES in only
    if page_sizes is None and only_pages:
        page_sizes = USUAL_PAGE_SIZES
    sizes = () if page_sizes is None else read_page_sizes(page_sizes)
    costs = None if platform is None else load_platform(platform)
    excess = None if costs is None else excess_of({"the budget": nic_bytes}, costs)
    if excess is not None:
        raise StudyError(f"--nic-memory {nic_memory}: {excess}; give no more than it has")
    given = None if platform is None else _called(platform)
    return Question(nic_bytes, pin_bytes, costs, given, target_us, sizes, families, only_pages)


def _called(platform: str | Path | Platform) -> str:
    return platform.name if isinstance(platform, Platform) else str(platform)


def _families(only: Sequence[str], page_sizes: str | None) -> tuple[str, ...]:
    """The families among the words of ``--only``."""
    names = [PAGE_SIZES, *(scheme.value for scheme in Scheme)]
    for word in only:
        if word not in names:
            raise StudyError(f"--only: no family {word!r}{did_you_mean(word, names)}")
    if only and page_sizes is not None and PAGE_SIZES not in only:
        raise StudyError(
            f"--page-size {page_sizes} asks for what --only leaves out; add --only {PAGE_SIZES}"
        )
    return tuple(dict.fromkeys(word for word in only if word != PAGE_SIZES))


def _budget(option: str, text: str, example: str) -> int:
    count = read_bytes(text)
    if count is None:
        raise StudyError(f"{option} must be a number of bytes, such as {example}; got {text!r}")
    if not 1 <= count <= MOST_BYTES:
        raise StudyError(f"{option} must be from 1B to {MOST_BYTES >> 40} TiB, got {text!r}")
    return count


def read_page_sizes(text: str) -> tuple[int, ...]:
    """The sizes in a list such as ``4KiB,2MiB``, each once.  Errors: ``StudyError``."""
    found: list[int] = []
    for word in text.split(","):
        size = read_setting(Scheme.UTLB, "page_size", word.strip(), "--page-size")
        if not isinstance(size, int):
            raise StudyError(f"--page-size must list sizes, such as 4KiB,2MiB; got {word!r}")
        if size not in found:
            found.append(size)
    return tuple(found)
