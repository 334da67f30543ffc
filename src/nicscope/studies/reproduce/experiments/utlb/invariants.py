"""What Tables 4 and 5 imply for any trace (UT-93), put to the test on one made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.design import load_design, with_settings
from nicscope.studies.reproduce.shared_memory_traffic import shared_memory_traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.reproduce.verdict import Item, Outcome
    from nicscope.traces.schema import Requests

CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)
PIN_LIMIT = 256  # pages per process: few enough that the trace has to unpin
LIMITS = ("none", str(PIN_LIMIT))


def invariants(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the statements need no printed number
    """Replay both schemes at the five sizes, without and with a pin limit."""
    from nicscope.drivers.replay import replay

    check(outcome, shared_memory_traffic(), CACHE_ENTRIES, replay)


def check(
    outcome: Outcome, requests: Requests, sizes: Sequence[int], replay: Callable[..., Any]
) -> None:
    """The four statements on ``requests``, for caches of ``sizes`` entries.

    A statement that the trace cannot break (nothing is ever unpinned, nothing misses) fails.
    """
    designs = [
        with_settings(load_design(name), [f"entries={entries}", f"pin_limit={limit}"])
        for name in ("utlb", "vmmc-interrupt")
        for limit in LIMITS
        for entries in sizes
    ]
    results = iter(replay([requests], designs, kinds=False))
    runs = {
        (scheme, limit): [next(results) for _ in sizes]
        for scheme in ("utlb", "interrupt")
        for limit in LIMITS
    }
    free, tight = runs["utlb", LIMITS[0]], runs["utlb", LIMITS[1]]
    checks = [{run.total["check_misses"] for run in group} for group in (free, tight)]
    outcome.shape(
        "check-misses-ignore-the-cache",
        all(len(values) == 1 for values in checks) and max(checks[1]) > max(checks[0]) > 0,
        f"{_set(checks[0])} without a limit, {_set(checks[1])} with {PIN_LIMIT} pages "
        f"per process, at {len(sizes)} cache sizes",
    )
    unpins = [sum(run.total["unpins"] for run in group) for group in (free, tight)]
    outcome.shape(
        "no-limit-no-unpin",
        unpins[0] == 0 and unpins[1] > 0,
        f"{unpins[0]} unpins without a limit, {unpins[1]} with one",
    )
    misses = [[run.total["ni_misses"] for run in runs[s, LIMITS[0]]] for s in ("utlb", "interrupt")]
    outcome.shape(
        "same-misses-without-limit",
        misses[0] == misses[1] and misses[0][0] > misses[0][-1],
        f"UTLB {misses[0]}, interrupts {misses[1]}",
    )
    residents = [
        (node["ni_misses"] - node["unpins"], entries)
        for limit in LIMITS
        for run, entries in zip(runs["interrupt", limit], sizes, strict=True)
        for node in run.nodes
    ]
    fullest = max(held / entries for held, entries in residents)
    outcome.shape(
        "interrupt-residents-fit",
        all(0 < held <= entries for held, entries in residents),
        f"at most {100 * fullest:.1f} % of a cache in {len(residents)} runs of a node",
    )


def _set(values: set[int]) -> str:
    return " or ".join(str(value) for value in sorted(values)) + " check misses"
