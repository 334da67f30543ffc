"""Cutting pools into regions: what ``nicscope plan`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.quantities import BYTE_SPELLINGS, COUNT_SPELLINGS, read_bytes, read_count
from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, word

if TYPE_CHECKING:
    from nicscope.config.costs import Limit
    from nicscope.library.command import Word
    from nicscope.reports.plan import ShownPlans


@in_one_line
def plan(
    pool: str | int,
    *,
    max_mr: str | int | None = None,
    max_entries: str | int | None = None,
    limits: Word = None,
    kv_block: str | int = "64KiB",
    page_size: Word = "4K,64K,2M,1G",
) -> ShownPlans:
    """Cut a pool of memory into regions that NICs and libraries allow.

    Args:
        pool: bytes, such as ``"789GiB"``.
        max_mr: bytes of a region at most.
        max_entries: entries of a NIC's table at most, such as ``"24M"``.
        limits: more of both, by name (``"efa"``, ``"erdma"``, ``"ionic"``, ``"mooncake"``,
            ``"ucx"``) or a TOML file; one or several.  Of all limits the tightest hold.
        kv_block: bytes that must lie in one region, such as a block of a KV cache.
        page_size: sizes of the pages that back the pool; one or several.

    Errors: ``NicscopeError`` for what cannot be.

    """
    from nicscope.reports.plan import ShownPlans
    from nicscope.studies.planning import Wanted, plan_all

    named, pages = word("limits", limits), word("page_size", page_size) or ""
    tightest = _tightest(max_mr, max_entries, named.split(",") if named else [])
    wanted = Wanted(_bytes("--pool", pool), _bytes("--kv-block", kv_block), tightest)
    options = {
        "--pool": pool,
        "--max-mr": max_mr,
        "--max-entries": max_entries,
        "--limits": named,
        "--kv-block": kv_block,
        "--page-size": pages,
    }
    sizes = [_bytes("--page-size", each) for each in pages.split(",")]
    return ShownPlans(plan_all(wanted, sizes, command_line(["plan"], options)))


def _tightest(
    max_mr: str | int | None, max_entries: str | int | None, named: list[str]
) -> dict[str, Limit]:
    """The smallest limit of each kind.  Errors: ``NicscopeError`` for one that is none."""
    from nicscope.config.costs import Evidence, Limit, Origin, load_limits

    given: dict[str, list[Limit]] = {"region_bytes": [], "entries": []}

    def add(name: str, most: int, option: str) -> None:
        given[name].append(Limit(most, Origin(Evidence.ASSUMED, f"given: {option}")))

    if max_mr is not None:
        add("region_bytes", _bytes("--max-mr", max_mr), "--max-mr")
    if max_entries is not None:
        add("entries", _count("--max-entries", max_entries), "--max-entries")
    for each in named:
        for key, limit in load_limits(each).limits.items():
            given[key].append(limit)
    return {key: min(found, key=lambda limit: limit.most) for key, found in given.items() if found}


def _bytes(option: str, given: Any) -> int:
    size = given if isinstance(given, int) else read_bytes(str(given))
    if not size or size < 1:
        raise StudyError(f"{option} must be bytes, {BYTE_SPELLINGS}; got {given!r}")
    return size


def _count(option: str, given: Any) -> int:
    many = given if isinstance(given, int) else read_count(str(given))
    if not many or many < 1:
        raise StudyError(f"{option} must be a number, {COUNT_SPELLINGS}; got {given!r}")
    return many
