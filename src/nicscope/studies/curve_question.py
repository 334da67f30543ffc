"""What is asked of ``nicscope curve``, checked before any trace is opened."""

from __future__ import annotations

from typing import NamedTuple

from nicscope.config.scheme import Scheme, read_setting
from nicscope.errors import StudyError, did_you_mean

MOST_ENTRIES = 1 << 26  # as of a design
USUAL_ENTRIES = 1 << 16  # of caches with sets, unless more are asked for
MOST_WAYS = 16
MOST_LINE = 128
MOST_SEED = 2**62
WAYS = (1, 2, 4, 8)
BY = ("trace", "node", "process")


class Question(NamedTuple):
    """Which curves are wanted."""

    ways: tuple[int, ...] = WAYS  # ascending
    lines: tuple[int, ...] = (1,)  # pages, ascending
    entries: tuple[int, int] | None = None  # least and most; None: as the footprint suggests
    by: str = "trace"
    sample: float | None = None  # the share of pages to sample
    offset: bool = True
    page_size: int | None = None  # None: the trace's
    seed: int = 0  # which pages are sampled
    skip: int = 0  # requests that only fill the caches


def ask(
    *,
    ways: str | None = None,
    line: str = "1",
    entries: str | None = None,
    by: str = "trace",
    sample: float | None = None,
    seed: int | None = None,
    offset: bool = True,
    page_size: str | None = None,
    skip: int = 0,
) -> Question:
    """The question in the words of the command line.

    Errors: ``StudyError`` for the first word that makes no sense, ``DesignError`` for a page size.
    """
    if by not in BY:
        raise StudyError(f"no curves by {by!r}{did_you_mean(by, BY)}")
    if sample is not None and not 0 < sample <= 1:
        raise StudyError(f"--sample must be above 0 and at most 1, got {sample!r}")
    if sample is not None and ways is not None:
        raise StudyError("--ways cannot be sampled: sets need every lookup; leave out one of both")
    if seed is not None and sample is None:
        raise StudyError("--seed says which pages are sampled; give --sample, or leave it out")
    if seed is not None and not 0 <= seed <= MOST_SEED:
        raise StudyError(f"--seed must be from 0 to {MOST_SEED}, got {seed!r}")
    if skip < 0:
        raise StudyError(f"--skip must be a number of requests, 0 or more, got {skip}")
    size = None
    if page_size is not None:
        size = read_setting(Scheme.UTLB, "page_size", page_size, "--page-size")
        assert size is None or isinstance(size, int)
    span = None if entries is None else _span(entries)
    lines = _powers("--line", line, MOST_LINE)
    if span is not None and lines[-1] > span[1]:
        raise StudyError(f"a line of {lines[-1]} pages does not fit in {span[1]} entries")
    listed = WAYS if ways is None else _powers("--ways", ways, MOST_WAYS)
    return Question(listed, lines, span, by, sample, offset, size, seed or 0, skip)


def _is_power(number: int) -> bool:
    return number > 0 and not number & (number - 1)


def _powers(option: str, text: str, most: int) -> tuple[int, ...]:
    """Powers of two up to ``most`` in a list such as ``1,2,4``; each once, ascending."""
    found = set()
    for word in text.split(","):
        number = _whole(word)
        if number is None or not _is_power(number) or number > most:
            raise StudyError(
                f"{option} must list powers of two from 1 to {most}, such as 1,2,4; got {word!r}"
            )
        found.add(number)
    return tuple(sorted(found))


def _span(text: str) -> tuple[int, int]:
    """The ends of a range such as ``256..65536``; a single number is both."""
    low, dots, high = text.partition("..")
    ends = _whole(low), _whole(high if dots else low)
    for end in ends:
        if end is None or not _is_power(end) or end > MOST_ENTRIES:
            raise StudyError(
                f"--entries must be two powers of two from 1 to {MOST_ENTRIES}, "
                f"such as 256..65536; got {text!r}"
            )
    least, most = ends
    assert least is not None
    assert most is not None
    if least > most:
        raise StudyError(f"--entries must ascend, such as {most}..{least}; got {text!r}")
    return least, most


def _whole(word: str) -> int | None:
    word = word.strip()
    return int(word) if word.isascii() and word.isdecimal() else None


def fitting_entries(footprint: int) -> tuple[int, int]:
    """Entries that show most of what caches can do for ``footprint`` pages.

    256 to 65536, or to where all pages are held, for all but small footprints; for these, 1/32 of
    it to four times as many.
    """
    power = 1 << max(footprint - 1, 0).bit_length()
    if power >= 1 << 13:
        return 1 << 8, min(max(power, USUAL_ENTRIES), MOST_ENTRIES)
    return max(1, power >> 5), max(8, power << 2)
