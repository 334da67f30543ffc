"""Statements and accounts put to made-up results: what breaks them does not pass."""

from types import SimpleNamespace

import numpy as np
import pytest

from nicscope.config.design import Scheme
from nicscope.studies.reproduce.experiments.utlb import check, shared_memory_traffic
from nicscope.studies.reproduce.harness import reproduce
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


def lay_out(monkeypatch, tag_bytes, static_entry_bytes):
    """Let the replay report 4-byte entries, tags per line, and a fixed 100 bytes elsewhere."""

    def memory_of(design):
        entries = design.entries or 0
        if design.scheme is Scheme.STATIC:
            return {"table": static_entry_bytes * entries, "registers": 100}
        return {"entries": 4 * entries, "tags": tag_bytes * entries // (design.line or 1)}

    def replay(batches, designs, kinds):
        (batch,) = batches
        assert (batch.length.tolist(), kinds) == ([4096], False)
        return [SimpleNamespace(nic_memory_bytes=memory_of(design)) for design in designs]

    monkeypatch.setattr("nicscope.drivers.replay.replay", replay, raising=False)


@pytest.mark.parametrize(("tag_bytes", "meets"), [(44, True), (0, False), (100, False)])
def test_the_best_cache_meets_its_75_kb_with_44_bytes_of_tags_a_line(monkeypatch, tag_bytes, meets):
    lay_out(monkeypatch, tag_bytes, static_entry_bytes=4)

    found = reproduce(["mini/figure3"])

    (point,) = found.points
    assert (point.reproduced == 75) is point.ok is meets
    if meets:
        assert found.misses() == []
        assert "entries 65536, tags 11264" in found.shapes[1].evidence


@pytest.mark.requirement("MI-51", weak="all but what 64 GB would take")
@pytest.mark.parametrize(("entry_bytes", "mbytes"), [(4, 64), (2, 32), (8, 128)])
def test_64_gb_take_what_an_entry_takes_per_page(monkeypatch, entry_bytes, mbytes):
    lay_out(monkeypatch, tag_bytes=0, static_entry_bytes=entry_bytes)

    (point,) = reproduce(["mini/extrapolation"]).points

    assert point.reproduced == mbytes
    assert point.ok is (mbytes == 64)
