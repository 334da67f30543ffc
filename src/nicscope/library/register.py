"""Registering pools of memory: what ``nicscope register`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError, in_one_line
from nicscope.inputs import read_whole
from nicscope.library.command import command_line, word

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.library.command import Word
    from nicscope.reports.register import ShownRegistrations

MOST_FILE = 1 << 26  # bytes of a list of regions
MOST_REGIONS = 1 << 24
_SWITCHES = {"no": False, "yes": True}
ORDERS = ("given", "ascending", "descending")


@in_one_line
def register(
    byte_count: str | int | None = None,
    *,
    page: Word = "4K,64K,2M,1G",
    regions: str | int | Path = 1,
    order: str = "given",
    nics: Word = 1,
    threads: Word = 1,
    at_once: Word = "no",
    touched: Word = "no",
    cache: Word = "none",
    costs: str = "connectx",
) -> ShownRegistrations:
    """Tell how long it takes to register memory at RDMA NICs, by parts.

    Args:
        byte_count: of the pool, such as ``"1TiB"``; None where ``regions`` is a file.
        page: sizes of the host's pages, and of NICs' entries.
        regions: into how many equal regions the pool is cut, or a file with a size a line, or a
            table with columns ``bytes`` and ``address``.
        order: in which a file's regions are registered: ``given``, ``ascending``, ``descending``.
        nics: at which all of it is registered; one number or several.
        threads: that touch and pin; one number or several.
        at_once: ``no``, ``yes``, or both: whether NICs are served at the same time.
        touched: ``no``, ``yes``, or both: whether the memory has been touched before.
        cache: what a library makes of such a table: a registration for each line (``none``), for
            each that differs (``exact``), for all that touch (``range``); one or several.
        costs: of registration, by name or a TOML file.

    Errors: ``NicscopeError`` for what cannot be.

    """
    from nicscope.config.rdma_costs import load_registration_costs
    from nicscope.reports.register import ShownRegistrations
    from nicscope.studies.registering import pools, register_all

    caches = word("cache", cache) or "none"
    lists = {each: _regions(byte_count, regions, order, each) for each in caches.split(",")}
    texts = {
        "--page": word("page", page),
        "--nics": word("nics", nics),
        "--threads": word("threads", threads),
        "--at-once": word("at_once", at_once),
        "--touched": word("touched", touched),
    }
    ways = (
        [_bytes("--page", each) for each in _several(texts["--page"])],
        [_count("--nics", each) for each in _several(texts["--nics"])],
        [_count("--threads", each) for each in _several(texts["--threads"])],
        [_switch("--at-once", each) for each in _several(texts["--at-once"])],
        [_switch("--touched", each) for each in _several(texts["--touched"])],
    )
    every = [pool for each, sizes in lists.items() for pool in pools(sizes, *ways, each)]
    priced = load_registration_costs(costs)
    options = {
        **texts,
        "--regions": None if str(regions) == "1" else str(regions),
        "--order": None if order == ORDERS[0] else order,
        "--cache": None if caches == "none" else caches,
        "--costs": costs,
    }
    words = ["register", *([] if byte_count is None else [str(byte_count)])]
    return ShownRegistrations(register_all(every, priced, command_line(words, options)))


def _several(text: str | None) -> list[str]:
    return [] if text is None else text.split(",")


def _bytes(what: str, text: str | int) -> int:
    count = text if isinstance(text, int) else read_bytes(text)
    if not count:
        raise StudyError(f"{what} must be bytes, {BYTE_SPELLINGS}; got {text!r}")
    return count


def _count(option: str, text: str) -> int:
    if not text.isdecimal():
        raise StudyError(f"{option} must be whole numbers, got {text!r}")
    return int(text)


def _switch(option: str, text: str) -> bool:
    named = {"True": "yes", "False": "no"}.get(text, text)
    if named not in _SWITCHES:
        raise StudyError(f"{option} must be no, yes, or no,yes; got {text!r}")
    return _SWITCHES[named]


def _regions(
    byte_count: str | int | None, regions: str | int | Path, order: str, cache: str
) -> list[int]:
    """Bytes of each region.  Errors: ``StudyError`` naming the line of a file that is no size."""
    if order not in ORDERS:
        raise StudyError(f"--order must be {', '.join(ORDERS)}; got {order!r}")
    if isinstance(regions, int) or (isinstance(regions, str) and regions.isdecimal()):
        if byte_count is None:
            raise StudyError("how much is registered? Give BYTES, or --regions FILE")
        if cache != "none":
            raise StudyError("--cache is of lines with addresses; give --regions FILE")
        return _equal(_bytes("BYTES", byte_count), int(regions))
    if byte_count is not None:
        raise StudyError(f"{regions} says what is registered; leave {byte_count} out")
    from nicscope.studies.registering import read_regions, registered

    text = read_whole(str(regions), MOST_FILE, StudyError).decode(errors="replace")
    sizes = registered(read_regions(text, str(regions)), cache, str(regions))
    if not sizes:
        raise StudyError(f"{regions}: names no region; give a size a line, or bytes and address")
    if order != ORDERS[0]:
        sizes.sort(reverse=order == "descending")
    return sizes


def _equal(byte_count: int, many: int) -> list[int]:
    if not 1 <= many <= min(byte_count, MOST_REGIONS):
        raise StudyError(f"--regions must be from 1 to {min(byte_count, MOST_REGIONS)}, got {many}")
    each, rest = divmod(byte_count, many)
    return [each + (place < rest) for place in range(many)]
