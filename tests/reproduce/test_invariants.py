"""The four statements of UT-93 are put to results that obey and to results that break them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nicscope.config.scheme import Scheme
from nicscope.studies.reproduce.experiments.utlb.invariants import check, shared_memory_traffic
from nicscope.studies.reproduce.verdict import Outcome

SIZES = (1024, 2048)


def lawful(design):
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


def shapes(counts_of):
    def replay(batches, designs, kinds):
        assert len(batches) == 1
        assert not kinds
        return [SimpleNamespace(total=c, nodes=[c]) for c in map(counts_of, designs)]

    outcome = Outcome()
    check(outcome, shared_memory_traffic(rows=10), SIZES, replay)
    return outcome.shapes


def is_utlb(design):
    return design.scheme is Scheme.UTLB


def test_lawful_results_pass():
    assert all(holds for holds, _ in shapes(lawful).values())


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        (lambda one, _: {"check_misses": one.entries or 0}, "check-misses-ignore-the-cache"),
        (lambda one, was: {"unpins": was["unpins"] + is_utlb(one)}, "no-limit-no-unpin"),
        (
            lambda one, was: {"ni_misses": was["ni_misses"] + is_utlb(one)},
            "same-misses-without-limit",
        ),
        (
            lambda one, was: {"unpins": was["unpins"] - (one.scheme is Scheme.INTERRUPT)},
            "interrupt-residents-fit",
        ),
    ],
)
def test_each_statement_fails_alone_when_it_is_broken(changed, broken):
    found = shapes(lambda one: {**lawful(one), **changed(one, lawful(one))})

    assert [name for name, (holds, _) in found.items() if not holds] == [broken]


def test_a_trace_that_shows_nothing_proves_nothing():
    nothing = dict.fromkeys(("check_misses", "ni_misses", "unpins"), 0)
    assert not any(holds for holds, _ in shapes(lambda _: nothing).values())


def test_the_traffic_is_the_same_each_time_and_reuses_pages():
    first, again = shared_memory_traffic(rows=4000), shared_memory_traffic(rows=4000)

    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert set(first.node.tolist()) == {0, 1}
    assert set(first.pid.tolist()) == {0, 1, 2, 3, 4}
    places = np.unique(first.address[(first.node == 0) & (first.pid == 0)])
    assert 100 < places.size < 400
    assert 0.4 < first.receive.mean() < 0.6
