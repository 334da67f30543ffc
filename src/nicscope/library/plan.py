"""``nicscope plan``: how a pool is cut into regions that NICs and libraries allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nicscope.config.quantities import COUNT_SPELLINGS, read_count
from nicscope.errors import StudyError
from nicscope.library.command import Option, Text, command, some_bytes

if TYPE_CHECKING:
    from nicscope.config.costs import Limit
    from nicscope.reports.plan import ShownPlans


@command(
    "nicscope plan --pool 789GiB --max-mr 512GiB --max-entries 24M --kv-block 2MiB "
    "--page-size 2MiB",
    "nicscope plan --pool 1TiB --limits efa,mooncake",
    out="Folder for results.json, plans.parquet, regions.parquet and a figure.",
)
def plan(
    repeat: list[str],
    /,
    pool: Annotated[Text, Option("BYTES", "The memory that is to be registered.")],
    *,
    max_mr: Annotated[Text, Option("BYTES", "Of a region at most; default any.")] = None,
    max_entries: Annotated[
        Text, Option("N", "Page entries of a NIC at most, such as 24M; default any.")
    ] = None,
    limits: Annotated[
        Text,
        Option(
            "NAME|FILE,...",
            "More limits, of NICs and libraries; of all the tightest hold.",
            offers="limits",
        ),
    ] = None,
    kv_block: Annotated[
        Text, Option("BYTES", "What must lie in one region: a block of a KV cache.")
    ] = "64KiB",
    page_size: Annotated[
        Text,
        Option(
            "BYTES,...",
            "Pages that back the pool, and what an entry maps.",
            ("--page", "--page-size"),
        ),
    ] = "4K,64K,2M,1G",
) -> ShownPlans:
    """Cut a pool into regions under limits of bytes, entries and alignment; say what would fit."""
    from nicscope.reports.plan import ShownPlans
    from nicscope.studies.planning import Wanted, plan_all

    tightest = _tightest(max_mr, max_entries, limits.split(",") if limits else [])
    wanted = Wanted(some_bytes("--pool", pool), some_bytes("--kv-block", kv_block), tightest)
    sizes = [some_bytes("--page-size", each) for each in page_size.split(",")]
    return ShownPlans(plan_all(wanted, sizes, repeat))


def _tightest(max_mr: str | None, max_entries: str | None, named: list[str]) -> dict[str, Limit]:
    """The smallest limit of each kind.  Errors: ``NicscopeError`` for one that is none."""
    from nicscope.config.costs import Evidence, Limit, Origin, load_limits

    given: dict[str, list[Limit]] = {"region_bytes": [], "entries": []}

    def add(name: str, most: int, option: str) -> None:
        given[name].append(Limit(most, Origin(Evidence.ASSUMED, f"given: {option}")))

    if max_mr is not None:
        add("region_bytes", some_bytes("--max-mr", max_mr), "--max-mr")
    if max_entries is not None:
        add("entries", _count("--max-entries", max_entries), "--max-entries")
    for each in named:
        for key, limit in load_limits(each).limits.items():
            given[key].append(limit)
    return {key: min(found, key=lambda limit: limit.most) for key, found in given.items() if found}



def _count(option: str, given: Any) -> int:
    many = given if isinstance(given, int) else read_count(str(given))
    if not many or many < 1:
        raise StudyError(f"{option} must be a number, {COUNT_SPELLINGS}; got {given!r}")
    return many
