"""What is reproduced of Eager Data Transfer, and what the paper's own numbers do not allow."""

from __future__ import annotations

import pytest

from nicscope.studies.reproduce.harness import reproduce

# Thousands of counted messages, and latencies at seven sizes: for the compiler.
pytestmark = pytest.mark.compiled


@pytest.mark.requirement("ED-82", "ED-83", "ED-84", "ED-85", "ED-81", "ED-80")
def test_all_is_met_but_the_misses_that_the_catalog_lists() -> None:
    found = reproduce(["edt"])

    assert found.as_known(), [*found.misses(), *found.met]
    assert {one.id for one in found.misses()} == {"crossover", "dma_rate", "figure8"}


@pytest.mark.requirement("ED-45", "ED-46", "ED-86")
def test_bus_transactions_are_the_papers_exactly() -> None:
    found = reproduce(["edt/bus_transactions"])

    assert [point.reproduced for point in found.points] == [2, 2, 2, 2]


def test_three_anchors_are_fitted_and_no_count_is_predicted() -> None:
    found = reproduce(["edt"])

    fitted = {point.quantity for point in found.points if point.basis == "fitted"}
    assert fitted == {"gain[bytes=64] %", "gain[bytes=4096] %", "low_end_fitted_at_1200 %"}
    predicted = {point.id for point in found.points if point.basis == "predicted"}
    assert predicted == {"dma_rate", "contention", "crossover", "figure8"}
