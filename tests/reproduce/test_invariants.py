"""The four statements of UT-93 are put to results that obey and to results that break them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nicscope.config.scheme import Scheme
from nicscope.studies.reproduce.experiments.utlb.invariants import check, shared_memory_traffic
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.config.design import Design

SIZES = (1024, 2048)


def lawful(design: Design) -> dict[str, int]:
    """Counts of one node that obey all four statements."""
    entries = design.entries or 0
    misses = 9000 - entries
    if design.scheme is Scheme.INTERRUPT:
        return {"check_misses": 0, "ni_misses": misses, "unpins": misses - entries}
    limited = design.pin_limit is not None
    return {
        "check_misses": 5000 if limited else 3000,
        "ni_misses": misses,
        "unpins": 2000 if limited else 0,
    }


def shapes(counts_of: Callable[[Design], dict[str, int]]) -> dict[str, tuple[bool, str]]:
    def replay(batches: list[Any], designs: list[Design], kinds: bool) -> list[Any]:
        assert len(batches) == 1
        assert not kinds
        return [SimpleNamespace(total=c, nodes=[c]) for c in map(counts_of, designs)]

    outcome = Outcome()
    check(outcome, shared_memory_traffic(rows=10), SIZES, replay)
    return outcome.shapes


def test_lawful_results_pass() -> None:
    assert all(holds for holds, _ in shapes(lawful).values())


def check_misses_follow_the_cache(design: Design) -> dict[str, int]:
    return {**lawful(design), "check_misses": design.entries or 0}


def utlb_unpins_without_limit(design: Design) -> dict[str, int]:
    counts = lawful(design)
    return {**counts, "unpins": counts["unpins"] + (design.scheme is Scheme.UTLB)}


def utlb_misses_once_more(design: Design) -> dict[str, int]:
    counts = lawful(design)
    return {**counts, "ni_misses": counts["ni_misses"] + (design.scheme is Scheme.UTLB)}


def one_resident_too_many(design: Design) -> dict[str, int]:
    counts = lawful(design)
    return {**counts, "unpins": counts["unpins"] - (design.scheme is Scheme.INTERRUPT)}


def nothing_happens(_: Design) -> dict[str, int]:
    return {"check_misses": 0, "ni_misses": 0, "unpins": 0}


@pytest.mark.parametrize(
    ("unlawful", "broken"),
    [
        (check_misses_follow_the_cache, "check-misses-ignore-the-cache"),
        (utlb_unpins_without_limit, "no-limit-no-unpin"),
        (utlb_misses_once_more, "same-misses-without-limit"),
        (one_resident_too_many, "interrupt-residents-fit"),
    ],
)
def test_each_statement_fails_alone_when_it_is_broken(
    unlawful: Callable[[Design], dict[str, int]], broken: str
) -> None:
    failed = [name for name, (holds, _) in shapes(unlawful).items() if not holds]

    assert failed == [broken]


def test_a_trace_that_shows_nothing_proves_nothing() -> None:
    assert not any(holds for holds, _ in shapes(nothing_happens).values())


def test_the_traffic_is_the_same_each_time_and_reuses_pages() -> None:
    first, again = shared_memory_traffic(rows=4000), shared_memory_traffic(rows=4000)

    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert set(first.node.tolist()) == {0, 1}
    assert set(first.pid.tolist()) == {0, 1, 2, 3, 4}
    places = np.unique(first.address[(first.node == 0) & (first.pid == 0)])
    assert 100 < places.size < 400
    assert 0.4 < first.receive.mean() < 0.6
